package plugins

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/daeace23/prober/internal/filestamp"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/trust"
)

// Stamp returns a text that changes when prober.yaml, or a file that says or is what the
// plugins are, may have changed.
func (s *Set) Stamp() string {
	var b strings.Builder
	for _, dir := range s.cfg.PluginDirs {
		stampFolder(&b, dir, 1)
	}
	s.mu.Lock()
	files := append([]string{s.cfg.ConfigFile, s.cfg.LockFile}, s.watched...)
	s.mu.Unlock()
	for _, file := range append(files, slices.Sorted(maps.Values(s.cfg.DevPlugins))...) {
		if file != "" {
			stampFile(&b, file)
		}
	}
	return b.String()
}

// OnlyMoreFiles reports whether two stamps tell the same of all files that are in both: a
// file that prober.yaml names is watched once that was read.
func OnlyMoreFiles(a, b string) bool {
	lines := make(map[string]string)
	for line := range strings.Lines(a) {
		path, _ := strconv.QuotedPrefix(line)
		lines[path] = line
	}
	for line := range strings.Lines(b) {
		path, _ := strconv.QuotedPrefix(line)
		if was, ok := lines[path]; ok && was != line {
			return false
		}
	}
	return true
}

// stampFolder adds what is in a folder, and depth folders further down.
func stampFolder(b *strings.Builder, dir string, depth int) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		fmt.Fprintf(b, "%q %v\n", dir, err)
		return
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := os.Stat(path) // of what a link leads to
		switch {
		case err != nil:
			fmt.Fprintf(b, "%q %v\n", path, err)
		case !info.IsDir():
			filestamp.Write(b, path, info)
		case depth > 0:
			stampFolder(b, path, depth-1)
		}
	}
}

func stampFile(b *strings.Builder, path string) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		fmt.Fprintf(b, "%q %v\n", path, err)
	case info.IsDir():
		stampFolder(b, path, 0)
	default:
		filestamp.Write(b, path, info)
		manifest := strings.TrimSuffix(path, ".exe") + ".yaml" // of a program, beside it
		if strings.HasSuffix(path, ".wasm") {
			manifest = filepath.Join(filepath.Dir(path), plugin.ManifestFile)
		}
		for _, file := range append(trust.Files(path), manifest) {
			if info, err := os.Stat(file); err == nil {
				filestamp.Write(b, file, info)
			}
		}
	}
}
