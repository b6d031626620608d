package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/internal/cli/clitest"
)

var date = time.Unix(1_700_000_000, 0).UTC()

// source is a module with the layout of prober. Its program prints its version and the path of
// its source.
var source = map[string]string{
	"go.mod":                          "module github.com/daeace23/prober\n\ngo 1.26\n",
	"internal/cli/program/program.go": "package program\n\nvar Version = \"dev\"\n",
	"cmd/prober/main.go":              mainFile, "cmd/prober-probe/main.go": mainFile,
	"LICENSE": "a\n", "README.md": "b\n", "CHANGELOG.md": "c\n", "handlers/shipped/LICENSES.txt": "d\n",
	"docs/README.md": "# e\n", "docs/see/metrics.md": "# f\n", "docs/docs.go": "package docs\n", "handlers/shipped/dns/README.md": "# g\n",
}

const mainFile = `package main

import (
	"fmt"
	"runtime"

	"github.com/daeace23/prober/internal/cli/program"
)

func main() {
	_, file, _, _ := runtime.Caller(0)
	fmt.Println(program.Version, file)
}
`

// build builds a release of source in a new folder, and returns its files by name.
func build(t *testing.T, platforms ...string) map[string][]byte {
	t.Helper()
	return buildWith(t, "", platforms...)
}

// buildWith is build with the documents in a folder.
func buildWith(t *testing.T, site string, platforms ...string) map[string][]byte {
	t.Helper()
	r := release{site: site, source: t.TempDir(), out: filepath.Join(t.TempDir(), "dist"), version: "0.1.0", date: date, goTool: "go"}
	clitest.WriteTree(t, r.source, source)
	if err := os.CopyFS(filepath.Join(r.source, "deploy"), os.DirFS("../../deploy")); err != nil {
		t.Fatal(err)
	}
	if err := r.build(platforms); err != nil {
		t.Fatal(err)
	}
	files := make(map[string][]byte)
	entries, err := os.ReadDir(r.out)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(r.out, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// The second build has another folder, another umask and another time zone.
func TestReleaseIsReproducible(t *testing.T) {
	host := runtime.GOOS + "/" + runtime.GOARCH
	platforms := slices.Compact(slices.Sorted(slices.Values([]string{host, "linux/amd64", "linux/arm64"})))
	files := build(t, platforms...)
	setUmask(t, 0o077)
	local := time.Local
	time.Local = time.FixedZone("", -5*60*60)
	defer func() { time.Local = local }()
	again := build(t, platforms...)
	if diff := cmp.Diff(string(files["checksums.txt"]), string(again["checksums.txt"])); diff != "" {
		t.Errorf("the checksums of two builds differ\n%s", diff)
	}
	base := "prober_0.1.0_" + runtime.GOOS + "_" + runtime.GOARCH
	for line := range strings.Lines(string(files["checksums.txt"])) {
		want, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if sum := sha256.Sum256(files[name]); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s: its checksum is not %s", name, want)
		}
	}
	if want := 2*len(platforms) + 2 + 2; len(files) != want { // archives and SBOMs, packages, an image and checksums
		t.Errorf("%d files, want %d", len(files), want)
	}
	if runtime.GOOS == "windows" {
		return
	}
	archive := untar(t, files[base+".tar.gz"])
	for _, name := range []string{"LICENSE", licensesFile, "README.md", "CHANGELOG.md", "completions/_prober", "man/prober.1", "man/prober-plugin-push.1"} {
		if len(archive[base+"/"+name]) == 0 {
			t.Errorf("the archive does not have %s", name)
		}
	}
	program := filepath.Join(t.TempDir(), "prober")
	if err := os.WriteFile(program, archive[base+"/prober"], 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(program).CombinedOutput()
	if want := "0.1.0 github.com/daeace23/prober/cmd/prober/main.go\n"; err != nil || string(out) != want {
		t.Errorf("the program prints %q, %v; want %q", out, err, want)
	}
}

// The test uses the test binary as the program, since it links prober's modules.
func TestSBOMListsModulesOfProgram(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	licenses := []licensed{{name: "stdlib " + strings.TrimPrefix(info.GoVersion, "go"), kinds: []string{"BSD-3-Clause"}}}
	for _, m := range info.Deps[1:] {
		licenses = append(licenses, licensed{name: m.Path + " " + m.Version, kinds: []string{"MIT"}})
	}
	if _, err := sbom(program, licenses, "0.1.0", date); err == nil || !strings.Contains(err.Error(), info.Deps[0].Path) {
		t.Errorf("the license of %s is not known, and the error is %v", info.Deps[0].Path, err)
	}
	licenses = append(licenses, licensed{name: info.Deps[0].Path + " " + info.Deps[0].Version, kinds: []string{"MIT", "MPL-2.0"}})
	data, err := sbom(program, licenses, "0.1.0", date)
	if err != nil {
		t.Fatal(err)
	}
	checkSBOM(t, program, data)
}

// checkSBOM compares an SBOM with the modules in the build information of a program.
func checkSBOM(t *testing.T, program, data []byte) {
	t.Helper()
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		t.Fatal(err)
	}
	var got bom
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	want := []string{"pkg:golang/stdlib@" + strings.TrimPrefix(runtime.Version(), "go")}
	for _, m := range info.Deps {
		want = append(want, "pkg:golang/"+m.Path+"@"+strings.ReplaceAll(m.Version, "+", "%2B"))
	}
	var listed []string
	for _, c := range got.Components {
		if len(c.Licenses) == 0 || c.Licenses[0].License.ID == "" {
			t.Errorf("%s has no license", c.PURL)
		}
		listed = append(listed, c.PURL)
	}
	slices.Sort(want)
	slices.Sort(listed)
	if diff := cmp.Diff(want, listed); diff != "" || len(want) < 20 {
		t.Errorf("%d modules; (-program +SBOM)\n%s", len(want), diff)
	}
	sum := sha256.Sum256(program)
	if h := got.Metadata.Component.Hashes; len(h) != 1 || h[0].Content != hex.EncodeToString(sum[:]) {
		t.Errorf("the SBOM is of another program: %v", h)
	}
}

func untar(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string][]byte)
	for r := tar.NewReader(z); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		if !header.ModTime.Equal(date) {
			t.Errorf("%s has the time %v, want that of the commit", header.Name, header.ModTime)
		}
	}
}

