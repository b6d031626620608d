package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What prober.yaml names is watched once that was read. That is no change of a file, and no
// reason to tell again what is wrong.
func TestMoreFilesAreNoNews(t *testing.T) {
	dir := t.TempDir()
	config, named := filepath.Join(dir, "prober.yaml"), filepath.Join(dir, "named.wasm")
	put := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stamp := func(files ...string) string {
		var b strings.Builder
		for _, file := range files {
			stampFile(&b, file)
		}
		return b.String()
	}
	news := &request{cause: changedFiles}
	put(config, "a")
	first := stamp(config)
	more := stamp(config, named) // which is not there
	put(named, "a")
	there := stamp(config, named)
	put(config, "other")
	for _, c := range []struct {
		name, before, now string
		want              bool
	}{
		{"a file that is watched now", first, more, false},
		{"one that is not any more", more, first, false},
		{"one that has come", more, there, true},
		{"one that has changed", there, stamp(config, named), true},
	} {
		if got := news.isNews(c.before, c.now); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}
