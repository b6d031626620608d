package main

import (
	"archive/zip"
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/cli/clitest"
)

// The program of a release has the documents, and so does a file beside it.
func TestReleaseHasDocuments(t *testing.T) {
	site := t.TempDir()
	clitest.WriteTree(t, site, map[string]string{"index.html": "<h1>first</h1>", "see/index.html": "see"})
	old := source["cmd/prober/main.go"]
	defer func() {
		source["cmd/prober/main.go"] = old
		delete(source, "docs/docs.go")
		delete(source, "docs/site.go")
	}()
	source["docs/docs.go"] = "package docs\n\nvar Site []byte\n"
	source["docs/site.go"] = "//go:build docs\n\npackage docs\n\nimport _ \"embed\"\n\n//go:embed site.zip\nvar site []byte\n\nfunc init() { Site = site }\n"
	source["cmd/prober/main.go"] = "package main\n\nimport (\n\t\"os\"\n\n\t\"github.com/daeace23/prober/docs\"\n)\n\nfunc main() { os.Stdout.Write(docs.Site) }\n"
	host := runtime.GOOS + "/" + runtime.GOARCH
	files := buildWith(t, site, host)
	archive := files["prober_0.1.0_docs.zip"]
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.File) != 2 || r.File[0].Name != "index.html" || r.File[1].Name != "see/index.html" || !r.File[0].Modified.Equal(date) {
		t.Errorf("the archive has %v", r.File)
	}
	if runtime.GOOS == "windows" {
		return
	}
	base := "prober_0.1.0_" + runtime.GOOS + "_" + runtime.GOARCH
	program := filepath.Join(t.TempDir(), "prober")
	if err := os.WriteFile(program, untar(t, files[base+".tar.gz"])[base+"/prober"], 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(program).Output()
	if err != nil || !bytes.Equal(out, archive) {
		t.Errorf("the program has other documents: %d bytes, %v", len(out), err)
	}
}

func TestDocumentsThatCannotBeShippedAreRefused(t *testing.T) {
	noise := make([]byte, maxSite+1)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	for want, files := range map[string]map[string]string{
		"has no first page": {"see/index.html": ""},
		"more than 2097152": {"index.html": "", "large.png": string(noise)},
	} {
		r := release{site: t.TempDir(), version: "0.1.0", date: date}
		clitest.WriteTree(t, r.site, files)
		if _, err := r.packSite(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got the error %v, want %q", err, want)
		}
	}
}
