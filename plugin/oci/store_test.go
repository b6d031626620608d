package oci_test

import (
	"bytes"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/internal/registrytest"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/oci"
)

func openStore(t *testing.T, dir string) *oci.Store {
	t.Helper()
	s, err := oci.OpenStore(oci.StoreConfig{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// storeFixture is a store, and a registry that has demo:1.
type storeFixture struct {
	*oci.Store
	dir    string
	hub    *registrytest.Registry
	client *oci.Client
	wanted oci.Wanted
	first  *oci.Artifact
}

func newStoreFixture(t *testing.T) *storeFixture {
	t.Helper()
	s := &storeFixture{dir: filepath.Join(t.TempDir(), "plugins"), hub: registrytest.New(t), client: client(t, oci.ClientConfig{}), first: pack(t, "1.0.0", "signature")}
	s.Store = openStore(t, s.dir)
	s.wanted.Ref = s.hub.Ref(t, "demo:1")
	push(t, s.client, s.wanted.Ref, s.first)
	return s
}

// resolve returns the wanted artifact.
func (s *storeFixture) resolve(t *testing.T) *oci.Kept {
	t.Helper()
	k, err := s.Resolve(t.Context(), s.client, s.wanted)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// away makes the registry answer 410.
func (s *storeFixture) away() {
	s.hub.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, `{"errors":[{"code":"DENIED","message":"moved out"}]}`, http.StatusGone)
		return true
	})
}

func TestStoreReturnsLastGoodOfTag(t *testing.T) {
	s := newStoreFixture(t)
	k := s.resolve(t)
	checkSame(t, k.Artifact, s.first)
	if k.Stale != nil || k.Unkept != nil {
		t.Errorf("%+v", k)
	}
	s.hub.Intercept(nil)
	s.resolve(t)
	if len(s.hub.Requests()) != 1 || !strings.HasSuffix(s.hub.Requests()[0], "/manifests/1") {
		t.Errorf("a tag that stayed costs %q", s.hub.Requests())
	}

	s.away()
	k, err := openStore(t, s.dir).Resolve(t.Context(), s.client, s.wanted) // another agent, later
	if err != nil {
		t.Fatal(err)
	}
	checkSame(t, k.Artifact, s.first)
	wantError(t, k.Stale, s.wanted.Ref.String()+": the registry answered 410 denied: moved out")

	s.hub.Intercept(nil)
	second := pack(t, "2.0.0", "")
	push(t, s.client, s.wanted.Ref, second)
	k = s.resolve(t)
	checkSame(t, k.Artifact, second)
	s.away()
	k = s.resolve(t)
	checkSame(t, k.Artifact, second)
	if k.Stale == nil {
		t.Error("nothing is said of the registry")
	}
}

func TestStoreDigestNeedsNoRequest(t *testing.T) {
	s := newStoreFixture(t)
	s.wanted.Ref = s.wanted.Ref.Pinned(s.first.Digest)
	checkSame(t, s.resolve(t).Artifact, s.first)
	s.away()
	k := s.resolve(t)
	checkSame(t, k.Artifact, s.first)
	if k.Stale != nil || len(s.hub.Requests()) > 0 {
		t.Errorf("%v, %q", k.Stale, s.hub.Requests())
	}
	s.wanted.Ref = s.wanted.Ref.Pinned(pack(t, "2.0.0", "").Digest)
	_, err := s.Resolve(t.Context(), s.client, s.wanted)
	wantError(t, err, s.wanted.Ref.String(), "moved out")
}

func TestStorePinnedModuleNeedsNoRequest(t *testing.T) {
	s := newStoreFixture(t)
	s.wanted.Digest = plugin.Digest(s.first.Module)
	s.resolve(t)
	push(t, s.client, s.wanted.Ref, pack(t, "2.0.0", "")) // the tag moves to another module
	s.hub.Intercept(nil)
	k := s.resolve(t)
	checkSame(t, k.Artifact, s.first)
	if k.Stale != nil || len(s.hub.Requests()) > 0 {
		t.Errorf("%v, %q", k.Stale, s.hub.Requests())
	}
	_, err := openStore(t, filepath.Join(t.TempDir(), "plugins")).Resolve(t.Context(), s.client, s.wanted)
	wantError(t, err, s.wanted.Ref.String()+": the digest of its module is "+plugin.Digest(module(t, "2.0.0"))+", must be "+s.wanted.Digest)
}

func TestStoreReturnsLastAccepted(t *testing.T) {
	s := newStoreFixture(t)
	s.wanted.Accept = func(a *oci.Artifact) error {
		if a.Signature == nil {
			return errors.New("not signed")
		}
		return nil
	}
	s.resolve(t)
	push(t, s.client, s.wanted.Ref, pack(t, "2.0.0", ""))
	for range 2 {
		k := s.resolve(t)
		checkSame(t, k.Artifact, s.first)
		wantError(t, k.Stale, "not signed")
	}
	// A pull that fails verification counts as no answer.
	third := pack(t, "3.0.0", "signature")
	push(t, s.client, s.wanted.Ref, third)
	s.hub.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, plugin.Digest(third.Module)) {
			return false
		}
		_, _ = w.Write(append([]byte(nil), make([]byte, len(third.Module))...))
		return true
	})
	k := s.resolve(t)
	checkSame(t, k.Artifact, s.first)
	wantError(t, k.Stale, "module: sha256:", "the bytes do not match their digest")
}

// layoutOf returns the path of an artifact's file in the store at dir.
func layoutOf(dir string, a *oci.Artifact) string {
	return filepath.Join(dir, strings.TrimPrefix(a.Digest, "sha256:")+".tar")
}

