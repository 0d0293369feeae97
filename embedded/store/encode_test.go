package store_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"headway/core"
	"headway/embedded/store"
)

// The stored form is encoding/json's, byte for byte, whatever fields core has.
func TestEncodeIsEncodingJSON(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	same := func(got []byte, v any) {
		t.Helper()
		want, err := json.Marshal(v)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if string(got) != string(want) {
			t.Fatalf("seed %d:\n got %s\nwant %s", seed, got, want)
		}
	}
	for range 3000 {
		var r core.Receipt
		random(rng, reflect.ValueOf(&r).Elem())
		same(store.EncodeReceipt(&r), &r)
		var in core.Intent
		random(rng, reflect.ValueOf(&in).Elem())
		same(store.EncodeIntent(&in), &in)
	}
	same(store.EncodeReceipt(&core.Receipt{}), &core.Receipt{})
	r := sample(core.NewCallID(at(0)), at(0))
	same(store.EncodeReceipt(r), r)
}

func TestEncodeFloats(t *testing.T) {
	for range 300_000 {
		for _, f := range []float64{
			core.Micro(rand.NormFloat64() * math.Pow(10, float64(rand.IntN(12)))), math.Float64frombits(rand.Uint64()),
		} {
			if math.IsNaN(f) || math.IsInf(f, 0) {
				continue
			}
			want, _ := json.Marshal(f)
			if got := string(store.AppendFloat(f)); got != string(want) {
				t.Fatalf("%x: %s, want %s", math.Float64bits(f), got, want)
			}
		}
	}
}

// A figure that is no number must not cost the receipt.
func TestEncodeLeavesOutWhatIsNoNumber(t *testing.T) {
	r := receiptAt(0)
	want := *r
	want.PredictedWait = core.Opt[float64]{}
	r.PredictedWait = core.Some(math.NaN())
	equal(t, "receipt", string(store.EncodeReceipt(r)), string(store.EncodeReceipt(&want)))
	r.PredictedWait = core.Some(math.Inf(1))
	equal(t, "receipt", string(store.EncodeReceipt(r)), string(store.EncodeReceipt(&want)))
}

// random fills a value of any of core's types, with a liking for the edges.
func random(rng *rand.Rand, v reflect.Value) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		at := time.Unix(rng.Int64N(4e9), rng.Int64N(3)*rng.Int64N(1e9))
		if rng.IntN(4) > 0 {
			at = at.UTC()
		}
		v.Set(reflect.ValueOf(at))
		return
	}
	if rng.IntN(4) == 0 && v.Kind() != reflect.Struct {
		return // the zero value
	}
	switch v.Kind() {
	case reflect.String:
		words := []string{"settled", "fast/small", "job \"7\"", "<b>&", "träge", "\u2028", "\xff\xfe", "tab\t\n\x01", "\\", "é", "\x7f"}
		v.SetString(words[rng.IntN(len(words))])
	case reflect.Int, reflect.Int64:
		v.SetInt([]int64{0, 1, -1, rng.Int64(), -rng.Int64(), math.MinInt64, math.MaxInt64, rng.Int64N(1e6) * 1e6, 1e12}[rng.IntN(9)])
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat([]float64{core.Micro(rng.NormFloat64() * 1000), core.Micro(rng.NormFloat64() * 1e11), 0, 1, -2.5, rng.Float64(), rng.NormFloat64() * 1e9, 1e21, 1e-7, 2.5e-12, 1e-6, math.MaxFloat64,
			math.SmallestNonzeroFloat64, 123456789.123, 9.99e20, -1e-9, 3e100, math.Copysign(0, -1)}[rng.IntN(18)])
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), rng.IntN(4), 4))
		for i := range v.Len() {
			random(rng, v.Index(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		random(rng, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			random(rng, v.Field(i))
		}
	default:
		panic("no random " + v.Type().String())
	}
}