func TestZipHasAllFiles(t *testing.T) {
	data, err := packZip("p", []file{{name: "prober.exe", data: []byte("MZ"), exec: true}, {name: "man/a.1", data: []byte("a")}}, date)
	if err != nil {
		t.Fatal(err)
	}
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"p/prober.exe", "p/man/a.1"} {
		if r.File[i].Name != want || !r.File[i].Modified.Equal(date) {
			t.Errorf("got %s of %v, want %s of %v", r.File[i].Name, r.File[i].Modified, want, date)
		}
	}
}

// helped returns the arguments of all commands in the help texts, beginning with prober itself.
func helped(t *testing.T, path ...string) (all [][]string) {
	t.Helper()
	_, stdout, _ := clitest.Run(nil, append(path, "--help")...)
	all = [][]string{path}
	lists := false // whether the section has commands
	for line := range strings.Lines(stdout) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
			lists = false
		case line[0] != ' ':
			lists = !slices.Contains([]string{"Usage:", "Aliases:", "Examples:", "Flags:", "Global"}, fields[0]) && strings.HasSuffix(line, ":\n")
		case lists:
			all = append(all, helped(t, append(slices.Clone(path), fields[0])...)...)
		}
	}
	return all
}

func TestManPagesNameEveryCommand(t *testing.T) {
	pages := make(map[string]string)
	for _, f := range manPages("0.1.0", date) {
		pages[strings.TrimSuffix(strings.TrimPrefix(f.name, "man/"), ".1")] = string(f.data)
	}
	want := helped(t)
	if len(want) != len(pages) || len(want) < 25 {
		t.Errorf("%d pages for %d commands", len(pages), len(want))
	}
	for _, path := range want {
		name := strings.Join(append([]string{"prober"}, path...), "-")
		page := pages[name]
		if !strings.Contains(page, ".SH SYNOPSIS") || !strings.Contains(pages["prober"], roff(name)) {
			t.Errorf("%s has no page, or the page of prober does not name it", name)
		}
	}
	if page := pages["prober-run"]; !strings.Contains(page, roff("-f, --filename")) || !strings.Contains(page, roff("--restart-backoff=DURATION")) {
		t.Errorf("the page of prober run does not have its flags:\n%s", page)
	}
}

func TestCompletionsAskProberForItsCommands(t *testing.T) {
	scripts, err := completions()
	if err != nil {
		t.Fatal(err)
	}
	if len(scripts) != 4 {
		t.Errorf("%d scripts, want bash, zsh, fish and powershell", len(scripts))
	}
	for _, s := range scripts {
		if !strings.Contains(string(s.data), "__complete") {
			t.Errorf("%s does not call prober __complete", s.name)
		}
	}
	for _, path := range helped(t) {
		if len(path) == 0 {
			continue
		}
		_, stdout, _ := clitest.Run(nil, append([]string{"__complete"}, path...)...)
		if last := path[len(path)-1]; !strings.Contains(stdout, last+"\t") {
			t.Errorf("prober %s: shells are not offered it: %q", strings.Join(path, " "), stdout)
		}
	}
}

func TestRoffEscapes(t *testing.T) {
	for text, want := range map[string]string{`a-b\n`: `a\-b\en`, ".SH": `\&.SH`, "a\n'b": "a\n\\&'b"} {
		if got := roff(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
