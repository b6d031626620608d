package redact_test

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/internal/redact"
)

const githubToken = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"

// certificates returns many different lines of base64.
func certificates(lines int) string {
	var b strings.Builder
	x := uint64(1)
	for range lines {
		raw := make([]byte, 48)
		for i := range raw {
			x = x*6364136223846793005 + 1442695040888963407
			raw[i] = byte(x >> 56)
		}
		b.WriteString(base64.StdEncoding.EncodeToString(raw) + "\n")
	}
	return b.String()
}

// hostile has texts that may be slow to redact.
var hostile = []struct{ name, secret, repeated string }{
	{"line-breaks", githubToken, "\n"},
	{"escaped-line-breaks", githubToken, `\n`},
	{"escaped-line-breaks-before-n", strings.Repeat("\x9e\x9e\x9e", 20), `n\n\r`},
	{"spaces-of-hex", githubToken, "67 : -"},
	{"percent", strings.Repeat("A", 2000), "%41"},
	{"percent-again", strings.Repeat("A", 2000), "%25252541"},
	{"base64", strings.Repeat("A", 2000), "QUFB"},
	{"letters", strings.Repeat("A", 2000), "A"},
	{"backslashes", githubToken, `\`},
	{"backslashes-in-secret", strings.Repeat(`\`, 2000) + "x", `\`},
	{"entities", strings.Repeat("&", 2000) + "x", "&amp;amp;"},
	{"escapes-and-many-lines", certificates(4000), `\x4d\u0049`},
	{"letters-and-many-lines", certificates(4000), "MIIE"},
}

// times repeats a text, up to size bytes.
func times(repeated string, size int) string { return strings.Repeat(repeated, size/len(repeated)) }

// A secret after a hostile text must be removed, even if the limit of steps is reached.
func TestReplaceStepsAreProportional(t *testing.T) {
	for _, h := range hostile {
		r := redact.New([]string{h.secret, githubToken})
		for _, size := range []int{16 << 10, 64 << 10} {
			start, text := time.Now(), times(h.repeated, size)+" "+githubToken+" "
			got := r.Replace(text)
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("%s: %d bytes took %v", h.name, size, took)
			}
			// One form or escape may still be tried after the limit is reached.
			if steps, most := r.Steps(text); steps > most+1024 || most > 64*len(text)+1<<16 {
				t.Errorf("%s: %d steps of %d for %d bytes", h.name, steps, most, size)
			}
			if strings.Contains(got, githubToken) || !strings.Contains(got, redact.Text) {
				t.Errorf("%s: the secret at the end is not removed", h.name)
			}
		}
	}
}

func TestReplaceKeepsOrdinaryText(t *testing.T) {
	page := strings.Repeat("<td class=\"x\">all is well &amp; 100% of it</td>\n", 2000)
	other := strings.Repeat("The certificate is valid until 2031-01-01T00:00:00Z: 0a:1b:2c 6f 70\n", 1000)
	bundle, key := certificates(8000), certificates(30)
	for name, secrets := range map[string][]string{
		"a token": {githubToken}, "a bundle": {bundle[len(bundle)/2:]}, "some": {githubToken, key, "hunter2", "pw"},
	} {
		r := redact.New(secrets)
		for _, text := range []string{page, other, bundle[:64<<10], url.QueryEscape(page), fmt.Sprintf("%q", fmt.Sprintf("%q", page)), fmt.Sprintf("% x", page)} {
			if strings.HasPrefix(text, bundle[:99]) && name == "some" {
				continue // contains the key
			}
			steps, _ := r.Steps(text)
			if got := r.Replace(text); got != text || steps > 32*len(text) {
				t.Errorf("%s: %d steps for %d bytes of %.20q, changed: %v", name, steps, len(text), text, got != text)
			}
		}
	}
}

// The line breaks are in the forms of headers, YAML and JSON.
func TestReplaceFindsFoldedBase64(t *testing.T) {
	r := redact.New([]string{githubToken})
	encoded := base64.StdEncoding.EncodeToString([]byte(githubToken))
	for _, between := range []string{"\n", "\r\n", "\n ", "\r\n\t", "\n        ", `\n`, `\r\n`, `\n    `} {
		text := "is " + encoded[:20] + between + encoded[20:40] + between + encoded[40:] + "."
		if got := r.Replace(text); strings.Contains(got, encoded[:8]) || strings.Contains(got, encoded[44:54]) {
			t.Errorf("%q becomes %q", text, got)
		}
	}
	if text := encoded[:20] + " " + encoded[20:]; r.Replace(text) != text {
		t.Error("two words were joined")
	}
}

func BenchmarkReplaceHostile(b *testing.B) {
	for _, h := range hostile {
		b.Run("text="+h.name, func(b *testing.B) {
			r, text := redact.New([]string{h.secret}), times(h.repeated, 64<<10)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				r.Replace(text)
			}
		})
	}
}
