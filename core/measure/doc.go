// Package measure turns receipts into numbers: what a call's figures are, which
// medians a provider and model have over the last seven complete days, and how
// long a job would take. MEASURES.md defines every figure with worked examples.
//
// Three rules hold everywhere. A value that was not measured is absent, never 0.
// What a provider or node says of itself is shown as a figure of the call and
// never enters a measure. Everything between a receipt and a median is integer
// arithmetic, so that anyone gets the same number from the same receipts.
package measure
