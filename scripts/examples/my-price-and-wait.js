/// <reference path="../headway.d.ts" />
// The built-in price-and-wait: what the call costs, and what the time costs that it takes.

/** @param {Job} job @param {Offer} offer @param {Auction} auction @returns {Score} */
function score(job, offer, auction) {
  // One offer without a prediction, and all are ranked by the charge alone: what is not known is neither good nor bad.
  if (!auction.complete) return offer.full ? [1, offer.charge_usd] : offer.charge_usd;
  return offer.charge_usd + offer.predicted_wait_ms / 3600000 * auction.time_value_usd_per_hour;
}
