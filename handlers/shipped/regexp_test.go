package shipped_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/daeace23/prober/handlers/shipped"
	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// texts are the bodies that each pattern is matched against.
var texts = []string{
	"", "a", "abc", "ABC", "a.c", "a\nb", "a\r\nb\r\n", "12 ms", "x12", "_", "foo-bar", "foo/bar", "a]b", "a[b", "a{b}", "a&&b", "~",
	"é", "É", "straße", "\u212a", "ſ", "日本語", "٣", "\u00a0", "a\xffb", "\xc3(", "\xe2\x82", "a\x00b", "aaaa", "a-z", "a\\b", "\"q\"", "$1", "\t", "\v",
	`{"ok":true}`, "HTTP/1.1 200 OK", "-1.5e3", "^", "end",
}

// patterns are common expressions, and expressions that Go and the crate regex read differently.
var patterns = []string{
	`abc`, `(?i)abc`, `^a`, `b$`, `(?m)^b`, `(?m)a$`, `(?s)a.b`, `a.b`, `.`, `^.$`, `^.{3}$`, `^..$`, `\d`, `\D`, `^\d+`, `\w`, `^\W$`, `\s`, `^\S+$`, `\bfoo\b`, `\B`,
	`\bé`, `[\d]`, `[^\d]`, `[\w-]`, `^[^\w]$`, `[^\s\S]`, `[\D]`, `[^\D]`, `[a-z]`, `[a\-z]`, `[-a]`, `[a-]`, `[]a]`, `[^]a]`, `[[]`, `[a[b]`, `[a&&b]`, `[&&]`, `[~~]`, `[a~b]`,
	`[[:alpha:]]`, `[[:^alpha:]]`, `[[:word:]]+`, `[[:alpha:][:digit:]]`, `[^[:space:]]`, `[[:foo:]]`, `[a-\d]`, `[\d-z]`, `[z-a]`, `[a`, `a]`, `a}`, `{`, `a{`, `a{,2}`, `a{2}`, `a{2,}`, `a{2,3}`, `a{b}`,
	`a{1001}`, `^a{4}$`, `a{2}{3}`, `x*`, `a**`, `a+?`, `a*?b`, `(a)(b)`, `(?:a|b)`, `(?P<n>a)`, `(?<n>a)`, `(?P=n)`, `(?=a)`, `(?!a)`, `(?x)a b`, `(?u)a`, `(?-i)a`, `(?i:A)b`, `(?U)a+`, `(?i`, `()`, `(`, `)`, `a|`, `|`, `*`, `+a`,
	`\.`, `\/`, `\"`, `\-`, `\:`, `\@`, `\ `, `\_`, `\a`, `\f`, `\t`, `\n`, `\r`, `\v`, `\x41`, `\x{61}`, `\x{110000}`, `\x`, `\101`, `\0`, `\08`, `\1`, `\8`, `\Qa.c\E`, `\Q[`, `\E`, `\A`, `\z`, `\Z`, `\C`, `\e`, `\h`, `\é`, `\`,
	`\pL`, `\p{L}`, `\PL`, `\p{Lu}`, `^\p{Ll}+$`, `[\pN]`, `[^\pL]`, `\p{Nope}`, `(?i)é`, `(?i)k`, `(?i)s`, `(?i)[k]`, `(?i)\w`, `(?i)straSSE`, `[é-ê]`, `日本`, `\x{65e5}`, `^\x00?`,
	`^HTTP/1\.[01] 2\d\d`, `"ok":\s*true`, `^-?\d+(\.\d+)?([eE][+-]?\d+)?$`, `^(\S+) (\S+)`, `foo-(bar|baz)`, `(^|/)bar$`, `^$`, `$^`, `\$`, `\^`, `a\\b`, `[\\]`, `[.]`, `[$^]`, `[\]]`, `[\x61-c]`, `[a-c-e]`, `[--a]`, `[+--]`, `\p{Greek}|x`,
}

// different has the patterns that the plugins read differently from Go, with the reasons.
var different = map[string]string{
	`[^\s\S]`:        "the crate refuses a class without characters",
	`\p{Greek}|x`:    "scripts would be tables of 20 KB",
	`\B on "a\xffb"`: "the crate finds a place inside of a character",
}

// TestRegexpsMatchGo checks that the plugins accept the same expressions as Go's package regexp, with
// the same matches.
func TestRegexpsMatchGo(t *testing.T) {
	body := ""
	host, err := wasm.New(wasm.Config{
		CacheDir: cache,
		LookupIP: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
		},
		RoundTrip: func(req *http.Request, _ string) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Proto: "HTTP/1.1", Request: req, Body: io.NopCloser(strings.NewReader(body))}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	httpcheck, err := host.Load(t.Context(), found(t, "httpcheck"))
	if err != nil {
		t.Fatal(err)
	}
	target := probe.Target{Host: "web", Port: 80}
	for _, pattern := range patterns {
		want, wantErr := regexp.Compile(pattern)
		config, err := json.Marshal(map[string]any{"failIfBodyMatchesRegexp": []string{pattern}})
		if err != nil {
			t.Fatal(err)
		}
		h, err := httpcheck.Prepare(config, target)
		if (err != nil) != (wantErr != nil) {
			if different[pattern] == "" {
				t.Errorf("%q: got error %v, want %v", pattern, err, wantErr)
			}
			continue
		}
		if err != nil {
			continue
		}
		for _, body = range texts {
			out, err := h.Probe(t.Context(), probe.Request{Target: target})
			if err != nil {
				t.Fatal(err)
			}
			got := out.Result == probe.Failure
			if got != want.MatchString(body) && different[fmt.Sprintf("%s on %q", pattern, body)] == "" {
				t.Errorf("%q on %q: got %t (%s)", pattern, body, got, out.Output)
			}
		}
		probe.Release(h)
	}
}

// found returns a shipped plugin.
func found(t testing.TB, name string) plugin.Found {
	t.Helper()
	all, err := shipped.Plugins()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.Manifest.Name == name {
			return f
		}
	}
	t.Fatalf("no plugin %s", name)
	return plugin.Found{}
}
