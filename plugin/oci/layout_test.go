package oci_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/registrytest"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/oci"
)

// readFile and writeFile call os.ReadFile and os.WriteFile; errors end the test.
func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func blobPath(dir, digest string) string {
	return filepath.Join(dir, "blobs", "sha256", strings.TrimPrefix(digest, "sha256:"))
}

func TestSaveAndLoad(t *testing.T) {
	a := pack(t, "1.0.0", "signature")
	dir := t.TempDir()
	for _, save := range []struct {
		path string
		of   func(path, tag string, a *oci.Artifact) error
	}{{filepath.Join(dir, "layout"), oci.SaveDir}, {filepath.Join(dir, "layout.tar"), oci.SaveTar}} {
		for range 2 { // the second time, the layout already exists
			if err := save.of(save.path, "1.0.0", a); err != nil {
				t.Fatal(err)
			}
			got, err := oci.Load(save.path, oci.Platform{})
			if err != nil || len(got) != 1 {
				t.Fatalf("%d plugins, %v", len(got), err)
			}
			checkSame(t, got[0], a)
		}
	}
	again := filepath.Join(dir, "again.tar")
	if err := oci.SaveTar(again, "1.0.0", a); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(readFile(t, again), readFile(t, filepath.Join(dir, "layout.tar"))) {
		t.Error("the same artifact makes another archive")
	}
}

func TestSavedArtifactKeepsDigest(t *testing.T) {
	a := pack(t, "1.0.0", "signature")
	here, there := registrytest.New(t), registrytest.New(t)
	c := client(t, oci.ClientConfig{})
	push(t, c, here.Ref(t, "demo:1"), a)
	pulled, err := c.Pull(t.Context(), here.Ref(t, "demo:1"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "demo.tar")
	if err := oci.SaveTar(path, "1", pulled); err != nil {
		t.Fatal(err)
	}
	loaded, err := oci.Load(path, oci.Platform{})
	if err != nil {
		t.Fatal(err)
	}
	push(t, c, there.Ref(t, "mirror/demo:1"), loaded[0])
	got, err := c.Pull(t.Context(), there.Ref(t, "mirror/demo@"+a.Digest))
	if err != nil {
		t.Fatal(err)
	}
	checkSame(t, got, a)
}

func TestSaveDirAddsToLayout(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "layout")
	for _, s := range []struct{ version, tag string }{{"1.0.0", "1"}, {"2.0.0", "2"}, {"3.0.0", "2"}} {
		if err := oci.SaveDir(dir, s.tag, pack(t, s.version, "")); err != nil {
			t.Fatal(err)
		}
	}
	all, err := oci.Load(dir, oci.Platform{})
	if err != nil {
		t.Fatal(err)
	}
	var versions []string
	for _, a := range all {
		versions = append(versions, a.Manifest.Version)
	}
	if got := strings.Join(versions, " "); got != "1.0.0 3.0.0" {
		t.Errorf("versions %s; want the tag 2 to have moved", got)
	}
	other := t.TempDir()
	writeFile(t, filepath.Join(other, "file"), nil)
	wantError(t, oci.SaveDir(other, "", all[0]), other+": is not an OCI layout")
}

func TestLoadDirErrors(t *testing.T) {
	a := pack(t, "1.0.0", "")
	for name, tc := range map[string]struct {
		spoil func(t *testing.T, dir string)
		want  string
	}{
		"tampered module": {func(t *testing.T, dir string) {
			path := blobPath(dir, plugin.Digest(a.Module))
			writeFile(t, path, append(readFile(t, path)[1:], 0))
		}, "module: sha256:"},
		"longer module": {func(t *testing.T, dir string) {
			path := blobPath(dir, plugin.Digest(a.Module))
			writeFile(t, path, append(readFile(t, path), 0))
		}, "the bytes do not match their digest"},
		"missing module": {func(t *testing.T, dir string) {
			if err := os.Remove(blobPath(dir, plugin.Digest(a.Module))); err != nil {
				t.Fatal(err)
			}
		}, "no such file"},
		"link out of it": {func(t *testing.T, dir string) {
			path := blobPath(dir, plugin.Digest(a.Module))
			outside := filepath.Join(t.TempDir(), "outside")
			if err := os.Rename(path, outside); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(outside, path); err != nil {
				t.Fatal(err)
			}
		}, "path escapes from parent"},
		"huge index": {func(t *testing.T, dir string) {
			writeFile(t, filepath.Join(dir, "index.json"), make([]byte, 4<<20+1))
		}, "index.json: more than 4194304 bytes"},
		"no JSON": {func(t *testing.T, dir string) {
			writeFile(t, filepath.Join(dir, "index.json"), []byte("{"))
		}, "index.json: unexpected end"},
		"empty index": {func(t *testing.T, dir string) {
			writeFile(t, filepath.Join(dir, "index.json"), []byte("{}"))
		}, "plugin not found"},
		"an image": {func(t *testing.T, dir string) {
			index := bytes.ReplaceAll(readFile(t, filepath.Join(dir, "index.json")), []byte("image.manifest"), []byte("image.index"))
			writeFile(t, filepath.Join(dir, "index.json"), index)
		}, "is an index of images, not a plugin"},
		"a later version": {func(t *testing.T, dir string) {
			writeFile(t, filepath.Join(dir, "oci-layout"), []byte(`{"imageLayoutVersion":"2.0.0"}`))
		}, "is not a version that prober reads"},
		"huge manifest": {func(t *testing.T, dir string) {
			path := filepath.Join(dir, "index.json")
			var index map[string]any
			if err := json.Unmarshal(readFile(t, path), &index); err != nil {
				t.Fatal(err)
			}
			index["manifests"].([]any)[0].(map[string]any)["size"] = int64(1) << 62
			data, err := json.Marshal(index)
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, path, data)
		}, "at most 4194304 are allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "layout")
			if err := oci.SaveDir(dir, "", a); err != nil {
				t.Fatal(err)
			}
			tc.spoil(t, dir)
			_, err := oci.Load(dir, oci.Platform{})
			wantError(t, err, dir+": ", tc.want)
		})
	}
}

