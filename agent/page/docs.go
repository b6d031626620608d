package page

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/daeace23/prober/agent/reply"
	"github.com/daeace23/prober/docs"
)

// Documents are at this address for a program that has none of its own.
const Documents = "https://github.com/daeace23/prober/tree/main/docs"

// documents returns the documents of this version, or nil.
var documents = sync.OnceValue(func() *zip.Reader {
	r, err := zip.NewReader(bytes.NewReader(docs.Site), int64(len(docs.Site)))
	if err != nil {
		return nil // it has none
	}
	return r
})

// HasDocuments reports whether this program has documents.
func HasDocuments() bool { return documents() != nil }

// Document sends a file of the documents; the path of r has its name as {file...}, and "" is the first page.
func Document(w http.ResponseWriter, r *http.Request) { sendDocument(w, r, documents()) }

func sendDocument(w http.ResponseWriter, r *http.Request, site *zip.Reader) {
	name := r.PathValue("file")
	if name == "" || strings.HasSuffix(name, "/") {
		name += "index.html"
	}
	if site == nil {
		reply.Fail(w, http.StatusNotFound, "this program was built without its documents; they are at %s", Documents)
		return
	}
	mediaType := types[path.Ext(name)]
	f, err := site.Open(name)
	if err != nil || mediaType == "" {
		reply.Fail(w, http.StatusNotFound, "the documents have no file %.100q", name)
		return
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		reply.Fail(w, http.StatusInternalServerError, "read the documents: %v", err)
		return
	}
	setHeaders(w.Header(), mediaType)
	w.Header().Set("ETag", `"`+checksum(f)+`"`)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(text))
}

// checksum returns the checksum of a file of an archive, which changes with its text.
func checksum(f fs.File) string {
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	header, ok := info.Sys().(*zip.FileHeader)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%08x-%x", header.CRC32, header.UncompressedSize64)
}
