package plugins_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/agent/plugins"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/plugin"
)

// open returns the Set of cfg, whose files may be invalid.
func open(t testing.TB, cfg plugins.Config) *plugins.Set {
	t.Helper()
	cfg.Runner, cfg.Log = &builtin.HostRunner{}, slog.New(slog.DiscardHandler)
	cfg.Metrics, cfg.Demanded = metrics.New(metrics.Config{}), func(error) {}
	s, _, err := plugins.New(t.Context(), cfg)
	if s == nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStampIsStableWithDevPlugins(t *testing.T) {
	dir := t.TempDir()
	cfg := plugins.Config{DevPlugins: make(map[string]string)}
	for name := range strings.FieldsSeq("a b c d e f g h i j") {
		cfg.DevPlugins[name] = filepath.Join(dir, name)
	}
	s := open(t, cfg)
	first := s.Stamp()
	for range 100 {
		if s.Stamp() != first {
			t.Fatal("the files are the same, and their stamp is not")
		}
	}
}

// The files that prober.yaml refers to are watched after it was read.
func TestOnlyMoreFiles(t *testing.T) {
	dir := t.TempDir()
	config, named := filepath.Join(dir, "prober.yaml"), filepath.Join(dir, "named.lock")
	put := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(config, "a")
	one, two := open(t, plugins.Config{ConfigFile: config}), open(t, plugins.Config{ConfigFile: config, LockFile: named})
	first := one.Stamp()
	more := two.Stamp() // includes a missing file
	put(named, "a")
	there := two.Stamp()
	put(config, "other")
	for _, c := range []struct {
		name, before, now string
		want              bool
	}{
		{"a file that is watched now", first, more, true},
		{"one that is not any more", more, first, true},
		{"one that has come", more, there, false},
		{"one that has changed", there, two.Stamp(), false},
	} {
		if got := plugins.OnlyMoreFiles(c.before, c.now); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// A change of an unused plugin is detected within 30 s, a new plugin at once.
func TestStampOfUnusedPlugins(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	manifest := func(name string) string { return "apiVersion: prober.dev/v1\nname: " + name + "\nversion: 1.0.0\n" }
	const module = "\x00asm\x01\x00\x00\x00"
	put("a/plugin.yaml", manifest("a"))
	put("a/a.wasm", module)
	put("broken/plugin.yaml", "oops")
	synctest.Test(t, func(t *testing.T) {
		s := open(t, plugins.Config{PluginDirs: []string{dir}})
		last := s.Stamp()
		changed := func() bool {
			before := last
			last = s.Stamp()
			return last != before
		}
		for _, c := range []struct {
			name   string
			change func()
			want   bool
		}{
			{"nothing", func() {}, false},
			{"a plugin that nothing uses", func() { put("a/a.wasm", module+"\x00\x02\x01x") }, false},
			{"the same, 30 s later", func() { time.Sleep(30 * time.Second) }, true},
			{"a new plugin", func() { put("b/plugin.yaml", manifest("b")) }, true},
			{"a file in a folder without a plugin", func() { put("broken/x.wasm", module) }, true},
			{"a plugin that is removed", func() {
				if err := os.RemoveAll(filepath.Join(dir, "a")); err != nil {
					t.Fatal(err)
				}
			}, true},
		} {
			if c.change(); changed() != c.want {
				t.Errorf("%s: changed is %t", c.name, !c.want)
			}
		}
	})
}

// The names in a plugin folder are read again when the folder has changed.
func TestStampIncludesNewPluginInOldFolder(t *testing.T) {
	dir, old := t.TempDir(), time.Now().Add(-time.Hour)
	put := func(name string) {
		t.Helper()
		text := "apiVersion: prober.dev/v1\nname: " + strings.TrimSuffix(name, ".wasm") + "\nversion: 1.0.0\n"
		module, err := plugin.Embed([]byte("\x00asm\x01\x00\x00\x00"), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), module, 0o600); err != nil {
			t.Fatal(err)
		}
		old = old.Add(time.Second)
		if err := os.Chtimes(dir, old, old); err != nil {
			t.Fatal(err)
		}
	}
	put("a.wasm")
	s := open(t, plugins.Config{PluginDirs: []string{dir}})
	last := s.Stamp()
	if again := s.Stamp(); again != last {
		t.Errorf("the files are the same, and their stamp is %s and then %s", last, again)
	}
	for _, name := range []string{"b.wasm", "c.wasm"} {
		put(name)
		if now := s.Stamp(); now == last || !strings.Contains(now, name) || !strings.Contains(now, "a.wasm") {
			t.Errorf("%s is not seen: %s", name, now)
		}
		if _, err := s.Reload(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		last = s.Stamp()
	}
	if err := os.Remove(filepath.Join(dir, "a.wasm")); err != nil {
		t.Fatal(err)
	}
	if now := s.Stamp(); strings.Contains(now, "a.wasm") {
		t.Errorf("a file that was removed is seen: %s", now)
	}
}

// BenchmarkStamp checks a folder of unused plugins for changes.
func BenchmarkStamp(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprintf("plugins=%d", n), func(b *testing.B) {
			dir := b.TempDir()
			for i := range n {
				name := fmt.Sprintf("p%d", i)
				err := errors.Join(
					os.Mkdir(filepath.Join(dir, name), 0o700),
					os.WriteFile(filepath.Join(dir, name, "plugin.yaml"), []byte("apiVersion: prober.dev/v1\nname: "+name+"\nversion: 1.0.0\n"), 0o600),
					os.WriteFile(filepath.Join(dir, name, name+".wasm"), []byte("\x00asm\x01\x00\x00\x00"), 0o600),
				)
				if err != nil {
					b.Fatal(err)
				}
			}
			old := time.Now().Add(-time.Hour)
			if err := os.Chtimes(dir, old, old); err != nil {
				b.Fatal(err)
			}
			s := open(b, plugins.Config{PluginDirs: []string{dir}})
			b.ReportAllocs()
			for b.Loop() {
				s.Stamp()
			}
		})
	}
}
