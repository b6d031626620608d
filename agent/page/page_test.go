package page_test

import (
	"compress/gzip"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/daeace23/prober/agent/page"
)

func serve(t *testing.T) http.Handler {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", page.OrElse(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "index") }))
	mux.HandleFunc("GET /page/{file}", page.File)
	return mux
}

func ask(h http.Handler, path string, headers ...string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

func TestBrowsersGetThePage(t *testing.T) {
	h := serve(t)
	for accept, want := range map[string]bool{browser: true, "text/html": true, "": false, "*/*": false, "application/json": false} {
		r := ask(h, "/", "Accept", accept)
		if isPage := strings.Contains(body(t, r), "<!doctype html>"); isPage != want || !strings.Contains(r.Header.Get("Vary"), "Accept") {
			t.Errorf("Accept %q: page %v, want %v; %v", accept, isPage, want, r.Header)
		}
	}
}

func TestFilesAreCachedByTag(t *testing.T) {
	h := serve(t)
	plain := ask(h, "/page/app.js")
	packed := ask(h, "/page/app.js", "Accept-Encoding", "br, gzip")
	if plain.Header.Get("ETag") == packed.Header.Get("ETag") {
		t.Error("one tag for two encodings")
	}
	unpack, err := gzip.NewReader(packed.Body)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(unpack)
	if want := body(t, plain); err != nil || string(text) != want || want == "" {
		t.Errorf("gzip has %d bytes, %v; want %d", len(text), err, len(want))
	}
	again := ask(h, "/page/app.js", "Accept-Encoding", "gzip", "If-None-Match", `"x", W/`+packed.Header.Get("ETag"))
	if again.StatusCode != http.StatusNotModified || body(t, again) != "" {
		t.Errorf("%s for the same tag", again.Status)
	}
	if r := ask(h, "/page/app.js", "Accept-Encoding", "gzip;q=0"); r.Header.Get("Content-Encoding") != "" {
		t.Error("gzip, which is refused")
	}
	if r := ask(h, "/page/nosuch.js"); r.StatusCode != http.StatusNotFound || !strings.Contains(body(t, r), `the status page has no file \"nosuch.js\"`) {
		t.Error(r.Status)
	}
}

// Each file has its media type and the policy, and references in index.html and in modules lead to files.
func TestFilesAreServedAndReferencesExist(t *testing.T) {
	h := serve(t)
	entries, err := os.ReadDir("static")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, e := range entries {
		names[e.Name()] = true
	}
	reference := regexp.MustCompile(`(?:href="page/|src="page/|from "\./)([\w.-]+)"`)
	for name := range names {
		r := ask(h, "/page/"+name)
		text := body(t, r)
		if r.StatusCode != http.StatusOK || strings.HasPrefix(r.Header.Get("Content-Type"), "text/plain") || r.Header.Get("Content-Type") == "" {
			t.Errorf("%s: %s %q", name, r.Status, r.Header.Get("Content-Type"))
		}
		policy := r.Header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; script-src 'self';") || strings.Contains(policy, "unsafe") || !strings.Contains(policy, "require-trusted-types-for 'script'") {
			t.Errorf("%s: policy %q", name, policy)
		}
		for _, m := range reference.FindAllStringSubmatch(text, -1) {
			if !names[m[1]] {
				t.Errorf("%s refers to %s, which is not there", name, m[1])
			}
		}
	}
}

// Data only becomes text: no function that creates markup, scripts or addresses from it is used.
func TestSourcesCreateNoMarkup(t *testing.T) {
	banned := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|DOMParser|https?://(?:[^w]|w[^w])`)
	err := fs.WalkDir(os.DirFS("static"), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".js") && !strings.HasSuffix(name, ".html") {
			return err
		}
		text, err := os.ReadFile("static/" + name)
		if found := banned.FindString(string(text)); found != "" {
			t.Errorf("%s uses %s", name, found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
