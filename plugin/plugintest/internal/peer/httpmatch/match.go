// Package httpmatch matches HTTP requests, for the exchanges of host.http and for the steps of
// host.net that receive a request.
package httpmatch

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/daeace23/prober/plugin/plugintest/internal/field"
)

// Match is a pattern of requests. Zero fields match everything.
type Match struct {
	Method  field.Pattern
	URL     field.Pattern            // of the path with its query, or of the whole URL
	Headers map[string]field.Pattern // other headers may be anything
	Body    *Body
}

// Body is a pattern of bodies: exactly one of its fields is set.
type Body struct {
	Text field.Pattern
	Data []byte
	JSON []byte // a document with the same value
}

// Difference returns a description of the first difference between a request and m, or "".
func (m *Match) Difference(req *http.Request, body []byte) string {
	switch {
	case !m.MatchesURL(req):
		return fmt.Sprintf("the URL is %s, want %s", req.URL, m.URL.Source)
	case m.Method.Source != "" && !m.Method.Matches(req.Method):
		return fmt.Sprintf("the method is %s, want %s", req.Method, m.Method.Source)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		value := strings.Join(req.Header.Values(name), ", ")
		if strings.EqualFold(name, "Host") {
			value = cmp.Or(req.Host, req.URL.Host)
		}
		if want := m.Headers[name]; !want.Matches(value) {
			return fmt.Sprintf("the header %s is %q, want %s", name, value, want.Source)
		}
	}
	if m.Body != nil && !m.Body.matches(body) {
		return fmt.Sprintf("the body is %s, want %s", field.Quote(body), m.Body)
	}
	return ""
}

// MatchesURL reports whether the URL matches: as a path, or whole, with or without a default
// port.
func (m *Match) MatchesURL(req *http.Request) bool {
	if m.URL.Source == "" {
		return true
	}
	u := *req.URL
	if m.URL.Matches(u.RequestURI()) || m.URL.Matches(u.String()) {
		return true
	}
	u.Host = strings.TrimSuffix(u.Host, map[string]string{"http": ":80", "https": ":443"}[u.Scheme])
	return m.URL.Matches(u.String())
}

func (b *Body) matches(body []byte) bool {
	switch {
	case b.JSON != nil:
		var got, want any
		return json.Unmarshal(body, &got) == nil && json.Unmarshal(b.JSON, &want) == nil && reflect.DeepEqual(got, want)
	case b.Data != nil:
		return bytes.Equal(b.Data, body)
	default:
		return b.Text.Matches(string(body))
	}
}

func (b *Body) String() string {
	return cmp.Or(string(b.JSON), b.Text.Source, fmt.Sprintf("hex %x", b.Data))
}

func (m *Match) String() string {
	text := []string{cmp.Or(m.Method.Source, "any method"), cmp.Or(m.URL.Source, "any URL")}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		text = append(text, fmt.Sprintf("%s: %s", name, m.Headers[name].Source))
	}
	if m.Body != nil {
		text = append(text, "with the body "+m.Body.String())
	}
	return strings.Join(text, " ")
}

// Consume matches the bytes of a connection. It returns the length of the request and whether the
// request is complete, or the reason for which it does not match.
func (m *Match) Consume(data []byte) (n int, done bool, err error) {
	if !bytes.Contains(data, []byte("\n\r\n")) && !bytes.Contains(data, []byte("\n\n")) {
		data = data[:bytes.LastIndexByte(data, '\n')+1] // half a line would be a malformed header
	}
	from := bytes.NewReader(data)
	buffered := bufio.NewReaderSize(from, len(data)+16) // 16 is the minimum
	req, err := http.ReadRequest(buffered)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("%w: %s", err, field.Quote(data))
	}
	body, err := ReadBody(req)
	if err != nil {
		return 0, false, nil // incomplete
	}
	req.URL.Scheme, req.URL.Host = "http", req.Host
	difference := m.Difference(req, body)
	req.URL.Scheme = "https"
	if difference != "" && m.Difference(req, body) != "" {
		return 0, false, errors.New(difference)
	}
	return len(data) - from.Len() - buffered.Buffered(), true, nil
}

// ReadBody returns the body of a request, and closes it.
func ReadBody(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(req.Body)
	return body, errors.Join(err, req.Body.Close())
}