// spoilEach corrupts each part of a in the store at dir in turn. It fails if get returns no error.
func spoilEach(t *testing.T, dir string, a *oci.Artifact, get func() error) {
	t.Helper()
	path := layoutOf(dir, a)
	was := readFile(t, path)
	for name, part := range map[string][]byte{
		"module": a.Module, "signature": a.Signature, "config": []byte(`"architecture"`), "manifest": []byte(`"layers"`), "index": []byte(a.Digest),
	} {
		spoiled := bytes.Replace(was, part, append([]byte{part[0], part[1] ^ 1}, part[2:]...), 1)
		if bytes.Equal(spoiled, was) {
			t.Fatalf("%s is not stored", name)
		}
		writeFile(t, path, spoiled)
		if err := get(); err == nil {
			t.Errorf("changed %s is returned", name)
		}
	}
	writeFile(t, path, was)
	if err := get(); err != nil {
		t.Error(err)
	}
}

func TestStoreVerifiesWhatItReadsBack(t *testing.T) {
	last := func(s *storeFixture) func() error {
		return func() error { _, err := s.Last(s.wanted); return err }
	}
	t.Run("changed part is an error", func(t *testing.T) {
		s := newStoreFixture(t)
		s.resolve(t)
		spoilEach(t, s.dir, s.first, last(s))
	})
	t.Run("broken artifact is pulled again", func(t *testing.T) {
		s := newStoreFixture(t)
		for _, spoil := range []func(path string) error{
			func(path string) error { return os.WriteFile(path, []byte("no tar"), 0o600) },
			os.Remove,
		} {
			s.resolve(t)
			if err := spoil(layoutOf(s.dir, s.first)); err != nil {
				t.Fatal(err)
			}
			checkSame(t, s.resolve(t).Artifact, s.first)
			if err := last(s)(); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("broken artifact without registry is an error", func(t *testing.T) {
		s := newStoreFixture(t)
		s.resolve(t)
		writeFile(t, layoutOf(s.dir, s.first), bytes.Replace(readFile(t, layoutOf(s.dir, s.first)), s.first.Module, make([]byte, len(s.first.Module)), 1))
		s.away()
		_, err := s.Resolve(t.Context(), s.client, s.wanted)
		wantError(t, err, "moved out (and the stored copy: ", "the bytes do not match their digest")
	})
	t.Run("broken reference is an error", func(t *testing.T) {
		s := newStoreFixture(t)
		s.resolve(t)
		names, err := filepath.Glob(filepath.Join(s.dir, "*.json"))
		if err != nil || len(names) != 1 {
			t.Fatal(names, err)
		}
		for _, text := range []string{"{", `{"reference":"other","digest":"` + s.first.Digest + `"}`, `{"reference":"` + s.wanted.Ref.String() + `","digest":"sha256:../refs"}`} {
			writeFile(t, names[0], []byte(text))
			if k, err := s.Last(s.wanted); err == nil {
				t.Errorf("%s: %+v", text, k)
			}
		}
	})
}

func TestStoreSlowRegistryTimesOut(t *testing.T) {
	s := newStoreFixture(t)
	var err error
	if s.Store, err = oci.OpenStore(oci.StoreConfig{Dir: s.dir, LastPatience: 20 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	s.resolve(t)
	s.hub.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		w.Header().Set("Content-Length", "100")
		w.(http.Flusher).Flush() // the response starts but never ends
		<-r.Context().Done()
		return true
	})
	k := s.resolve(t)
	checkSame(t, k.Artifact, s.first)
	wantError(t, k.Stale, s.wanted.Ref.String()+": "+s.hub.Host+" did not answer within 20ms")
	impatient, err := oci.OpenStore(oci.StoreConfig{Dir: filepath.Join(t.TempDir(), "plugins"), Patience: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	_, err = impatient.Resolve(t.Context(), s.client, s.wanted)
	wantError(t, err, "did not answer within 20ms")
}

func TestStoreIsPrivate(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	_, err := oci.OpenStore(oci.StoreConfig{Dir: dir})
	wantError(t, err, "plugin cache: "+dir+" is writable to others (mode 0777); it must be private (0700)")
	s := newStoreFixture(t)
	s.resolve(t)
	err = filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if info, err := d.Info(); err == nil && d.IsDir() && info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestStoreNotWritableReturnsPulled(t *testing.T) {
	s := newStoreFixture(t)
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
	writeFile(t, s.dir, nil)
	k := s.resolve(t)
	checkSame(t, k.Artifact, s.first)
	wantError(t, k.Unkept, "plugin cache: ", "not a directory")
}

func TestStoreRemovesUnused(t *testing.T) {
	s := newStoreFixture(t)
	old := time.Now().Add(-2 * time.Hour)
	unfinished := filepath.Join(s.dir, "unfinished.json.1")
	writeFile(t, unfinished, nil)
	writeFile(t, unfinished+"2", nil) // its writer may still run
	if err := os.Chtimes(unfinished, old, old); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"1.0.0", "2.0.0", "3.0.0"} {
		push(t, s.client, s.wanted.Ref, pack(t, version, ""))
		s.resolve(t)
		layouts, err := filepath.Glob(filepath.Join(s.dir, "*.tar"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range layouts {
			if err := os.Chtimes(f, old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The reference names the third only.
	if left, err := filepath.Glob(filepath.Join(s.dir, "*.tar")); err != nil || len(left) != 1 || left[0] != layoutOf(s.dir, pack(t, "3.0.0", "")) {
		t.Errorf("left: %q, %v", left, err)
	}
	if left, err := filepath.Glob(filepath.Join(s.dir, "unfinished*")); err != nil || len(left) != 1 || left[0] != unfinished+"2" {
		t.Errorf("left of unfinished files: %q, %v", left, err)
	}
}
