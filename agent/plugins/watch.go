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

// Stamp returns a string that changes when prober.yaml, or a file of a plugin, may have changed.
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

// OnlyMoreFiles reports whether all files that are in both stamps are the same in both. Files
// that prober.yaml names are in a stamp only after prober.yaml was read.
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

// stampFolder adds the files in a folder, and in its folders down to depth.
func stampFolder(b *strings.Builder, dir string, depth int) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		fmt.Fprintf(b, "%q %v\n", dir, err)
		return
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := os.Stat(path) // follows links
		switch {
		case err != nil || !info.IsDir():
			filestamp.Write(b, path, info, err)
		case depth > 0:
			stampFolder(b, path, depth-1)
		}
	}
}

// stampFile adds the file at path with its signatures and its manifest, or the files in the
// folder at path.
func stampFile(b *strings.Builder, path string) {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		stampFolder(b, path, 0)
		return
	}
	filestamp.Write(b, path, info, err)
	if err != nil {
		return
	}
	manifest := strings.TrimSuffix(path, ".exe") + ".yaml" // of a program
	if strings.HasSuffix(path, ".wasm") {
		manifest = filepath.Join(filepath.Dir(path), plugin.ManifestFile)
	}
	for _, file := range append(trust.Files(path), manifest) {
		if info, err := os.Stat(file); err == nil {
			filestamp.Write(b, file, info, nil)
		}
	}
}
