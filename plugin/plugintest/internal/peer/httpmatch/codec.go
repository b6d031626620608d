package httpmatch

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin/plugintest/internal/field"
)

// Decode reads a match.
func Decode(r *field.Reader, n *yamlpos.Node, path string, m *Match) {
	r.Mapping(n, path, yamlpos.Fields{
		"method": r.Pattern(&m.Method),
		"url": func(n *yamlpos.Node, path string) {
			r.Pattern(&m.URL)(n, path)
			if text := m.URL.Source; !m.URL.IsRegex() && !strings.HasPrefix(text, "/") && !strings.Contains(text, "://") {
				r.Errorf(n, path, "%.80q must be /path, http://host/path or /a regular expression/", text)
			}
		},
		"headers": func(n *yamlpos.Node, path string) {
			m.Headers = make(map[string]field.Pattern)
			r.Entries(n, path, func(key, value *yamlpos.Node, at string) {
				var p field.Pattern
				r.Pattern(&p)(value, at)
				m.Headers[key.Value] = p
			})
		},
		"body": func(n *yamlpos.Node, path string) { m.Body = new(Body); decodeBody(r, n, path, m.Body) },
	})
}

// decodeBody reads the pattern of a body: a text, {hex: …} or {json: …}.
func decodeBody(r *field.Reader, n *yamlpos.Node, path string, to *Body) {
	if n.Kind == yamlpos.Scalar {
		r.Pattern(&to.Text)(n, path)
		return
	}
	r.One(n, path, yamlpos.Fields{"text": r.Pattern(&to.Text), "hex": r.Hex(&to.Data), "json": r.JSON(&to.JSON)})
}

// Doc is the form of a match in a session.
type Doc struct {
	Method  field.Text            `yaml:"method,omitempty"`
	URL     field.Text            `yaml:"url,omitempty"`
	Headers map[string]field.Text `yaml:"headers,omitempty,flow"`
	Body    *bodyDoc              `yaml:"body,omitempty"`
}

type bodyDoc struct {
	JSON field.JSON `yaml:"json,omitempty"`
	Text field.Text `yaml:"text,omitempty"`
	Hex  field.Text `yaml:"hex,omitempty"`
}

// Doc returns the form of m in a session.
func (m *Match) Doc() Doc {
	doc := Doc{Method: field.Text(m.Method.Source), URL: field.Text(m.URL.Source), Headers: make(map[string]field.Text)}
	for name, p := range m.Headers {
		doc.Headers[name] = field.Text(p.Source)
	}
	if m.Body != nil {
		doc.Body = m.Body.doc()
	}
	return doc
}

func (b *Body) doc() *bodyDoc {
	switch {
	case b.JSON != nil:
		return &bodyDoc{JSON: b.JSON}
	case field.IsText(b.Data):
		return &bodyDoc{Text: field.Text(field.Literal(string(b.Data)))}
	default:
		return &bodyDoc{Hex: field.Text(hex.EncodeToString(b.Data))}
	}
}

// Redact replaces each text that may hold a secret.
func (m *Match) Redact(text func(string) string) {
	m.URL.Source = text(m.URL.Source)
	for name, p := range m.Headers {
		m.Headers[name] = field.Pattern{Source: text(p.Source)}
	}
	if m.Body != nil {
		m.Body.Data, m.Body.JSON = RedactBytes(m.Body.Data, text), RedactBytes(m.Body.JSON, text)
	}
}

// RedactBytes redacts data; nil stays nil.
func RedactBytes(data []byte, text func(string) string) []byte {
	if len(data) == 0 {
		return data
	}
	return []byte(text(string(data)))
}

// Headers that matches ignore, and headers with secrets.
var (
	ignored = []string{"User-Agent", "Accept-Encoding", "Content-Length", "Connection", "Transfer-Encoding", "Te"}
	secret  = []string{"Authorization", "Proxy-Authorization", "Cookie", "Set-Cookie"}
)

// IsIgnored reports whether recorded matches ignore a header, such as User-Agent.
func IsIgnored(name string) bool { return slices.Contains(ignored, name) }

// IsSecret reports whether a header holds a secret.
func IsSecret(name string) bool { return slices.Contains(secret, name) }

// Request returns the HTTP/1 request at the start of data, and the number of bytes after it; nil if
// there is none.
func Request(data []byte) (req *http.Request, body []byte, rest int) {
	from := bytes.NewReader(data)
	buffered := bufio.NewReader(from)
	req, err := http.ReadRequest(buffered)
	if err != nil {
		return nil, nil, 0
	}
	if body, err = ReadBody(req); err != nil {
		return nil, nil, 0
	}
	return req, body, from.Len() + buffered.Buffered()
}

// Of returns a match for requests with the same meaning.
func Of(req *http.Request, body []byte, url string) Match {
	m := Match{
		Method: field.Pattern{Source: req.Method}, URL: field.Pattern{Source: field.Literal(url)},
		Headers: make(map[string]field.Pattern),
	}
	for name, values := range req.Header {
		if !IsIgnored(name) && !IsSecret(name) {
			m.Headers[name] = field.Pattern{Source: field.Literal(strings.Join(values, ", "))}
		}
	}
	switch {
	case len(body) == 0:
	case json.Valid(body):
		m.Body = &Body{JSON: body}
	default:
		m.Body = &Body{Data: body}
	}
	return m
}
