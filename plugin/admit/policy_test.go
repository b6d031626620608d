package admit_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/admit"
	"github.com/daeace23/prober/plugin/trust"
)

const (
	fileHead     = "apiVersion: prober.dev/v1\nkind: AgentConfig\n"
	manifestHead = "apiVersion: prober.dev/v1\nkind: Plugin\nversion: 1.0.0\nname: "
)

// shelf is a folder with plugins, and files about them.
type shelf struct {
	t   *testing.T
	dir string
	key trust.PrivateKey
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// moduleOf returns a plugin that does nothing.
func moduleOf(t *testing.T, name, version string) []byte {
	t.Helper()
	module, err := plugin.Embed([]byte("\x00asm\x01\x00\x00\x00"), []byte("apiVersion: prober.dev/v1\nkind: Plugin\nversion: "+version+"\nname: "+name+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return module
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	key, err := trust.Generate()
	if err != nil {
		t.Fatal(err)
	}
	s := &shelf{t: t, dir: t.TempDir(), key: key}
	if err := os.Mkdir(s.path("plugins"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, s.path("ops.pub"), string(key.PEM()))
	return s
}

func (s *shelf) path(name string) string { return filepath.Join(s.dir, name) }

// put writes a plugin with text in it.
func (s *shelf) put(path, name, text string) plugin.Found {
	s.t.Helper()
	module, err := plugin.Embed([]byte("\x00asm\x01\x00\x00\x00"), []byte(manifestHead+name+"\ndescription: "+text+"\n"))
	if err != nil {
		s.t.Fatal(err)
	}
	write(s.t, s.path(path), string(module))
	f, err := plugin.Read(s.path(path))
	if err != nil {
		s.t.Fatal(err)
	}
	return f
}

func (s *shelf) sign(f plugin.Found) {
	s.t.Helper()
	data, err := s.key.Sign(&f, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	write(s.t, f.Path+".sig", string(data))
}

// find returns the plugins of the folder, with this prober.yaml.
func (s *shelf) find(file string, change ...func(*admit.Config)) ([]string, error) {
	s.t.Helper()
	cfg := admit.Config{ConfigFile: s.path("prober.yaml")}
	write(s.t, cfg.ConfigFile, fileHead+file)
	for _, c := range change {
		c(&cfg)
	}
	policy, err := admit.New(cfg)
	if err != nil {
		return nil, err
	}
	admitted, err := policy.Find([]string{s.path("plugins")}, []string{"http"})
	var got []string
	for _, f := range admitted {
		got = append(got, f.Manifest.Name+" "+string(f.Verdict.State))
	}
	return got, err
}

func (s *shelf) lock(l *trust.Lock) func(*admit.Config) {
	s.t.Helper()
	data, err := l.Encode()
	if err != nil {
		s.t.Fatal(err)
	}
	file := s.path(trust.LockFile)
	write(s.t, file, string(data))
	return func(cfg *admit.Config) { cfg.LockFile = file }
}

func unsigned(plugin.Found) string { return "" }

func TestFind(t *testing.T) {
	s := newShelf(t)
	a, b := s.put("plugins/a.wasm", "a", "a"), s.put("plugins/b.wasm", "b", "b")
	s.sign(a)
	changed := s.put("elsewhere.wasm", "a", "changed")
	whole := s.lock(trust.NewLock([]plugin.Found{a, b}, unsigned))
	for _, c := range []struct {
		name, file string
		change     []func(*admit.Config)
		want       []string // plugins that are let in
		refused    []string // each in a line of the error
	}{
		{"nothing asked for", "", nil, []string{"a unchecked", "b unchecked"}, nil},
		{"keys", "trust: {keys: [ops.pub]}\n", nil, []string{"a signed", "b unsigned"}, nil},
		{"signatures required", "trust: {require: true, keys: [ops.pub]}\n", nil, []string{"a signed"}, []string{
			`prober.yaml:3: trust: plugin "b" of ` + b.Path + ": not signed, and trust.require is set; trusted keys: " + s.key.ID + " (" + s.path("ops.pub") + ")"}},
		{"a pin", "plugins: [{name: a, digest: '" + a.Digest + "'}]\n", nil, []string{"a unchecked", "b unchecked"}, nil},
		{"a pin of other bytes", "plugins: [{name: a, digest: '" + b.Digest + "'}]\n", nil, []string{"b unchecked"}, []string{
			"prober.yaml:3: plugins[0]: digest of " + a.Path + " is " + a.Digest + ", must be " + b.Digest}},
		{"a lock", "", []func(*admit.Config){whole}, []string{"a unchecked", "b unchecked"}, nil},
		{"a key that is not there", "trust: {keys: [ops.pub, nosuch.pub]}\n", nil, nil, []string{
			"prober.yaml:3: trust: key: open " + s.path("nosuch.pub")}},
		{"a key twice", "trust: {keys: [ops.pub, ./ops.pub]}\n", nil, nil, []string{"prober.yaml:3: trust: keys " + s.key.ID, "are the same"}},
		{"no key", "trust: {require: true}\n", nil, nil, []string{"prober.yaml:3: trust.keys: trust.require needs at least one key"}},
		{"a lock that is not there", "", []func(*admit.Config){func(cfg *admit.Config) { cfg.LockFile = s.path("nosuch.lock") }},
			nil, []string{"lock: open " + s.path("nosuch.lock")}},
		{"a plugin under development", "trust: {require: true, keys: [ops.pub]}\nplugins: [{name: a, digest: '" + a.Digest + "', source: nosuch.wasm}]\n",
			[]func(*admit.Config){whole, func(cfg *admit.Config) { cfg.Dev = map[string]string{"a": changed.Path} }},
			[]string{"a dev"}, []string{`plugin "b" of ` + b.Path + ": not signed"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := s.find(c.file, c.change...)
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if (err != nil) != (c.refused != nil) {
				t.Fatalf("got the error %v", err)
			}
			for _, want := range c.refused {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got  %v\nwant %s", err, want)
				}
			}
		})
	}
}

func TestLockedPlugins(t *testing.T) {
	s := newShelf(t)
	a := s.put("plugins/a.wasm", "a", "a")
	locked := s.lock(trust.NewLock([]plugin.Found{a}, unsigned))
	b := s.put("plugins/b.wasm", "b", "b")
	changed := s.put("plugins/a.wasm", "a", "changed")
	got, err := s.find("", locked)
	if err == nil || len(got) > 0 {
		t.Fatalf("got %v, %v", got, err)
	}
	for _, want := range []string{
		s.path(trust.LockFile) + `:5: plugins[0]: plugin "a" of ` + a.Path + ": its digest is " + changed.Digest + ", the lock has " + a.Digest,
		s.path(trust.LockFile) + `: plugin "b" of ` + b.Path + " is not in the lock",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestTamperedPluginIsRefused(t *testing.T) {
	s := newShelf(t)
	s.sign(s.put("plugins/a.wasm", "a", "a"))
	s.put("plugins/a.wasm", "a", "tampered")
	for _, file := range []string{"trust: {keys: [ops.pub]}\n", "trust: {require: true, keys: [ops.pub]}\n"} {
		got, err := s.find(file)
		refusal, ok := errors.AsType[*trust.Refusal](err)
		if !ok || len(got) > 0 || !strings.Contains(refusal.Reason, "a.wasm.sig: the signature of key "+s.key.ID) {
			t.Errorf("%s: got %v, %v", file, got, err)
		}
	}
}

// The signature of a program covers the manifest beside it.
func TestSignedProgram(t *testing.T) {
	s := newShelf(t)
	path := s.path("plugins/prober-plugin-p")
	write(t, path, "#!/bin/sh\n")
	write(t, path+".yaml", manifestHead+"p\n")
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := trust.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	s.sign(*f)
	const file = "trust: {require: true, keys: [ops.pub]}\n"
	if got, err := s.find(file); err != nil || !slices.Equal(got, []string{"p signed"}) {
		t.Errorf("got %v, %v", got, err)
	}
	write(t, path+".yaml", manifestHead+"p\nlimits: {message: 1Ki}\n")
	if got, err := s.find(file); err == nil || len(got) > 0 || !strings.Contains(err.Error(), "with the manifest sha256:") {
		t.Errorf("got %v, %v for a manifest that was changed", got, err)
	}
}

func TestPluginUnderDevelopmentIsNotChecked(t *testing.T) {
	s := newShelf(t)
	s.put("plugins/a.wasm", "a", "a")
	if err := os.Mkdir(s.path("project"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.put("project/new.wasm", "new", "new")
	dev := func(name, path string) func(*admit.Config) {
		return func(cfg *admit.Config) { cfg.Dev = map[string]string{name: path} }
	}
	got, err := s.find("trust: {keys: [ops.pub]}\n", dev("new", s.path("project")))
	if want := []string{"a unsigned", "new dev"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	for _, c := range []struct{ name, path, want string }{
		{"b", s.path("project/new.wasm"), `its manifest calls the plugin "new"`},
		{"http", s.path("project"), "the name is taken by a built-in handler"},
		{"new", s.path("nosuch.wasm"), "no such file"},
	} {
		if _, err := s.find("", dev(c.name, c.path)); err == nil || !strings.Contains(err.Error(), "plugin-dev "+c.name+"="+c.path+": ") ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// A plugin that is part of the program is used if there is no other one of its name. It must match the
// pin in prober.yaml.
func TestShippedPlugins(t *testing.T) {
	s := newShelf(t)
	own := plugin.Found{Path: "built-in:own"}
	own.SetModule(moduleOf(t, "own", "1.0.0"))
	var err error
	if own.Manifest, err = plugin.ReadModule(own.Path, own.Module); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(s.path("broken"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, s.path("broken/own.wasm"), "no module")
	s.put("plugins/own.wasm", "own", "2")
	if err := os.Mkdir(s.path("empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, folder, file, want, err string }{
		{"signatures are required", "empty", "trust: {require: true, keys: [ops.pub]}\n", "built-in:own shipped", ""},
		{"no other", "empty", "", "built-in:own shipped", ""},
		{"with grants", "empty", "plugins: [{name: own, grants: ['tcp://db:1']}]\n", "built-in:own shipped", ""},
		{"the right pin", "empty", "plugins: [{name: own, digest: '" + own.Digest + "'}]\n", "built-in:own shipped", ""},
		{"another pin", "empty", "plugins: [{name: own, digest: 'sha256:" + strings.Repeat("0", 64) + "'}]\n", "", "digest of built-in:own is"},
		{"another in a folder", "plugins", "", s.path("plugins/own.wasm") + " unchecked", ""},
		{"a broken one in a folder", "broken", "", "", "own.wasm"},
		{"another source", "empty", "plugins: [{name: own, source: plugins/own.wasm}]\n", s.path("plugins/own.wasm") + " unchecked", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			write(t, s.path("prober.yaml"), fileHead+c.file)
			scanner := admit.NewScanner(admit.ScannerConfig{
				Config:     admit.Config{ConfigFile: s.path("prober.yaml"), Shipped: []plugin.Found{own}},
				PluginDirs: []string{s.path(c.folder)}, Sources: admit.NewSources(admit.SourcesConfig{}),
			})
			v, err := scanner.Scan()
			if err != nil {
				t.Fatal(err)
			}
			e := v.WithoutCode().Plugin("own")
			if got := fmt.Sprint(v.Err()); (v.Err() != nil) != (c.err != "") || !strings.Contains(got, c.err) {
				t.Errorf("got error %v, want %q", v.Err(), c.err)
			}
			if !e.Loadable() {
				if c.want != "" {
					t.Errorf("got %+v, want %s", e, c.want)
				}
				return
			}
			if got := fmt.Sprint(e.Plugin.Path, " ", e.Plugin.Verdict.State); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if p, err := e.Plugin.WithCode(); err != nil || len(p.Module) == 0 {
				t.Errorf("its code: %d bytes, %v", len(p.Module), err)
			}
		})
	}
}
