package oci_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/oci"
)

// Load stops at its limit in a layout with many manifests that share one large module.
func TestLoadLargeLayoutIsError(t *testing.T) {
	const size = 30 << 20
	large := append([]byte("\x00asm\x01\x00\x00\x00\x00"), binary.AppendUvarint(nil, size+2)...)
	large = append(append(large, "\x01x"...), make([]byte, size)...)
	module, err := plugin.Embed(large, []byte("apiVersion: prober.dev/v1\nkind: Plugin\nname: demo\nversion: 1.0.0\n"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := oci.Pack(module, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "layout")
	if err := oci.SaveDir(dir, "", a); err != nil {
		t.Fatal(err)
	}
	var index []string
	for i := range 100 {
		root := strings.Replace(string(a.Root()), `"annotations":{`, fmt.Sprintf(`"annotations":{"n":"%d",`, i), 1)
		digest := plugin.Digest([]byte(root))
		writeFile(t, blobPath(dir, digest), []byte(root))
		index = append(index, fmt.Sprintf(`{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":%q,"size":%d}`, digest, len(root)))
	}
	writeFile(t, filepath.Join(dir, "index.json"), []byte(`{"schemaVersion":2,"manifests":[`+strings.Join(index, ",")+`]}`))
	_, err = oci.Load(dir, oci.Platform{})
	wantError(t, err, "more than 268435456 bytes of plugins")

	// A manifest that the index names many times is read once.
	entry := fmt.Sprintf(`{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":%q,"size":%d}`, a.Digest, len(a.Root()))
	writeFile(t, filepath.Join(dir, "index.json"), []byte(`{"schemaVersion":2,"manifests":[`+strings.TrimSuffix(strings.Repeat(entry+",", 20_000), ",")+`]}`))
	if all, err := oci.Load(dir, oci.Platform{}); err != nil || len(all) != 1 {
		t.Errorf("got %d plugins, %v", len(all), err)
	}
}

func FuzzLoadTar(f *testing.F) {
	module, err := plugin.Embed([]byte("\x00asm\x01\x00\x00\x00"), []byte("apiVersion: prober.dev/v1\nkind: Plugin\nname: demo\nversion: 1.0.0\n"))
	if err != nil {
		f.Fatal(err)
	}
	a, err := oci.Pack(module, []byte("signature"))
	if err != nil {
		f.Fatal(err)
	}
	path := filepath.Join(f.TempDir(), "seed.tar")
	if err := oci.SaveTar(path, "1", a); err != nil {
		f.Fatal(err)
	}
	seed, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add(seed[:2048])
	if a, err = oci.PackProgram(oci.Program{Manifest: []byte("apiVersion: prober.dev/v1\nname: demo\nversion: 1.0.0\n"), Code: []byte("code")}); err != nil {
		f.Fatal(err)
	}
	if err := oci.SaveTar(path, "1", a); err != nil {
		f.Fatal(err)
	}
	if seed, err = os.ReadFile(path); err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	path = filepath.Join(f.TempDir(), "fuzzed.tar")
	f.Fuzz(func(t *testing.T, data []byte) {
		writeFile(t, path, data)
		all, err := oci.Load(path, oci.Platform{})
		if (err == nil) == (len(all) == 0) {
			t.Errorf("%d plugins, %v", len(all), err)
		}
		for _, a := range all {
			root := a.Root()
			if index := a.Index(); index != nil {
				if !strings.Contains(string(index), plugin.Digest(root)) {
					t.Error("the manifest is not that of the index")
				}
				root = index
			}
			if plugin.Digest(root) != a.Digest {
				t.Errorf("the manifest is not that of %s", a.Digest)
			}
			if !strings.Contains(string(a.Root()), plugin.Digest(a.Module)) {
				t.Error("the module is not that of the manifest")
			}
		}
	})
}
