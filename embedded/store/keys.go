package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"headway/core"
)

const (
	receiptPrefix = "r/"
	jobPrefix     = "rj/"
	lostPrefix    = "rl/"
	vaultPrefix   = "v/"
	leavesPrefix  = "z/"
	oldLeaves     = vaultPrefix + core.KindLeaves + "/" // where they were in version 1
)

const callIDLen = 26

// receiptKey is r/<YYYY-MM>/<id>; an id that holds no time is in month 0000-00.
func receiptKey(id core.CallID) []byte {
	key := append(make([]byte, 0, len(receiptPrefix)+8+len(id)), receiptPrefix...)
	if at, ok := id.Time(); ok {
		key = at.AppendFormat(key, "2006-01")
	} else {
		key = append(key, "0000-00"...)
	}
	key = append(key, '/')
	return append(key, id...)
}

// receiptsFrom is the first key that a receipt of the time at or later can have.
// Ids hold whole milliseconds, so a part of one is rounded up.
func receiptsFrom(at time.Time) []byte {
	ms := at.UnixMilli()
	if at.After(time.UnixMilli(ms)) {
		ms++
	}
	if ms <= 0 || at.Year() < 1970 {
		return []byte(receiptPrefix)
	}
	if at.Year() > 9999 {
		return after(receiptPrefix) // months have no more digits
	}
	const tick = 10 // the digits of an id that are its time
	key := receiptKey(core.NewCallID(time.UnixMilli(ms)))
	return key[:len(key)-callIDLen+tick]
}

// jobKeys is the prefix of a job's calls; the call's id follows it. A name may
// hold any byte, so a key is of this job only where exactly an id follows.
func jobKeys(job core.JobID) string {
	const longest = 256
	if len(job) > longest {
		h := sha256.Sum256([]byte(job))
		job = core.JobID("sha256:" + hex.EncodeToString(h[:]))
	}
	return jobPrefix + string(job) + "\x00"
}

// vaultKey is v/<kind>/<name>, within bounds.
func vaultKey(kind, name string) ([]byte, error) {
	const longest = 1024
	if kind == "" || len(kind) > longest || strings.Contains(kind, "/") {
		return nil, core.Errorf(core.Internal, "%q is not a kind of record", kind[:min(len(kind), 64)])
	}
	if name == "" || len(name) > longest {
		return nil, core.Errorf(core.Invalid, "the name of a %s has 1 to %d bytes, not %d", kind, longest, len(name))
	}
	if kind == core.KindLeaves {
		return leavesKey(name), nil
	}
	return []byte(vaultPrefix + kind + "/" + name), nil
}

// leavesKey is z/<name>, mirrored: the greatest name comes first. No name of this kind
// is the beginning of another.
func leavesKey(name string) []byte { return append([]byte(leavesPrefix), mirrored(name)...) }

// keyOfOne is where version 1 had what is at a key now, and keyNow the other way round:
// copies have the keys of version 1.
func keyOfOne(key []byte) []byte {
	if name, ok := bytes.CutPrefix(key, []byte(leavesPrefix)); ok {
		return []byte(oldLeaves + mirrored(string(name)))
	}
	return key
}

func keyNow(key []byte) []byte {
	if name, ok := bytes.CutPrefix(key, []byte(oldLeaves)); ok {
		return leavesKey(string(name))
	}
	return key
}

// mirrored has the bits of a name turned over, which turns the order of names over.
func mirrored(name string) string {
	b := []byte(name)
	for i := range b {
		b[i] = ^b[i]
	}
	return string(b)
}
