/// <reference path="../headway.d.ts" />
// The built-in fastest: the highest output speed of the provider's own jobs, where it has five of them; the rest by price.

/** @param {Job} job @param {Offer} offer @returns {Score} */
function score(job, offer) {
  const last = offer.full ? 2 : 0;
  if (offer.own_output_tps !== undefined && offer.own_output_jobs >= 5) return [last, -offer.own_output_tps];
  return [last + 1, 0];
}
