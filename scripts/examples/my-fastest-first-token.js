/// <reference path="../headway.d.ts" />
// The built-in fastest-first-token: an offer that was not measured counts as the median of the others.

/** @param {Job} job @param {Offer} offer @param {Auction} auction @returns {Score} */
function score(job, offer, auction) {
  return [offer.full ? 1 : 0, offer.ttft_ms ?? auction.median_ttft_ms ?? 0];
}
