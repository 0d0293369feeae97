// Package seal is the signed log of receipts (SPEC §11): the charge part of each
// receipt becomes a leaf of a Merkle tree, one tree per edge and month, and a
// signed checkpoint over its size and root follows each group. Whoever has one
// checkpoint sees every later edit, deletion or reordering. RECEIPT.md is the
// format, complete enough to write another verifier.
//
// [Sealer] is the log's end at the server: the one writer of receipts tells it of
// each (it is a [core.Recorder]), commits what it gives in the same transaction,
// and then lets it sign what is durable. [Export], [WriteTree] and [Prove] hand
// parts of a log to others; [Verify], [VerifyTree] and [VerifyProof] need nothing
// of the server.
package seal
