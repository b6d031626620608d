package oci_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/registrytest"
	"github.com/daeace23/prober/plugin/oci"
)

// A report is in the artifact after a push, a pull, the cache, and a layout as a folder and a file.
func TestReportStaysInArtifact(t *testing.T) {
	h := registrytest.New(t)
	c := client(t, oci.ClientConfig{})
	program, err := oci.PackProgram(oci.Program{Manifest: []byte(programManifest + "1.0.0\n"), Code: []byte("code")})
	if err != nil {
		t.Fatal(err)
	}
	for name, plain := range map[string]*oci.Artifact{"module": pack(t, "1.0.0", "signature"), "program": program} {
		t.Run(name, func(t *testing.T) {
			report := []byte(`{"ok":true}`)
			a, err := plain.WithReport(report)
			if err != nil || a.Digest == plain.Digest || plain.Report != nil {
				t.Fatalf("%v, digest %s", err, a.Digest)
			}
			if again, err := plain.WithReport(report); err != nil || again.Digest != a.Digest {
				t.Errorf("%v: another digest of the same report", err)
			}
			ref := h.Ref(t, name+":1")
			push(t, c, ref, a)
			whole, err := c.PullWhole(t.Context(), ref)
			if err != nil {
				t.Fatal(err)
			}
			kept, err := openStore(t, filepath.Join(t.TempDir(), "plugins")).Resolve(t.Context(), c, oci.Wanted{Ref: ref})
			if err != nil {
				t.Fatal(err)
			}
			dir, tar := filepath.Join(t.TempDir(), "layout"), filepath.Join(t.TempDir(), "layout.tar")
			if err := errors.Join(oci.SaveDir(dir, "1", whole), oci.SaveTar(tar, "1", whole)); err != nil {
				t.Fatal(err)
			}
			all := []*oci.Artifact{whole, kept.Artifact}
			for _, path := range []string{dir, tar} {
				loaded, err := oci.Load(path, oci.Platform{})
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, loaded...)
			}
			for _, got := range all {
				if got.Digest != a.Digest || !bytes.Equal(got.Report, report) || !bytes.Equal(got.Found(ref).Report, report) {
					t.Errorf("digest %s, report %q", got.Digest, got.Report)
				}
			}
		})
	}
	if _, err := program.WithReport(make([]byte, oci.MaxReport+1)); err == nil || !strings.Contains(err.Error(), "at most 65536 are allowed") {
		t.Errorf("a report that is too large: %v", err)
	}
}

func TestVersions(t *testing.T) {
	h := registrytest.New(t)
	c := client(t, oci.ClientConfig{})
	ref := h.Ref(t, "demo:latest")
	if _, err := c.Versions(t.Context(), ref); !errors.Is(err, oci.ErrNotFound) {
		t.Errorf("a repository that does not exist: %v", err)
	}
	for _, tag := range []string{"latest", "1.0.0", "1.10.0", "1.9.0", "v2.0.0-rc.1", "sha256-aa.sig"} {
		push(t, c, h.Ref(t, "demo:"+tag), pack(t, "1.0.0", ""))
	}
	versions, err := c.Versions(t.Context(), ref)
	if got := strings.Join(versions, " "); err != nil || got != "v2.0.0-rc.1 1.10.0 1.9.0 1.0.0" {
		t.Errorf("%v, %s", err, got)
	}
	for before, want := range map[string]string{"": "1.10.0", "1.10.0": "1.9.0", "1.0.0": "", "2.0.0": "1.10.0", "2.0.0-rc.2": "v2.0.0-rc.1", "nightly": ""} {
		if got, err := c.Newest(t.Context(), ref, before); err != nil || got != want {
			t.Errorf("newest before %q: %v, %q, want %q", before, err, got, want)
		}
	}
}
