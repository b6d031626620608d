// Release builds the files of a release: for each platform an archive with the program, man pages and
// completions, and an SBOM of its modules; Debian packages and a container image for Linux; and a file
// with all checksums. The same commit and Go version give the same bytes. Read main.go first. deb.go has
// the packages, image.go the image, and tree.go the files of both.
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
	site    string // folder of the documents as a site; "": there are none
	docs    file   // its archive
}

func main() {
	r := release{source: "."}
	platforms := flag.String("platforms", "linux/amd64", "platforms as OS/ARCH, separated by spaces")
	flag.StringVar(&r.out, "out", "dist", "folder for the files, which is emptied first")
	flag.StringVar(&r.version, "version", "dev", "version of the release")
	flag.StringVar(&r.site, "site", "", "folder of the documents, as make site writes it; default: the release has none")
	flag.StringVar(&r.goTool, "go", "go", "the Go tool")
	seconds := flag.Int64("date", 0, "date of the commit, in seconds since the epoch")
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
	if r.site != "" {
		if r.docs, err = r.packSite(); err == nil {
			err = r.write([]file{r.docs}, &sums)
		}
		if err != nil {
			return fmt.Errorf("documents: %w", err)
		}
	}
	image := &layout{}
	for _, text := range platforms {
		goos, goarch, ok := strings.Cut(text, "/")
		if !ok {
			return fmt.Errorf("platform %q: must be OS/ARCH", text)
		}
		files, err := r.platform(goos, goarch, shared, image)
		if err == nil {
			err = r.write(files, &sums)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	if len(image.manifests) > 0 {
		f, err := r.image(image)
		if err == nil {
			err = r.write([]file{f}, &sums)
		}
		if err != nil {
			return fmt.Errorf("image: %w", err)
		}
	}
	slices.SortFunc(sums, func(a, b string) int { return cmp.Compare(a[sha256.Size*2:], b[sha256.Size*2:]) })
	return os.WriteFile(filepath.Join(r.out, "checksums.txt"), []byte(strings.Join(sums, "")), 0o644)
}

// write writes files of the release, and appends their checksums.
func (r *release) write(files []file, sums *[]string) error {
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(r.out, f.name), f.data, 0o644); err != nil {
			return err
		}
		sum := sha256.Sum256(f.data)
		*sums = append(*sums, hex.EncodeToString(sum[:])+"  "+f.name+"\n")
		fmt.Println(filepath.Join(r.out, f.name))
	}
	return nil
}

// file is one file of an archive or of the release.
type file struct {
	name string // slash-separated
	data []byte
	exec bool
}

// sharedFiles returns the files that are in the archives of all platforms.
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

// platform returns the archive, the SBOM and the Debian package of one platform. It adds the image of
// the platform to image.
func (r *release) platform(goos, goarch string, shared []file, image *layout) ([]file, error) {
	built, err := r.compile(goos, goarch)
	if err != nil {
		return nil, err
	}
	base := fmt.Sprintf("prober_%s_%s_%s", r.version, goos, goarch)
	modules, err := r.linked(goos, goarch)
	if err != nil {
		return nil, err
	}
	bom, err := sbom(built[0].data, modules, r.version, r.date)
	if err != nil {
		return nil, err
	}
	licenses, err := r.licensesText(modules)
	if err != nil {
		return nil, err
	}
	shared = append(slices.Clip(shared), file{name: licensesFile, data: licenses})
	name, pack := base+".tar.gz", packTar
	content := slices.Concat(built, shared)
	switch goos {
	case "windows":
		name, pack = base+".zip", packZip
		for i := range built {
			content[i].name += ".exe"
		}
	case "linux":
		for from, to := range map[string]string{
			"deploy/systemd/prober.service": "systemd/prober.service", "deploy/prober.yaml": "systemd/prober.yaml", "deploy/debian/default": "systemd/default",
		} {
			data, err := os.ReadFile(filepath.Join(r.source, from))
			if err != nil {
				return nil, err
			}
			content = append(content, file{name: to, data: data})
		}
	}
	if goos != "windows" {
		data, err := os.ReadFile(filepath.Join(r.source, "deploy/install.sh"))
		if err != nil {
			return nil, err
		}
		content = append(content, file{name: "install.sh", data: data, exec: true})
	}
	slices.SortFunc(content, func(a, b file) int { return strings.Compare(a.name, b.name) })
	archive, err := pack(base, content, r.date)
	files := []file{{name: name, data: archive}, {name: base + ".cdx.json", data: bom}}
	if arch := debArchitectures[goarch]; err == nil && goos == "linux" && arch != "" {
		var deb file
		if deb, err = r.deb(arch, built, bom, shared); err != nil {
			return nil, err
		}
		files = append(files, deb)
		err = r.addImage(image, goarch, built, bom, licenses)
	}
	return files, err
}
