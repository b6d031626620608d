package plugintest

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// hider takes the secrets of a config out of what was recorded. Each is replaced by as
// many x, in the config and wherever it was sent, so that lengths stay what they are, and
// the plugin sends on a replay what is expected.
type hider struct {
	redact   func(string) string // has the last word
	replacer *strings.Replacer
}

// newHider finds the secrets of a config, which are what redact changes in it.
func newHider(config []byte, redact func(string) string) *hider {
	h := &hider{redact: redact, replacer: strings.NewReplacer()}
	var doc any
	if json.Unmarshal(config, &doc) == nil {
		var secrets []string
		leaves(doc, func(text string) string {
			if secret := difference(text, redact(text)); secret != "" {
				secrets = append(secrets, secret, strings.TrimSpace(secret))
			}
			return text
		})
		h.know(secrets)
	}
	return h
}

// know makes the replacer, the longest secret first: one may begin with another.
func (h *hider) know(secrets []string) {
	var pairs []string
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	for _, s := range secrets {
		if s == "" {
			continue
		}
		hidden := strings.Repeat("x", len(s))
		pairs = append(pairs, s, hidden, url.QueryEscape(s), hidden, url.PathEscape(s), hidden)
		if text, err := json.Marshal(s); err == nil {
			pairs = append(pairs, string(text[1:len(text)-1]), hidden)
		}
	}
	h.replacer = strings.NewReplacer(pairs...)
}

// leaves replaces each string in a decoded JSON document.
func leaves(v any, replace func(string) string) any {
	switch v := v.(type) {
	case string:
		return replace(v)
	case []any:
		for i := range v {
			v[i] = leaves(v[i], replace)
		}
	case map[string]any:
		for key := range v {
			v[key] = leaves(v[key], replace)
		}
	}
	return v
}

// difference is what of text is another in redacted.
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

var base64Like = regexp.MustCompile(`[A-Za-z0-9+/_-]{4,}={0,2}`)

// text returns text without secrets, those of base64 included.
func (h *hider) text(text string) string {
	return base64Like.ReplaceAllStringFunc(h.plain(text), func(token string) string {
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding} {
			decoded, err := encoding.DecodeString(token)
			if err != nil {
				continue
			}
			if hidden := h.plain(string(decoded)); hidden != string(decoded) {
				return encoding.EncodeToString([]byte(hidden))
			}
		}
		return token
	})
}

func (h *hider) plain(text string) string { return h.redact(h.replacer.Replace(text)) }

func (h *hider) bytes(data []byte) []byte {
	if len(data) == 0 {
		return data
	}
	return []byte(h.text(string(data)))
}

// of hides the secrets of a case.
func (h *hider) of(c *Case) {
	var doc any
	if json.Unmarshal(c.Config, &doc) == nil {
		if config, err := json.Marshal(leaves(doc, h.text)); err == nil {
			c.Config = config
		}
	}
	for i := range c.Peers {
		p := &c.Peers[i]
		p.note = h.text(p.note)
		for j := range p.Script {
			h.step(&p.Script[j])
		}
	}
	for i := range c.Web {
		x := &c.Web[i]
		h.match(&x.Match)
		x.Reply.Body = h.bytes(x.Reply.Body)
		for _, values := range x.Reply.Headers {
			for k := range values {
				values[k] = h.text(values[k])
			}
		}
	}
}

func (h *hider) step(s *Step) {
	switch {
	case s.Send != nil:
		s.Send.Data = h.bytes(s.Send.Data)
	case s.Recv == nil:
	case s.Recv.HTTP != nil:
		h.match(s.Recv.HTTP)
	default:
		s.Recv.Exact, s.Recv.Prefix = h.bytes(s.Recv.Exact), h.bytes(s.Recv.Prefix)
	}
}

func (h *hider) match(m *Match) {
	m.URL.Source = h.text(m.URL.Source)
	for name, text := range m.Headers {
		m.Headers[name] = Text{Source: h.text(text.Source)}
	}
	if m.Body != nil {
		m.Body.Data, m.Body.JSON = h.bytes(m.Body.Data), h.bytes(m.Body.JSON)
	}
}
