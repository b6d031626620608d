package httpmatch_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/daeace23/prober/plugin/plugintest/internal/field"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer/httpmatch"
)

// match reads a match as a test file has it.
func match(t *testing.T, text string) *httpmatch.Match {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	r, m := field.NewReader("x.yaml"), &httpmatch.Match{}
	httpmatch.Decode(r, doc.Content[0], "", m)
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestDifference(t *testing.T) {
	for _, c := range []struct{ match, url, body, want string }{
		{"{}", "http://a/b", "", ""},
		{"{url: '/b?c=1', method: POST, headers: {x-a: '/^[0-9]$/', host: a}}", "http://a/b?c=1", "", ""},
		{"{url: 'http://a/b'}", "http://a:80/b", "", ""},
		{"{url: 'https://a/b'}", "https://a:443/b", "", ""},
		{"{url: /b}", "http://a/c", "", "the URL is http://a/c, want /b"},
		{"{method: GET}", "http://a/", "", "the method is POST, want GET"},
		{"{headers: {b: '1'}}", "http://a/", "", `the header b is "", want 1`},
		{"{body: /x+/}", "http://a/", "axx", ""},
		{"{body: x}", "http://a/", "xx", `the body is "xx", want x`},
		{"{body: {hex: 00ff}}", "http://a/", "x", `the body is "x", want hex 00ff`},
		{"{body: {json: {a: 1}}}", "http://a/", ` {"a": 1.0} `, ""},
		{"{body: {json: {a: 1}}}", "http://a/", "a", `the body is "a", want {"a":1}`},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-A", "2")
		if got := match(t, c.match).Difference(req, []byte(c.body)); got != c.want {
			t.Errorf("%s of %s: got %q, want %q", c.match, c.url, got, c.want)
		}
	}
}

func TestConsume(t *testing.T) {
	const get = "GET /a HTTP/1.1\r\nHost: b\r\n\r\n"
	for _, c := range []struct {
		match, data string
		n           int
		done        bool
		want        string // in the error
	}{
		{"{url: /a}", get + "more", len(get), true, ""},
		{"{url: 'https://b/a'}", get, len(get), true, ""},
		{"{url: /a}", get[:20], 0, false, ""},
		{"{url: /a}", get[:9], 0, false, ""},
		{"{body: xyz}", "PUT /a HTTP/1.1\r\nHost: b\r\nContent-Length: 3\r\n\r\nxy", 0, false, ""},
		{"{url: /b}", get, 0, false, "the URL is http://b/a, want /b"},
		{"{}", "EHLO\r\n", 0, false, "malformed HTTP request"},
	} {
		n, done, err := match(t, c.match).Consume([]byte(c.data))
		if n != c.n || done != c.done || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %q: got %d, %v, %v", c.match, c.data, n, done, err)
		}
	}
}

// What Of makes of a request matches it, and nothing with another header or body.
func TestOfMatchesItsRequest(t *testing.T) {
	req, body, rest := httpmatch.Request([]byte("PUT /a HTTP/1.1\r\nHost: b\r\nX-A: /1/\r\nCookie: c\r\nContent-Length: 5\r\n\r\n{\"a\"}rest"))
	if req == nil || string(body) != `{"a"}` || rest != 4 {
		t.Fatalf("got %v, %q, %d", req, body, rest)
	}
	m := httpmatch.Of(req, body, "/a")
	if got := m.String(); !regexp.MustCompile(`^PUT /a X-A: /\^/1/\$/ with the body `).MatchString(got) {
		t.Errorf("got %s", got)
	}
	if got := m.Doc(); got.Headers["Cookie"] != "" || got.Body.Text != `{"a"}` {
		t.Errorf("got %+v", got)
	}
}
