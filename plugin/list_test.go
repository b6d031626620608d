package plugin_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/plugin"
)

// tree writes plugins of every kind, and other files, to a folder.
func tree(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	put := func(name, data string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(data), 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	put("inside.wasm", string(embed(t, "inside")))
	put("bare.wasm", "\x00asm\x01\x00\x00\x00")
	put("oops.wasm", "oops")
	put("cut.wasm", string(embed(t, "cut"))[:20])
	put("prober-plugin-program", "code")
	put("prober-plugin-program.yaml", "apiVersion: prober.dev/v1\nname: program\nversion: 1.0.0\nruntime: process\n")
	put("beside/plugin.yaml", string(named("beside")))
	put("beside/module.wasm", "\x00asm\x01\x00\x00\x00")
	put("both/plugin.yaml", string(named("both")))
	put("both/both.wasm", string(embed(t, "other")))
	put("check/plugin.yaml", "apiVersion: prober.dev/v1\nname: check\nversion: 1.0.0\nruntime: nagios\ncommand: {args: [/bin/true]}\n")
	put("wrong/plugin.yaml", "oops")
	put("wrong/wrong.wasm", string(embed(t, "wrong")))
	put("second.wasm", string(embed(t, "beside")))
	put("http.wasm", string(embed(t, "http")))
	put("README.md", "text")
	return dir
}

// List and Read return the same plugins and errors as Find.
func TestListAndReadAgreeWithFind(t *testing.T) {
	dir := tree(t)
	want, wantErr := plugin.Find([]string{dir}, "http")
	listed, gotErr := plugin.List([]string{dir}, "http")
	if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
		t.Errorf("got the error\n%v\nwant\n%v", gotErr, wantErr)
	}
	var got []plugin.Found
	for i, l := range listed {
		f, err := l.Read()
		if err != nil {
			t.Fatal(err)
		}
		if l.Name() != f.Manifest.Name || l.Path() != f.Path || i < len(want) && l.Manifest().Runtime != want[i].Manifest.Runtime {
			t.Errorf("listed are %s at %s, which is %s at %s", l.Name(), l.Path(), f.Manifest.Name, f.Path)
		}
		got = append(got, f)
	}
	if len(got) < 5 {
		t.Errorf("only %d plugins were found", len(got))
	}
	about := func(all []plugin.Found) (text []string) {
		for _, f := range all {
			text = append(text, fmt.Sprintf("%s %s %s %q %s %q %s", f.Manifest.Name, f.Manifest.Runtime, f.Path, f.Module, f.Digest, f.Text, f.Inside))
		}
		return text
	}
	if diff := cmp.Diff(about(want), about(got)); diff != "" {
		t.Error(diff)
	}
}

// List does not see an error after the manifest of a module. Read returns it.
func TestListedPluginThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "demo.wasm")
	for _, c := range []struct {
		name   string
		change func() error
		want   string
	}{
		{"removed", func() error { return os.Remove(path) }, "no such file"},
		{"renamed by its manifest", func() error { return os.WriteFile(path, embed(t, "other"), 0o600) }, `has the name "other" now, not "demo"`},
		{"broken", func() error { return os.WriteFile(path, []byte("oops"), 0o600) }, "not a WebAssembly module"},
	} {
		write(t, embed(t, "demo"), path)
		listed, err := plugin.List([]string{dir})
		if err != nil || len(listed) != 1 {
			t.Fatalf("got %d plugins, %v", len(listed), err)
		}
		if err := c.change(); err != nil {
			t.Fatal(err)
		}
		_, err = listed[0].Read()
		if e, ok := errors.AsType[*plugin.FindError](err); !ok || e.Name != "demo" || !e.Unreadable || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

func TestListerReadsChangedManifests(t *testing.T) {
	dir := t.TempDir()
	put := func(version string) { // a new file of the same size
		write(t, []byte("apiVersion: prober.dev/v1\nname: demo\nversion: "+version+"\n"), dir, "new.yaml")
		if err := os.Rename(filepath.Join(dir, "new.yaml"), filepath.Join(dir, "demo", "plugin.yaml")); err != nil {
			t.Fatal(err)
		}
	}
	write(t, []byte("\x00asm\x01\x00\x00\x00"), dir, "demo", "demo.wasm")
	var lister plugin.Lister
	manifest := func() *plugin.Manifest {
		t.Helper()
		listed, err := lister.List([]string{dir})
		if err != nil || len(listed) != 1 {
			t.Fatalf("got %d plugins, %v", len(listed), err)
		}
		return listed[0].Manifest()
	}
	put("1.0.0")
	first := manifest()
	if manifest() != first {
		t.Error("a manifest that has not changed was read again")
	}
	put("1.0.1")
	if second := manifest(); first.Version != "1.0.0" || second.Version != "1.0.1" {
		t.Errorf("got %s and then %s", first.Version, second.Version)
	}
	if err := os.RemoveAll(filepath.Join(dir, "demo")); err != nil {
		t.Fatal(err)
	}
	if listed, err := lister.List([]string{dir}); err != nil || len(listed) > 0 {
		t.Errorf("got %d plugins, %v, after it was removed", len(listed), err)
	}
}

// BenchmarkList lists a folder of unchanged plugins.
func BenchmarkList(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprintf("plugins=%d", n), func(b *testing.B) {
			dir := b.TempDir()
			for i := range n {
				name := fmt.Sprintf("p%d", i)
				err := errors.Join(
					os.Mkdir(filepath.Join(dir, name), 0o700),
					os.WriteFile(filepath.Join(dir, name, "plugin.yaml"), named(name), 0o600),
					os.WriteFile(filepath.Join(dir, name, name+".wasm"), []byte("\x00asm\x01\x00\x00\x00"), 0o600),
					os.Truncate(filepath.Join(dir, name, name+".wasm"), 4<<20),
				)
				if err != nil {
					b.Fatal(err)
				}
			}
			var lister plugin.Lister
			b.ReportAllocs()
			for b.Loop() {
				if listed, err := lister.List([]string{dir}); err != nil || len(listed) != n {
					b.Fatal(len(listed), err)
				}
			}
		})
	}
}

// With a second module in the folder, plugin.yaml describes neither.
func TestListerReadsModuleWhenSecondIsAdded(t *testing.T) {
	dir := t.TempDir()
	write(t, named("demo"), dir, "plugin.yaml")
	write(t, embed(t, "inside"), dir, "first.wasm")
	var lister plugin.Lister
	names := func() (all []string) {
		t.Helper()
		listed, err := lister.List([]string{dir})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range listed {
			all = append(all, l.Name())
		}
		return all
	}
	if got := fmt.Sprint(names()); got != "[demo]" {
		t.Errorf("got %s, must be [demo]", got)
	}
	write(t, embed(t, "second"), dir, "second.wasm")
	if got := fmt.Sprint(names()); got != "[inside second]" {
		t.Errorf("got %s, must be [inside second]", got)
	}
}
