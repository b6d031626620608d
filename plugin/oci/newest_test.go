package oci_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/registrytest"
	"github.com/daeace23/prober/plugin/oci"
)

func TestStoreTagMovedBackNamesNewest(t *testing.T) {
	h := registrytest.New(t)
	c := client(t, oci.ClientConfig{})
	dir := filepath.Join(t.TempDir(), "plugins")
	s, ref := openStore(t, dir), h.Ref(t, "demo:1")
	for _, step := range []struct{ version, newest string }{
		{"1.0.0", ""}, {"1.2.0-rc.1", ""}, {"1.2.0-rc.10", ""}, {"1.2.0-rc.9", "1.2.0-rc.10"}, {"1.2.0", ""}, {"1.10.0", ""}, {"1.9.3", "1.10.0"},
		{"1.2.0-rc.10", "1.10.0"}, {"nightly", ""}, {"1.2", "1.10.0"}, {"1.10.0+build.7", ""}, {"2", ""}, {"v1.99", "2"},
	} {
		push(t, c, ref, pack(t, step.version, ""))
		for range 2 { // the second time, the digest is stored
			k, err := s.Resolve(t.Context(), c, oci.Wanted{Ref: ref})
			if err != nil || k.Unkept != nil || k.Manifest.Version != step.version {
				t.Fatalf("%s: %v, %+v", step.version, err, k)
			}
			if k.Newest != step.newest {
				t.Errorf("%s: the newest is %q, want %q", step.version, k.Newest, step.newest)
			}
		}
		if k, err := s.Last(oci.Wanted{Ref: ref}); err != nil || k.Newest != step.newest {
			t.Errorf("%s: %v, %+v", step.version, err, k)
		}
	}
	// Files without a newest version, which older versions of prober wrote, are read.
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %q", err, files)
	}
	text := string(readFile(t, files[0]))
	before, _, found := strings.Cut(text, `,"newest"`)
	if !found {
		t.Fatal(text)
	}
	if err := os.WriteFile(files[0], []byte(before+"}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if k, err := s.Last(oci.Wanted{Ref: ref}); err != nil || k.Newest != "" {
		t.Errorf("%v, %+v", err, k)
	}
}
