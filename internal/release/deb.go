package main

import (
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// debAuthor is the maintainer of the Debian package.
const debAuthor = "prober authors <prober@users.noreply.github.com>"

// debArchitectures has Debian's names of the architectures with a package, by GOARCH.
var debArchitectures = map[string]string{"amd64": "amd64", "arm64": "arm64"}

// describedCommit matches the end of a version by git describe: the number of commits since the tag, the
// commit, and -dirty if files were changed.
var describedCommit = regexp.MustCompile(`-([0-9]+)-g([0-9a-f]+)(-dirty)?$`)

// debVersion returns a version in Debian's format, in which pre-releases sort before their release, and later
// commits after it. A commit without an earlier tag sorts before all releases.
func debVersion(version string) string {
	if version == "" || version[0] < '0' || version[0] > '9' || !strings.Contains(version, ".") {
		version = "0~git." + version
	}
	version = describedCommit.ReplaceAllString(version, "+$1.g$2$3")
	version = strings.Replace(version, "-dirty", "+dirty", 1)
	version = strings.Replace(version, "-", "~", 1) // SemVer's pre-release
	return strings.ReplaceAll(version, "-", ".") + "-1"
}

// deb returns the Debian package for an architecture, with the programs, their SBOM and the shared files of the
// archives.
func (r *release) deb(arch string, built []file, bom []byte, shared []file) (f file, err error) {
	entries, err := r.debFiles(built, bom, shared)
	if err != nil {
		return f, err
	}
	control, err := r.debControl(arch, entries)
	if err != nil {
		return f, err
	}
	var b bytes.Buffer
	b.WriteString("!<arch>\n")
	arMember(&b, "debian-binary", []byte("2.0\n"), r.date)
	for _, part := range []struct {
		name    string
		entries []entry
	}{{"control.tar.gz", control}, {"data.tar.gz", entries}} {
		data, err := packTree("./", append(part.entries, entry{}), r.date)
		if err != nil {
			return f, err
		}
		if data, err = compressed(data, gzip.DefaultCompression); err != nil {
			return f, err
		}
		arMember(&b, part.name, data, r.date)
	}
	return file{name: fmt.Sprintf("prober_%s_%s.deb", debVersion(r.version), arch), data: b.Bytes()}, nil
}

// arMember writes a member of an ar archive: 60 bytes of header, and the data, padded to an even size.
func arMember(b *bytes.Buffer, name string, data []byte, date time.Time) {
	fmt.Fprintf(b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", name, date.Unix(), 0, 0, "100644", len(data))
	b.Write(data)
	if len(data)%2 == 1 {
		b.WriteByte('\n')
	}
}

// debFiles returns the files of the package.
func (r *release) debFiles(built []file, bom []byte, shared []file) (entries []entry, err error) {
	entries = append(inPath(built), entry{name: "etc/prober/pods.d/"}, entry{name: "etc/prober/plugins/"})
	for name, at := range map[string]string{
		"deploy/systemd/prober.service": "lib/systemd/system/prober.service",
		"deploy/prober.yaml":            "etc/prober/prober.yaml",
		"deploy/debian/default":         "etc/default/prober",
		"deploy/debian/copyright":       "usr/share/doc/prober/copyright",
		"deploy/debian/overrides":       "usr/share/lintian/overrides/prober",

		"deploy/prometheus/prober.rules.yaml": "usr/share/prober/prometheus/prober.rules.yaml",
		"deploy/prometheus/dashboard.json":    "usr/share/prober/prometheus/dashboard.json",
	} {
		data, err := os.ReadFile(filepath.Join(r.source, name))
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{name: at, data: data})
	}
	pages, err := r.pages()
	if err != nil {
		return nil, err
	}
	entries = append(entries, pages...)
	zipped := []file{{name: "usr/share/doc/prober/prober.cdx.json", data: bom}, {name: "usr/share/doc/prober/changelog.Debian", data: r.debChangelog()}}
	for _, f := range shared {
		switch dir, name := filepath.Split(f.name); {
		case f.name == licensesFile:
			zipped = append(zipped, file{name: "usr/share/doc/prober/" + f.name, data: f.data})
		case f.name == "CHANGELOG.md":
			zipped = append(zipped, file{name: "usr/share/doc/prober/changelog", data: f.data})
		case dir == "man/":
			zipped = append(zipped, file{name: "usr/share/man/man1/" + name, data: f.data})
		case completionPaths[f.name] != "":
			entries = append(entries, entry{name: completionPaths[f.name], data: f.data})
		}
	}
	for _, f := range zipped { // Debian wants the best level for these
		data, err := compressed(f.data, gzip.BestCompression)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{name: f.name + ".gz", data: data})
	}
	return entries, nil
}

