package plugins_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/agent/plugins"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/metrics"
)

// open returns the set of cfg, whose files may be bad.
func open(t *testing.T, cfg plugins.Config) *plugins.Set {
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

// The files that prober.yaml names are watched after it was read.
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
	more := two.Stamp() // with a file that is not there
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
