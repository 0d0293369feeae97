/// <reference path="../headway.d.ts" />
// A tenth of the calls by the wait, the others by the charge.
// Compare them with headway strategy replay. Random numbers are those of the call, so the same call is ranked the same
// again. The top of a script runs once for each call.
const byWait = Math.random() < 0.1;

/** @param {Job} job @param {Offer} offer @param {Auction} auction @returns {Score} */
function score(job, offer, auction) {
  if (byWait && auction.complete) return offer.predicted_wait_ms;
  return offer.charge_usd;
}
