// Release builds the files of a release: for each platform an archive with the program, man pages and
// completions, and an SBOM of its modules, and a file with all checksums. The same commit and Go
// version give the same bytes. Read main.go first.
package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// release describes the release to build.
type release struct {
	source  string // folder of the module
	out     string // folder of the results
	version string // without a leading v
	date    time.Time
	goTool  string
}

func main() {
	r := release{source: "."}
	platforms := flag.String("platforms", "linux/amd64", "separated by spaces: OS/ARCH")
	flag.StringVar(&r.out, "out", "dist", "folder of the files, which is emptied first")
	flag.StringVar(&r.version, "version", "dev", "of the release")
	flag.StringVar(&r.goTool, "go", "go", "the Go tool")
	seconds := flag.Int64("date", 0, "of the commit, in seconds since the epoch")
	flag.Parse()
	r.version = strings.TrimPrefix(r.version, "v")
	r.date = time.Unix(max(*seconds, 0), 0).UTC()
	if err := r.build(strings.Fields(*platforms)); err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

// build writes all files of the release.
func (r *release) build(platforms []string) error {
	if err := errors.Join(os.RemoveAll(r.out), os.MkdirAll(r.out, 0o755)); err != nil {
		return err
	}
	shared, err := r.sharedFiles()
	if err != nil {
		return err
	}
	var sums []string
	for _, text := range platforms {
		goos, goarch, ok := strings.Cut(text, "/")
		if !ok {
			return fmt.Errorf("platform %q: must be OS/ARCH", text)
		}
		files, err := r.platform(goos, goarch, shared)
		if err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		for _, f := range files {
			if err := os.WriteFile(filepath.Join(r.out, f.name), f.data, 0o644); err != nil {
				return err
			}
			sum := sha256.Sum256(f.data)
			sums = append(sums, hex.EncodeToString(sum[:])+"  "+f.name+"\n")
			fmt.Println(filepath.Join(r.out, f.name))
		}
	}
	slices.SortFunc(sums, func(a, b string) int { return cmp.Compare(a[sha256.Size*2:], b[sha256.Size*2:]) })
	return os.WriteFile(filepath.Join(r.out, "checksums.txt"), []byte(strings.Join(sums, "")), 0o644)
}

// file is one file of an archive or of the release.
type file struct {
	name string // slash-separated
	data []byte
	exec bool
}

// sharedFiles returns the files that the archives of all platforms have.
func (r *release) sharedFiles() (files []file, err error) {
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		data, err := os.ReadFile(filepath.Join(r.source, name))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: name, data: data})
	}
	scripts, err := completions()
	if err != nil {
		return nil, err
	}
	return slices.Concat(files, scripts, manPages(r.version, r.date)), nil
}

// platform returns the archive and the SBOM of one platform.
func (r *release) platform(goos, goarch string, shared []file) ([]file, error) {
	program, err := r.compile(goos, goarch)
	if err != nil {
		return nil, err
	}
	base := fmt.Sprintf("prober_%s_%s_%s", r.version, goos, goarch)
	bom, err := sbom(program, r.version, r.date)
	if err != nil {
		return nil, err
	}
	name, pack := base+".tar.gz", packTar
	binary := file{name: "prober", data: program, exec: true}
	if goos == "windows" {
		name, pack, binary.name = base+".zip", packZip, "prober.exe"
	}
	archive, err := pack(base, append([]file{binary}, shared...), r.date)
	return []file{{name: name, data: archive}, {name: base + ".cdx.json", data: bom}}, err
}