// pages returns the documents and the pages of the shipped plugins. They keep their places in the repository, so that
// their links to each other work.
func (r *release) pages() (entries []entry, err error) {
	for _, folder := range []string{"docs", "handlers/shipped"} {
		err := fs.WalkDir(os.DirFS(r.source), folder, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || path.Ext(name) != ".md" {
				return err
			}
			data, err := os.ReadFile(filepath.Join(r.source, filepath.FromSlash(name)))
			entries = append(entries, entry{name: "usr/share/doc/prober/" + name, data: data})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// completionPaths has the paths at which shells look for completions on Debian, by file in the archive.
var completionPaths = map[string]string{
	"completions/prober.bash": "usr/share/bash-completion/completions/prober",
	"completions/_prober":     "usr/share/zsh/vendor-completions/_prober",
	"completions/prober.fish": "usr/share/fish/vendor_completions.d/prober.fish",
}

// debChangelog returns the changelog of the package. Its only entry refers to the changelog of the program.
func (r *release) debChangelog() []byte {
	return fmt.Appendf(nil, "prober (%s) unstable; urgency=medium\n\n  * Release %s; changelog.gz lists the changes.\n\n -- %s  %s\n",
		debVersion(r.version), r.version, debAuthor, r.date.Format(time.RFC1123Z))
}

const debDescription = `probes of services, as a kubelet makes them
 prober runs the liveness, readiness and startup probes of Kubernetes outside
 of it: for external targets, and for local processes that it starts and
 restarts. Its own checks are HTTP, TCP, gRPC and commands; plugins in
 WebAssembly, which run in a sandbox, and checks of Nagios add others.
 .
 The package has a systemd service. It probes nothing until
 /etc/prober/prober.yaml or /etc/prober/pods.d configure it.`

// debControl returns the files that dpkg reads.
func (r *release) debControl(arch string, files []entry) (entries []entry, err error) {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	var sums, conffiles strings.Builder
	size := 0
	for _, f := range files {
		size += (len(f.data) + 1023) / 1024
		switch {
		case f.folder():
		case strings.HasPrefix(f.name, "etc/"):
			conffiles.WriteString("/" + f.name + "\n")
		default:
			fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(f.data), f.name)
		}
	}
	control := fmt.Sprintf("Package: prober\nVersion: %s\nArchitecture: %s\nMaintainer: %s\nInstalled-Size: %d\n"+
		"Depends: adduser\nRecommends: ca-certificates\nSuggests: monitoring-plugins-basic\nSection: net\nPriority: optional\n"+
		"Homepage: https://github.com/daeace23/prober\nDescription: %s\n", debVersion(r.version), arch, debAuthor, size, debDescription)
	entries = []entry{
		{name: "control", data: []byte(control)}, {name: "md5sums", data: []byte(sums.String())}, {name: "conffiles", data: []byte(conffiles.String())},
	}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		data, err := os.ReadFile(filepath.Join(r.source, "deploy/debian", script))
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{name: script, data: data, mode: 0o755})
	}
	return entries, nil
}
