/// <reference path="../headway.d.ts" />
// The same tenant goes to the same offer while it is up, so that its cache stays warm.
// Each offer gets a number from the tenant and its id, and the lowest wins. Needs routing: {script_headers: [x-tenant]}.

/** @param {string} text */
function hash(text) {
  let h = 2166136261;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
  h = Math.imul(h ^ (h >>> 15), 2246822507);
  return (h ^ (h >>> 13)) >>> 0;
}

/** @param {Job} job @param {Offer} offer @returns {Score} */
function score(job, offer) {
  const tenant = job.headers["x-tenant"];
  if (tenant === undefined) return [0, offer.charge_usd];
  return [offer.full ? 1 : 0, hash(tenant + " " + offer.id)];
}
