package testfile

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"
)

// Redact removes secrets from a recorded case. A secret is a part of the config that redact changes.
// Redact replaces each of its characters by x wherever it occurs, also within base64. Lengths stay
// the same, so that a replay sends the expected bytes. The returned function redacts other texts.
func (c *Case) Redact(redact func(string) string) (text func(string) string) {
	h := newRedactor(c.Config, redact)
	if doc, err := decode(c.Config); err == nil {
		if config, err := json.Marshal(replaceStrings(h.names(doc), h.text)); err == nil {
			c.Config = config
		}
	}
	for _, p := range c.Peers {
		p.Redact(h.text)
	}
	return h.text
}

// redactor replaces secrets in texts.
type redactor struct {
	redact   func(string) string // applied last
	replacer *strings.Replacer
	values   map[string]bool // the secrets that are values of the config
}

// newRedactor returns a redactor for the parts of config that redact changes.
func newRedactor(config []byte, redact func(string) string) *redactor {
	h := &redactor{redact: redact, replacer: strings.NewReplacer(), values: make(map[string]bool)}
	if doc, err := decode(config); err == nil {
		var secrets []string
		collect := func(text string) string {
			if secret := difference(text, redact(text)); secret != "" {
				secrets = append(secrets, secret, strings.TrimSpace(secret))
				h.values[secret] = true
			}
			return text
		}
		replaceStrings(doc, collect)
		replaceNames(doc, func(name string) string {
			if difference(name, redact(name)) == name {
				secrets = append(secrets, name)
			}
			return name
		})
		h.add(secrets)
	}
	return h
}

// add makes the replacer. Longer secrets come first, since one may begin with another.
func (h *redactor) add(secrets []string) {
	var pairs []string
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	for _, s := range secrets {
		if s == "" {
			continue
		}
		hidden := strings.Repeat("x", len(s))
		pairs = append(pairs, s, hidden, url.QueryEscape(s), hidden, url.PathEscape(s), hidden)
		pairs = append(pairs, wide(s, binary.LittleEndian), wide(hidden, binary.LittleEndian), wide(s, binary.BigEndian), wide(hidden, binary.BigEndian))
		if text, err := json.Marshal(s); err == nil {
			pairs = append(pairs, string(text[1:len(text)-1]), hidden)
		}
	}
	h.replacer = strings.NewReplacer(pairs...)
}

// wide returns text in UTF-16.
func wide(text string, order binary.AppendByteOrder) string {
	var out []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		out = order.AppendUint16(out, unit)
	}
	return string(out)
}

// decode decodes a JSON document, with its numbers as they are.
func decode(document []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// replaceStrings replaces each string in a decoded JSON document. If replace changes a number
// completely, each of its digits becomes 1.
func replaceStrings(v any, replace func(string) string) any {
	switch v := v.(type) {
	case string:
		return replace(v)
	case json.Number:
		if text := v.String(); difference(text, replace(text)) == text {
			return json.Number(strings.Repeat("1", len(text)))
		}
	case []any:
		for i := range v {
			v[i] = replaceStrings(v[i], replace)
		}
	case map[string]any:
		for key := range v {
			v[key] = replaceStrings(v[key], replace)
		}
	}
	return v
}

// names replaces the secret names of properties in a decoded JSON document. A name that is also a secret value, such
// as the password "password", is not one.
func (h *redactor) names(doc any) any {
	return replaceNames(doc, func(name string) string {
		if hidden := h.text(name); !h.values[name] && difference(name, h.redact(name)) == name {
			return hidden
		}
		return name
	})
}

// replaceNames replaces each name of a property in a decoded JSON document.
func replaceNames(v any, replace func(string) string) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = replaceNames(v[i], replace)
		}
	case map[string]any:
		renamed := make(map[string]any, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			renamed[replace(name)] = replaceNames(v[name], replace)
		}
		return renamed
	}
	return v
}

// difference returns the part of text that redacted does not have.
func difference(text, redacted string) string {
	if text == redacted {
		return ""
	}
	first := 0
	for first < min(len(text), len(redacted)) && text[first] == redacted[first] {
		first++
	}
	last := 0
	for last < min(len(text), len(redacted))-first && text[len(text)-1-last] == redacted[len(redacted)-1-last] {
		last++
	}
	return text[first : len(text)-last]
}

var (
	base64Like = regexp.MustCompile(`[A-Za-z0-9+/_-]{4,}={0,2}`)
	hexLike    = regexp.MustCompile(`(?:[0-9a-f]{2}){4,}|(?:[0-9A-F]{2}){4,}`)
)

// text returns text without secrets, also in base64 and in hexadecimal digits. Secrets of the config keep their length,
// so that the session replays.
func (h *redactor) text(text string) string {
	for _, hide := range []func(string) string{h.replacer.Replace, h.plain} {
		text = base64Like.ReplaceAllStringFunc(hide(text), func(token string) string { return inBase64(token, hide) })
		text = hexLike.ReplaceAllStringFunc(text, func(token string) string { return inHex(token, hide) })
	}
	return text
}

// inBase64 returns token with hide applied to the decoded bytes.
func inBase64(token string, hide func(string) string) string {
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding} {
		decoded, err := encoding.DecodeString(token)
		if err != nil {
			continue
		}
		if hidden := hide(string(decoded)); hidden != string(decoded) {
			return encoding.EncodeToString([]byte(hidden))
		}
	}
	return token
}

// inHex returns token with hide applied to the decoded bytes.
func inHex(token string, hide func(string) string) string {
	decoded, err := hex.DecodeString(token)
	if err != nil {
		return token
	}
	hidden := hide(string(decoded))
	switch text := hex.EncodeToString([]byte(hidden)); {
	case hidden == string(decoded):
		return token
	case token == strings.ToUpper(token):
		return strings.ToUpper(text)
	default:
		return text
	}
}

func (h *redactor) plain(text string) string { return h.redact(h.replacer.Replace(text)) }
