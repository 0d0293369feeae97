/// <reference path="../headway.d.ts" />
// While people wait, what answers soonest; at night and on weekends, what costs least. A script's clock is UTC.
const OPENS = 7, CLOSES = 17;

/** @param {Job} job @param {Offer} offer @param {Auction} auction @returns {Score} */
function score(job, offer, auction) {
  const now = new Date();
  const weekend = now.getUTCDay() === 0 || now.getUTCDay() === 6;
  const open = !weekend && now.getUTCHours() >= OPENS && now.getUTCHours() < CLOSES;
  if (open) return [offer.full ? 1 : 0, offer.predicted_wait_ms ?? offer.ttft_ms ?? auction.median_ttft_ms ?? 0];
  return [offer.full ? 1 : 0, offer.price_usd];
}
