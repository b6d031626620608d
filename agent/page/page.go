// Package page serves the status page: HTML, scripts and styles embedded in the program. The page has no
// build step; a browser reads static as it is. Read static/app.js first: it starts the page, and lists the
// other modules. page.go serves the files, docs.go the documents of this version.
package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/daeace23/prober/agent/reply"
)

//go:embed static
var static embed.FS

// policy is the Content-Security-Policy. The page may only use its own files and the agent's API. It has no
// inline script or style, and text cannot become markup.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

var types = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
	".png": "image/png",
}

// file is a file ready to send.
type file struct {
	mediaType string
	text      []byte
	packed    []byte // compressed with gzip
	tag       string // changes with the text
}

// files returns the files by name.
var files = sync.OnceValue(func() map[string]*file {
	all := make(map[string]*file)
	entries, err := static.ReadDir("static")
	if err != nil {
		return all // cannot happen, as the folder is embedded
	}
	for _, e := range entries {
		text, err := static.ReadFile("static/" + e.Name())
		mediaType := types[path.Ext(e.Name())]
		if err != nil || mediaType == "" {
			continue
		}
		hash := sha256.Sum256(text)
		all[e.Name()] = &file{mediaType, text, pack(text), base64.RawURLEncoding.EncodeToString(hash[:9])}
	}
	return all
})

func pack(text []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, _ = w.Write(text) // a buffer returns no error
		_ = w.Close()
	}
	return b.Bytes()
}

// OrElse returns a handler that sends the page to browsers, and passes other requests to next. A browser is a
// client that accepts text/html.
func OrElse(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept, Accept-Encoding")
		if !strings.Contains(r.Header.Get("Accept"), "text/html") {
			next(w, r)
			return
		}
		send(w, r, "index.html")
	}
}

// File sends a file of the page; the path of r has its name as {file}.
func File(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept-Encoding")
	send(w, r, r.PathValue("file"))
}

// send sends a file, or status 304 if the client has it.
func send(w http.ResponseWriter, r *http.Request, name string) {
	f := files()[name]
	if f == nil {
		reply.Fail(w, http.StatusNotFound, "the status page has no file %.100q", name)
		return
	}
	h := w.Header()
	setHeaders(h, f.mediaType)
	text, tag := f.text, `"`+f.tag+`"`
	if acceptsGzip(r) {
		text, tag = f.packed, `"`+f.tag+`-gzip"`
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", tag)
	if hasTag(r, tag) {
		h.Del("Content-Type")
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(text) // an error means that the client has left
}

// setHeaders sets the headers of a file of the page or of the documents.
func setHeaders(h http.Header, mediaType string) {
	h.Set("Content-Type", mediaType)
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "no-cache") // ask each time: the tag changes with the program
}

// hasTag reports whether the caller of r has the file with this tag.
func hasTag(r *http.Request, tag string) bool {
	for given := range strings.SplitSeq(r.Header.Get("If-None-Match"), ",") {
		if strings.TrimPrefix(strings.TrimSpace(given), "W/") == tag {
			return true
		}
	}
	return false
}

// acceptsGzip reports whether the client accepts gzip.
func acceptsGzip(r *http.Request) bool {
	for encoding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(encoding), ";")
		if strings.TrimSpace(name) == "gzip" && strings.ReplaceAll(weight, " ", "") != "q=0" {
			return true
		}
	}
	return false
}
