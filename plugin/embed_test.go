package plugin_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/plugin"
)

const header = "\x00asm\x01\x00\x00\x00"

// guests are modules, with their errors.
var guests = []struct {
	name, module string
	mode         plugin.Mode
	want         []string
}{
	{"nothing", header, plugin.Reactor, []string{`the module exports no "memory"`, `the module exports no function "probe"`}},
	{"a reactor", header + "\x01\x05\x01\x60\x00\x01\x7f" + "\x03\x02\x01\x00" + "\x05\x03\x01\x00\x01" +
		"\x07\x12\x02\x06memory\x02\x00\x05probe\x00\x00" + "\x0a\x06\x01\x04\x00\x41\x00\x0b", plugin.Reactor, nil},
	{"a reactor as a command", header + "\x01\x05\x01\x60\x00\x01\x7f" + "\x03\x02\x01\x00" + "\x05\x03\x01\x00\x01" +
		"\x07\x12\x02\x06memory\x02\x00\x05probe\x00\x00" + "\x0a\x06\x01\x04\x00\x41\x00\x0b", plugin.Command,
		[]string{`the module exports no function "_start"`}},
	{"a command", header + "\x01\x04\x01\x60\x00\x00" + "\x03\x02\x01\x00" + "\x05\x03\x01\x00\x01" +
		"\x07\x13\x02\x06memory\x02\x00\x06_start\x00\x00" + "\x0a\x04\x01\x02\x00\x0b", plugin.Reactor, nil},
	// (f32, v128) -> (i64, f64) as prober_v1.log and as probe; wasi_snapshot_preview1.x; a table, a memory and a global of env.
	{"all kinds of imports", header + "\x01\x0b\x02\x60\x02\x7d\x7b\x02\x7e\x7c\x60\x00\x00" +
		"\x02\x57\x05\x03env\x05table\x01\x70\x01\x01\x02" + "\x03env\x06memory\x02\x00\x01" + "\x03env\x06global\x03\x7f\x00" +
		"\x09prober_v1\x03log\x00\x00" + "\x16wasi_snapshot_preview1\x01x\x00\x01" +
		"\x07\x12\x02\x06memory\x02\x00\x05probe\x00\x00", plugin.Reactor, []string{
		"import prober_v1.log has another signature than version 1 of the contract: got (f32, unknown) -> (i64, f64), want (i32, i32, i32) -> ()",
		`the export "probe" has another signature than version 1 of the contract: got (f32, unknown) -> (i64, f64), want () -> (i32)`,
	}},
}

func TestCheckContract(t *testing.T) {
	for _, c := range guests {
		m := plugin.Minimal("demo")
		m.Mode = c.mode
		var got []string
		for _, err := range plugin.CheckContract([]byte(c.module), m) {
			got = append(got, err.Error())
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
}

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
