package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	oci "github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// openLayout unpacks an image layout.
func openLayout(t *testing.T, data []byte) oci.Path {
	t.Helper()
	dir := t.TempDir()
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			path, err := oci.FromPath(dir)
			if err != nil {
				t.Fatal(err)
			}
			return path
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, filepath.FromSlash(header.Name))
		if header.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(name, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		text, err := io.ReadAll(r)
		if err == nil {
			err = os.WriteFile(name, text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestImageHasBothArchitectures(t *testing.T) {
	files := build(t, "linux/amd64", "linux/arm64")
	top, err := openLayout(t, files["prober_0.1.0_image.tar"]).ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(top); err != nil { // digests, sizes and media types, including layers
		t.Fatal(err)
	}
	list, err := top.IndexManifest()
	if err != nil || len(list.Manifests) != 1 || list.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "0.1.0" {
		t.Fatalf("%+v, %v; want one image with the tag 0.1.0", list, err)
	}
	all, err := top.ImageIndex(list.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if list, err = all.IndexManifest(); err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, m := range list.Manifests {
		platforms = append(platforms, m.Platform.String())
		image, err := all.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Architecture != m.Platform.Architecture || config.Config.User != "65532:65532" || !config.Created.Equal(date) ||
			!slices.Equal(config.Config.Entrypoint, []string{"/usr/bin/prober"}) || config.Config.Cmd[0] != "run" ||
			config.Config.Labels["org.opencontainers.image.version"] != "0.1.0" {
			t.Errorf("%s: %+v", m.Platform, config)
		}
		checkImageFiles(t, mutate.Extract(image), files["prober_0.1.0_linux_"+m.Platform.Architecture+".cdx.json"])
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64/v8"}, platforms); diff != "" {
		t.Error(diff)
	}
}

// checkImageFiles checks the files of an image, including its SBOM.
func checkImageFiles(t *testing.T, image io.ReadCloser, sbom []byte) {
	t.Helper()
	defer image.Close()
	found := make(map[string][]byte)
	for r := tar.NewReader(image); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if found[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		own := header.Name == "var/lib/prober" || header.Name == "run/prober"
		if writable := header.Uid == 65532; writable != own || header.Mode&0o022 != 0 && header.Name != "tmp" || !header.ModTime.Equal(date) {
			t.Errorf("%s: owner %d, mode %o, time %v", header.Name, header.Uid, header.Mode, header.ModTime)
		}
	}
	for _, name := range []string{"usr/bin/prober", "usr/bin/prober-probe", "usr/share/doc/prober/" + licensesFile, "etc/prober/prober.yaml", "etc/passwd", "etc/group"} {
		if len(found[name]) == 0 {
			t.Errorf("%s is not there", name)
		}
	}
	if !bytes.Equal(found["usr/share/doc/prober/prober.cdx.json"], sbom) {
		t.Error("the SBOM of the image is another one")
	}
	if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM(found["etc/ssl/certs/ca-certificates.crt"]) {
		t.Error("there are no certificates of authorities")
	}
}

func TestAuthoritiesEqualMozillas(t *testing.T) {
	var names []string
	for rest := authorities(); len(rest) > 0; {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil || !c.IsCA {
			t.Fatalf("%v, %v", c, err)
		}
		names = append(names, c.Subject.CommonName)
	}
	if len(names) < 80 || !slices.Contains(names, "ISRG Root X1") || slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "Entrust Root") }) {
		t.Errorf("%d authorities: %q; want those without conditions", len(names), names)
	}
}

func TestDebVersionsAreOrderedAsVersions(t *testing.T) {
	for version, want := range map[string]string{
		"1.2.3":                   "1.2.3-1",
		"1.2.3-rc.1":              "1.2.3~rc.1-1",
		"1.2.3-rc-a.1":            "1.2.3~rc.a.1-1",
		"1.2.3-12-g6f8fda7":       "1.2.3+12.g6f8fda7-1",
		"1.2.3-rc.1-12-g6f8fda7":  "1.2.3~rc.1+12.g6f8fda7-1",
		"1.2.3-12-g6f8fda7-dirty": "1.2.3+12.g6f8fda7+dirty-1",
		"1.2.3-dirty":             "1.2.3+dirty-1",
		"6f8fda7":                 "0~git.6f8fda7-1",
		"6f8fda7-dirty":           "0~git.6f8fda7+dirty-1",
		"dev":                     "0~git.dev-1",
		"":                        "0~git.-1",
	} {
		if got := debVersion(version); got != want {
			t.Errorf("%q: got %q, want %q", version, got, want)
		}
	}
}

func TestReleaseWithoutLinuxHasNoImage(t *testing.T) {
	var names []string
	for name := range build(t, "windows/amd64") {
		names = append(names, name)
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"checksums.txt", "prober_0.1.0_windows_amd64.cdx.json", "prober_0.1.0_windows_amd64.zip"}, names); diff != "" {
		t.Error(diff)
	}
}
