package plugin_test

import (
	"errors"
	"testing"

	"github.com/daeace23/prober/plugin"
)

func TestEmbed(t *testing.T) {
	manifest := []byte("apiVersion: prober.dev/v1\nname: one\nversion: 1.0.0\n")
	first, err := plugin.Embed(module, []byte(full))
	if err != nil {
		t.Fatal(err)
	}
	second, err := plugin.Embed(first, manifest)
	if err != nil {
		t.Fatal(err)
	}
	got, err := plugin.Extract(second)
	if err != nil || string(got) != string(manifest) {
		t.Errorf("got %q, %v, want the manifest that was embedded last", got, err)
	}
	direct, err := plugin.Embed(module, manifest)
	if err != nil || string(direct) != string(second) {
		t.Errorf("%v: embedding twice left something behind", err)
	}
	if _, err := plugin.Embed(module, []byte("name: x")); err == nil {
		t.Error("a bad manifest was embedded")
	}
	if _, err := plugin.Extract(module); !errors.Is(err, plugin.ErrNoManifest) {
		t.Errorf("got %v, want ErrNoManifest", err)
	}
}

func TestExtractTruncatedModule(t *testing.T) {
	whole, err := plugin.Embed(module, []byte(full))
	if err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		if got, err := plugin.Extract(whole[:n]); err == nil {
			t.Fatalf("%d of %d bytes gave the manifest %q", n, len(whole), got)
		}
	}
}

func FuzzExtract(f *testing.F) {
	whole, err := plugin.Embed(module, []byte(full))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(module)
	f.Add(append(module, 0, 3, 9, 'x', 'y'))
	f.Fuzz(func(t *testing.T, data []byte) {
		manifest, err := plugin.Extract(data)
		if err != nil {
			return
		}
		m, err := plugin.ParseManifest("fuzz", manifest)
		if err != nil {
			return
		}
		again, err := plugin.Embed(data, manifest)
		if err != nil {
			t.Fatalf("manifest of %q cannot be embedded again: %v", m.Name, err)
		}
		if got, err := plugin.Extract(again); err != nil || string(got) != string(manifest) {
			t.Errorf("got %q, %v, want %q", got, err, manifest)
		}
	})
}
