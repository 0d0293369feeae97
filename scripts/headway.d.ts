// What a strategy of Headway sees. Put this file beside your scripts and begin each of them with
//   /// <reference path="./headway.d.ts" />
// so that an editor completes and checks it. A script is plain JavaScript with one function:
//   function score(job, offer, auction) { return offer.charge_usd; }
// It gives a number, the lowest first; or [tier, number], every lower tier first (a tier is a whole number); or null to
// leave the offer out. Ties go by charge_usd for a number and by price_usd for [tier, number], then by id. An unknown figure
// is undefined. Everything is read-only. Time is the call's, dates are in UTC. Classes and objects inherit from nothing: there
// is no extends, prototype, __proto__, Object.create or Object.defineProperty; nor are there regular expressions or JSON.

type Score = number | [tier: number, cost: number] | null;

interface Job {
  readonly model?: string; // as the client asked for it
  readonly streamed: boolean;
  readonly fresh_input_tokens: number; // estimated, at the offer that has the least of the prompt cached
  readonly cached_input_tokens: number;
  readonly expected_output_tokens: number;
  readonly max_output_tokens?: number; // as the client asked for it
  readonly headers: { readonly [name: string]: string | undefined }; // those of routing.script_headers, names in lower case
  readonly time_value_usd_per_hour: number;
}

interface Offer {
  readonly id: string;
  readonly provider?: string;
  readonly model?: string;
  readonly region?: string;
  readonly node?: string; // the machine whose model server it is; undefined: it is called over HTTP
  readonly labels: { readonly [name: string]: string | undefined };
  readonly full: boolean; // a node without a free slot: built-in strategies that ignore the wait put it last
  readonly input_usd_per_mtok: number;
  readonly output_usd_per_mtok: number;
  readonly cache_read_usd_per_mtok?: number; // absent: the input rate
  readonly fresh_input_tokens: number; // what this offer would have to process of the prompt
  readonly cached_input_tokens: number; // and what it would read from its cache
  readonly charge_usd: number; // fresh input + cached reads + expected output
  readonly price_usd: number; // uncached input + the output maximum: what cheapest compares
  readonly predicted_wait_ms?: number; // base latency + fresh ÷ prefill_tps + expected output ÷ output_tps + queue
  readonly queue_wait_ms?: number; // of a node
  readonly ttft_ms?: number; // live time to the first token
  readonly base_latency_ms?: number; // these three are medians of last week
  readonly prefill_tps?: number;
  readonly output_tps?: number;
  readonly own_output_jobs: number; // how many jobs of this provider's own are in output_tps
  readonly own_output_tps?: number; // their median alone
}

interface Auction {
  readonly time_value_usd_per_hour: number;
  readonly lowest_ttft_ms?: number; // of the offers that have one
  readonly median_ttft_ms?: number;
  readonly lowest_charge_usd: number;
  readonly count: number; // of offers
  readonly complete: boolean; // every offer has a predicted_wait_ms
}
