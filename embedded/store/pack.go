package store

import (
	"github.com/klauspost/compress/s2"

	"headway/core"
)

// A receipt is kept packed: its field names and usual words are in a dictionary,
// so that a receipt of 2.8 KB takes 430 bytes. Each page of memory that is
// touched costs more than packing does (2 µs), and Badger touches it several
// times: in its log, in its table in memory, in its tables on disk.

// packed is the first byte of a packed receipt: the number of its dictionary. A
// dictionary never changes once receipts were kept with it; a better one gets
// another number, and the older ones stay to be read.
const packed = 2

// dictionary2 is a receipt with what most receipts have, in their order.
const dictionary2 = `{"id":"01kbcdefghjkmnpqrstvwxyz01","job":"01kbcdefghjkmnpqrstvwxyz01","step":"plan","kind":"job","kind":"probe","outcome":"failed","outcome":"truncated","outcome":"timeout","outcome":"client_gone","outcome":"settled","at":"2026-11-29T10:00:00.123456789Z","settled_at":"2026-11-29T10:00:01.123456789Z","key":"","owner":"","model":"","offer":"","provider":"","node":"","usage":{},"usage":{"uncached_input_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cache_write_1h_tokens":0,"output_tokens":0,"reasoning_tokens":0},"usage_from":"estimate","usage_from":"mixed","usage_from":"provider","prices":{"input_usd_per_mtok":"1","output_usd_per_mtok":"2","cache_read_usd_per_mtok":"0.1","cache_write_usd_per_mtok":"1.25","cache_write_1h_usd_per_mtok":"2"},"charge_usd":0.0000123,"status":502,"status":200,"operation":"embeddings","operation":"count_tokens","operation":"generate","format":"google","format":"anthropic","format":"openai-responses","format":"openai","upstream_format":"google","upstream_format":"anthropic","upstream_format":"openai-responses","upstream_format":"openai","streamed":false,"streamed":true,"finish_reason":"end_turn","finish_reason":"completed","finish_reason":"tool_calls","finish_reason":"length","finish_reason":"stop","timing":{"auth_ms":0.012,"distribution_ms":0.012,"body_read_ms":0.012,"upstream_headers_ms":123.456,"first_sse_event_ms":123.456,"first_response_ms":123.456,"first_text_delta_ms":123.456,"upstream_done_ms":1234.567,"total_handler_ms":1234.567,"visible_output_tps":12.345,"queued_ms":0.123,"first_token_ms":123.456,"prompt_ms":123.456,"prompt_tps":1234.567,"decode_ms":1234.567,"decode_tps":12.345,"figures_from":"server","figures_from":"stream","dispatch_to_first_token_ms":123.456,"first_token_to_end_ms":1234.567,"arrivals":12,"streamed_output_tokens":12,"fresh_input_tokens":12,"connection_reused":false,"dns_ms":0.123,"connect_ms":0.123,"tls_ms":0.123,"connection_reused":true},"slow":"upstream_headers_slow","slow":"first_output_slow","slow":"generation_slow_tps","attempts":[{"offer":"","status":500,"error":"status","error":"connect","outcome":"failed","timing":{"upstream_done_ms":12.345,"queued_ms":0.123,"connection_reused":true}},{"offer":"","status":200,"outcome":"settled","timing":{"upstream_headers_ms":123.456,"first_sse_event_ms":123.456,"first_response_ms":123.456,"first_text_delta_ms":123.456,"upstream_done_ms":1234.567,"queued_ms":0.123,"first_token_ms":123.456,"connection_reused":true}}],"decision":{"strategy":"cheapest","ranked_on":"price","strategy":"price-and-wait","ranked_on":"price-and-wait","offers":[{"offer":"","charge_usd":0.0000123,"predicted_wait_ms":1234.567,"score_usd":0.000123456789,"ttft_ms":123.456,"terms":{"base_ms":123.456,"prefill_ms":12.345,"output_ms":1234.567,"queue_ms":0},"fresh_input_tokens":12,"cached_input_tokens":0,"expected_output_tokens":500,"basis":{"input_usd_per_mtok":"0.15","output_usd_per_mtok":"0.6","cache_read_usd_per_mtok":"0.075","prefill_tps":1234.567,"output_tps":12.345,"own_output_jobs":123,"own_output_tps":12.345,"full":true}},{"offer":"","charge_usd":0.0000123,"predicted_wait_ms":1234.567,"score_usd":0.000123456789,"ttft_ms":123.456,"terms":{"base_ms":123.456,"prefill_ms":12.345,"output_ms":1234.567},"fresh_input_tokens":12,"cached_input_tokens":0,"expected_output_tokens":500,"basis":{"input_usd_per_mtok":"3","output_usd_per_mtok":"15","max_output_tokens":8192,"prefill_tps":1234.567,"output_tps":12.345,"own_output_jobs":123,"own_output_tps":12.345}},{"offer":"","charge_usd":0.0000123,"terms":{"prefill_ms":0,"output_ms":0},"fresh_input_tokens":12,"cached_input_tokens":0,"expected_output_tokens":500,"basis":{"input_usd_per_mtok":"1","output_usd_per_mtok":"2","max_output_tokens":4096}},{"offer":"","refused":"breaker_open"},{"offer":"","refused":"paused"},{"offer":"","refused":"left_out"},{"offer":"","refused":"format_not_spoken"}],"time_value_usd_per_hour":1,"max_output_tokens":1024},"predicted_wait_ms":1234.567,"actual_wait_ms":1234.567,"stream_events":123,"text_deltas":123,"in_flight":0,"region":"","trace_id":"0af7651916cd43dd8448eb211c80319c","group":"","prompt_bytes":1234,"prompt_class":"code","prompt_class":"prose","prompt_units":[12]}`

