package adapters

import "strings"

// claudeModel is what a model's name says of which Claude it is. What the API
// takes of a request depends on it, and what it does not take it answers with
// a 400: for a client of another format such fields are left out and named.
type claudeModel struct {
	known   bool // it is a Claude at all, and not another model behind the format
	version int  // 407 is 4.7
	family  string
}

// claudeOf reads a name such as claude-3-7-sonnet-20250219, claude-opus-4-6 or
// us.anthropic.claude-sonnet-4-5-20250929-v1:0. One without a version is taken
// for the newest.
func claudeOf(name string) claudeModel {
	_, rest, ok := strings.Cut(strings.ToLower(name), "claude")
	if !ok {
		return claudeModel{}
	}
	m := claudeModel{known: true}
	major, minor := -1, 0
	for _, word := range strings.FieldsFunc(rest, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }) {
		n, short := smallNumber(word)
		switch {
		case short && major < 0:
			major = n
			continue
		case short && minor == 0 && major >= 0:
			minor = n
		case m.family == "" && word[0] >= 'a':
			m.family = word
			if major < 0 {
				continue
			}
		}
		if major >= 0 {
			break
		}
	}
	if m.version = 100*major + minor; major < 0 {
		m.version = 9900
	}
	return m
}

// smallNumber reads a word of one or two digits: longer ones are dates.
func smallNumber(word string) (n int, ok bool) {
	for _, r := range word {
		if r < '0' || r > '9' || len(word) > 2 {
			return 0, false
		}
		n = 10*n + int(r-'0')
	}
	return n, true
}

// thinks tells whether the model can be asked to think.
func (m claudeModel) thinks() bool { return !m.known || m.version >= 307 }

// adaptive tells whether the model is told how hard to think: ones before 4.6
// are given a number of tokens, and those from 4.7 on refuse one.
func (m claudeModel) adaptive() bool { return m.known && m.version >= 406 }

// samples tells whether the model takes temperature, top_p and top_k.
func (m claudeModel) samples() bool { return !m.known || m.version < 407 }

// oneSampler: the model takes temperature or top_p, not both.
func (m claudeModel) oneSampler() bool { return m.known && m.version >= 401 }

// structured tells whether the model takes strict tools.
func (m claudeModel) structured() bool { return !m.known || m.version >= 401 }

// unthinking is the setting of thinking that turns it off: "" where it is off
// unless asked for. It cannot be turned off where ok is false.
func (m claudeModel) unthinking() (kind string, ok bool) {
	switch {
	case m.family == "fable" || m.family == "mythos":
		return "", false
	case m.known && m.version < 500:
		return "", true
	case !m.known || m.version < 505:
		return "disabled", true
	case m.family == "sonnet":
		return "between_tools", true
	}
	return "", false
}
