/// <reference path="../headway.d.ts" />
// Own machines first, until their queue is long: give their offers labels: {own: "yes"}.
const LONGEST_QUEUE_MS = 5000;

/** @param {Job} job @param {Offer} offer @returns {Score} */
function score(job, offer) {
  const own = offer.labels.own === "yes" && !offer.full && (offer.queue_wait_ms ?? 0) <= LONGEST_QUEUE_MS;
  return [own ? 0 : 1, offer.charge_usd];
}