// dictionary1 is from before decisions kept what strategies saw.
const dictionary1 = `{"id":"01kbcdefghjkmnpqrstvwxyz01","job":"01kbcdefghjkmnpqrstvwxyz01","step":"plan","kind":"job","kind":"probe","outcome":"failed","outcome":"truncated","outcome":"timeout","outcome":"client_gone","outcome":"settled","at":"2026-11-29T10:00:00.123456789Z","settled_at":"2026-11-29T10:00:01.123456789Z","key":"","owner":"","model":"","offer":"","provider":"","node":"","usage":{},"usage":{"uncached_input_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cache_write_1h_tokens":0,"output_tokens":0,"reasoning_tokens":0},"usage_from":"estimate","usage_from":"mixed","usage_from":"provider","prices":{"input_usd_per_mtok":"1","output_usd_per_mtok":"2","cache_read_usd_per_mtok":"0.1","cache_write_usd_per_mtok":"1.25","cache_write_1h_usd_per_mtok":"2"},"charge_usd":0.0000123,"status":502,"status":200,"operation":"embeddings","operation":"count_tokens","operation":"generate","format":"google","format":"anthropic","format":"openai-responses","format":"openai","upstream_format":"google","upstream_format":"anthropic","upstream_format":"openai-responses","upstream_format":"openai","streamed":false,"streamed":true,"finish_reason":"end_turn","finish_reason":"completed","finish_reason":"tool_calls","finish_reason":"length","finish_reason":"stop","timing":{"auth_ms":0.012,"distribution_ms":0.012,"body_read_ms":0.012,"upstream_headers_ms":123.456,"first_sse_event_ms":123.456,"first_response_ms":123.456,"first_text_delta_ms":123.456,"upstream_done_ms":1234.567,"total_handler_ms":1234.567,"visible_output_tps":12.345,"queued_ms":0.123,"first_token_ms":123.456,"prompt_ms":123.456,"prompt_tps":1234.567,"decode_ms":1234.567,"decode_tps":12.345,"figures_from":"server","figures_from":"stream","dispatch_to_first_token_ms":123.456,"first_token_to_end_ms":1234.567,"arrivals":12,"streamed_output_tokens":12,"fresh_input_tokens":12,"connection_reused":false,"dns_ms":0.123,"connect_ms":0.123,"tls_ms":0.123,"connection_reused":true},"slow":"upstream_headers_slow","slow":"first_output_slow","slow":"generation_slow_tps","attempts":[{"offer":"","status":500,"error":"status","error":"connect","outcome":"failed","timing":{"upstream_done_ms":12.345,"queued_ms":0.123,"connection_reused":true}},{"offer":"","status":200,"outcome":"settled","timing":{"upstream_headers_ms":123.456,"first_sse_event_ms":123.456,"first_response_ms":123.456,"first_text_delta_ms":123.456,"upstream_done_ms":1234.567,"queued_ms":0.123,"first_token_ms":123.456,"connection_reused":true}}],"decision":{"strategy":"cheapest","ranked_on":"price","strategy":"price-and-wait","ranked_on":"price-and-wait","offers":[{"offer":"","charge_usd":0.0000123,"predicted_wait_ms":1234.567,"score_usd":0.000123456789,"ttft_ms":123.456,"terms":{"base_ms":123.456,"prefill_ms":12.345,"output_ms":1234.567,"queue_ms":0},"fresh_input_tokens":12,"cached_input_tokens":0,"expected_output_tokens":500},{"offer":"","charge_usd":0.0000123,"predicted_wait_ms":1234.567,"score_usd":0.000123456789,"ttft_ms":123.456,"terms":{"base_ms":123.456,"prefill_ms":12.345,"output_ms":1234.567},"fresh_input_tokens":12,"cached_input_tokens":0,"expected_output_tokens":500},{"offer":"","charge_usd":0.0000123,"terms":{"prefill_ms":0,"output_ms":0},"fresh_input_tokens":12,"cached_input_tokens":0,"expected_output_tokens":500},{"offer":"","refused":"breaker_open"},{"offer":"","refused":"paused"},{"offer":"","refused":"format_not_spoken"}],"time_value_usd_per_hour":1},"predicted_wait_ms":1234.567,"actual_wait_ms":1234.567,"stream_events":123,"text_deltas":123,"in_flight":0,"region":"","trace_id":"0af7651916cd43dd8448eb211c80319c","group":"","prompt_bytes":1234}`

