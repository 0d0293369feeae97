/// <reference path="../headway.d.ts" />
// Own machines first, until their queue is long: nodes, and offers with labels: {own: "yes"} in the file.
// Where there are neither, as in the demo, all offers are in one tier and go by charge.
const LONGEST_QUEUE_MS = 5000;

/** @param {Job} job @param {Offer} offer @returns {Score} */
function score(job, offer) {
  const own = offer.node !== undefined || offer.labels.own === "yes";
  const free = !offer.full && (offer.queue_wait_ms ?? 0) <= LONGEST_QUEUE_MS;
  return [own && free ? 0 : 1, offer.charge_usd];
}