func TestLoadTarErrors(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good.tar")
	if err := oci.SaveTar(good, "", pack(t, "1.0.0", "")); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(dir, "outside")
	for name, tc := range map[string]struct {
		entry tar.Header
		want  string
	}{
		"traversal":       {tar.Header{Typeflag: tar.TypeReg, Name: "../outside"}, `entry "../outside" leads out of the archive`},
		"inner traversal": {tar.Header{Typeflag: tar.TypeReg, Name: "blobs/../../outside"}, "leads out of the archive"},
		"absolute":        {tar.Header{Typeflag: tar.TypeReg, Name: outside}, "leads out of the archive"},
		"symlink":         {tar.Header{Typeflag: tar.TypeSymlink, Name: "blobs/sha256/link", Linkname: "/etc/passwd"}, "is not a regular file"},
		"hard link":       {tar.Header{Typeflag: tar.TypeLink, Name: "blobs/sha256/link", Linkname: "/etc/passwd"}, "is not a regular file"},
		"device":          {tar.Header{Typeflag: tar.TypeChar, Name: "blobs/null", Devmajor: 1, Devminor: 3}, "is not a regular file"},
		"pipe":            {tar.Header{Typeflag: tar.TypeFifo, Name: "index.pipe"}, "is not a regular file"},
		"huge":            {tar.Header{Typeflag: tar.TypeReg, Name: "blobs/huge", Size: oci.MaxProgram + 1}, "of 268435457 bytes; at most 268435456 are allowed"},
		"vast":            {tar.Header{Typeflag: tar.TypeReg, Name: "blobs/vast", Size: 1 << 60}, "at most 268435456 are allowed"},
		"twice":           {tar.Header{Typeflag: tar.TypeReg, Name: "./index.json"}, "occurs twice"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "bad.tar")
			writeFile(t, path, append(readFile(t, good)[:len(readFile(t, good))-1024], header(t, tc.entry)...))
			_, err := oci.Load(path, oci.Platform{})
			wantError(t, err, path+": ", tc.want)
			if _, err := os.Stat(outside); err == nil {
				t.Error("it was unpacked")
			}
		})
	}
	t.Run("many", func(t *testing.T) {
		var all []byte
		for range 5000 {
			all = append(all, header(t, tar.Header{Typeflag: tar.TypeDir, Name: "blobs/"})...)
		}
		path := filepath.Join(t.TempDir(), "many.tar")
		writeFile(t, path, all)
		_, err := oci.Load(path, oci.Platform{})
		wantError(t, err, "more than 4096 entries")
	})
	t.Run("compressed", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "layout.tar.gz")
		writeFile(t, path, append([]byte{0x1f, 0x8b}, make([]byte, 1022)...))
		_, err := oci.Load(path, oci.Platform{})
		wantError(t, err, "must be a tar archive of an OCI layout, not compressed")
	})
	t.Run("truncated", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "short.tar")
		writeFile(t, path, readFile(t, good)[:2000])
		_, err := oci.Load(path, oci.Platform{})
		wantError(t, err, "open index.json: file does not exist")
	})
	t.Run("nothing there", func(t *testing.T) {
		_, err := oci.Load(filepath.Join(dir, "nosuch.tar"), oci.Platform{})
		wantError(t, err, "no such file")
	})
}

// header returns the header of an entry, without its contents.
func header(t *testing.T, h tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	h.Mode = 0o644
	if err := tar.NewWriter(&b).WriteHeader(&h); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