// packer packs and unpacks. Packing is the writer's alone; unpacking may be done
// by any reader.
type packer struct{ dictionaries [packed + 1]*s2.Dict } // by their numbers

func newPacker() packer {
	of := func(text string) *s2.Dict { return s2.MakeDict([]byte(text), []byte(`{"id":"`)) }
	return packer{[packed + 1]*s2.Dict{1: of(dictionary1), 2: of(dictionary2)}}
}

// pack appends the packed form of a receipt's JSON to dst.
func (p packer) pack(dst, text []byte) []byte {
	from := len(dst) + 1
	dst = append(dst, packed)
	if need := from + s2.MaxEncodedLen(len(text)); cap(dst) < need {
		dst = append(make([]byte, 0, need), dst...)
	}
	return dst[:from+len(p.dictionaries[packed].Encode(dst[from:from:cap(dst)], text))]
}

// unpack gives a receipt's JSON. Its error says that the value is not one that
// was packed.
func (p packer) unpack(value []byte) ([]byte, error) {
	if len(value) == 0 || value[0] == 0 || value[0] > packed {
		return nil, core.Errorf(core.Unavailable, "a receipt is packed in a way that this version does not know")
	}
	if n, err := s2.DecodedLen(value[1:]); err != nil || n > maxValue {
		return nil, core.Errorf(core.Unavailable, "a receipt's length cannot be true")
	}
	return p.dictionaries[value[0]].Decode(nil, value[1:])
}
