/// <reference path="../headway.d.ts" />
// The built-in balanced: the cheapest offer whose first token comes within 1.5 × the soonest, then the others as they come.

/** @param {Job} job @param {Offer} offer @param {Auction} auction @returns {Score} */
function score(job, offer, auction) {
  const wait = offer.ttft_ms ?? auction.median_ttft_ms ?? 0;
  const soon = auction.lowest_ttft_ms === undefined || wait <= 1.5 * auction.lowest_ttft_ms;
  if (offer.full) return soon ? [Number.MAX_SAFE_INTEGER - 1, 0] : [Number.MAX_SAFE_INTEGER, wait];
  // The price as a tier, in whole picodollars, so that the wait decides between equal ones.
  return soon ? [Math.round(offer.price_usd * 1e12), wait] : [Number.MAX_SAFE_INTEGER - 2, wait];
}
