package page

import (
	"archive/zip"
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// documentsOf returns a handler of documents with these files.
func documentsOf(t *testing.T, files map[string]string) http.Handler {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, text := range files {
		f, err := w.Create(name)
		if err == nil {
			_, err = f.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	site, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /docs/{file...}", func(w http.ResponseWriter, r *http.Request) { sendDocument(w, r, site) })
	return mux
}

func TestDocumentsAreServed(t *testing.T) {
	handler := documentsOf(t, map[string]string{"index.html": "first", "see/index.html": "see", "see/a.png": "png", "x.exe": "no"})
	for path, c := range map[string]struct {
		status            int
		mediaType, answer string
	}{
		"/docs/":               {200, "text/html; charset=utf-8", "first"},
		"/docs/index.html":     {200, "text/html; charset=utf-8", "first"},
		"/docs/see/":           {200, "text/html; charset=utf-8", "see"},
		"/docs/see/a.png":      {200, "image/png", "png"},
		"/docs/see":            {404, "", "no file"},
		"/docs/nosuch.html":    {404, "", "no file"},
		"/docs/x.exe":          {404, "", "no file"},
		"/docs/%2e%2e/page.go": {404, "", "no file"},
		"/docs//etc/passwd":    {307, "", ""},
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", path, http.NoBody))
		if w.Code != c.status || c.mediaType != "" && w.Header().Get("Content-Type") != c.mediaType || !strings.Contains(w.Body.String(), c.answer) {
			t.Errorf("%s: %d %s %q, want %d %s %q", path, w.Code, w.Header().Get("Content-Type"), w.Body, c.status, c.mediaType, c.answer)
		}
		if c.status == http.StatusOK && w.Header().Get("Content-Security-Policy") != policy {
			t.Errorf("%s has the policy %q", path, w.Header().Get("Content-Security-Policy"))
		}
	}
}

func TestDocumentsAreNotSentTwice(t *testing.T) {
	handler := documentsOf(t, map[string]string{"index.html": "first"})
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/docs/", http.NoBody))
	r := httptest.NewRequest("GET", "/docs/", http.NoBody)
	r.Header.Set("If-None-Match", w.Header().Get("ETag"))
	w = httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if w.Code != http.StatusNotModified {
		t.Errorf("status %d, want 304", w.Code)
	}
}

func TestProgramWithoutDocumentsNamesThem(t *testing.T) {
	w := httptest.NewRecorder()
	sendDocument(w, httptest.NewRequest("GET", "/docs/", http.NoBody), nil)
	if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), Documents) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
