/// <reference path="../headway.d.ts" />
// The built-in cheapest: equal scores go by price_usd, exactly.

/** @param {Job} job @param {Offer} offer @returns {Score} */
function score(job, offer) {
  return [offer.full ? 1 : 0, 0];
}
