package plugins

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/daeace23/prober/internal/filestamp"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/admit"
	"github.com/daeace23/prober/plugin/trust"
)

// Stamp returns a string that changes when prober.yaml, or a file of a plugin, may have changed.
func (s *Set) Stamp() string {
	var b strings.Builder
	s.mu.Lock()
	unused := s.unused
	s.mu.Unlock()
	s.stamps.begin(time.Now())
	b.Grow(s.stamps.size)
	for _, dir := range s.cfg.PluginDirs {
		s.stamps.folder(&b, dir, unused)
	}
	s.mu.Lock()
	files := append([]string{s.cfg.ConfigFile, s.cfg.LockFile}, s.watched...)
	s.mu.Unlock()
	for _, file := range append(files, slices.Sorted(maps.Values(s.cfg.DevPlugins))...) {
		if file != "" {
			stampFile(&b, file)
		}
	}
	s.stamps.size = b.Len()
	return b.String()
}

// OnlyMoreFiles reports whether all files that are in both stamps are unchanged. Files that prober.yaml
// refers to are in a stamp only after prober.yaml was read.
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

// unusedEvery is how often the files of unused plugins are checked. The first use of a plugin reads it
// anyway.
const unusedEvery = 30 * time.Second

// unusedStamps caches the stamps of unused plugins, so that a folder with a thousand plugins costs little. It
// is for one goroutine at a time.
type unusedStamps struct {
	since   time.Time
	size    int                // of the last whole stamp
	lines   map[string]string  // by path of the file or folder in a plugin folder
	folders map[string]listing // by path of a plugin folder
}

// listing is the contents of a plugin folder.
type listing struct {
	folder string           // stamp of the folder itself, which changes with the names in it
	unused *map[string]bool // the paths that it was built with
	parts  []part
}

// part is a part of the stamp of a folder.
type part struct {
	text string // stamps of unused plugins
	path string // of the file or folder after them, which is checked each time; "" for none
}

// begin drops stamps older than [unusedEvery].
func (u *unusedStamps) begin(now time.Time) {
	if u.lines == nil || now.Sub(u.since) >= unusedEvery {
		u.since, u.lines, u.folders = now, make(map[string]string), make(map[string]listing)
	}
}

// settled is the minimum age of a folder's modification time to rely on it: later changes get a different
// time.
const settled = 2 * time.Second

// folder adds the files in a plugin folder and in its folders. unused are the paths of files and folders in
// it that need not be checked each time. It reads the names in the folder again only if the time of the
// folder has changed: reading a thousand names takes a millisecond.
func (u *unusedStamps) folder(b *strings.Builder, dir string, unused *map[string]bool) {
	var own strings.Builder
	info, err := os.Stat(dir)
	filestamp.Write(&own, dir, info, err)
	l, ok := u.folders[dir]
	if !ok || l.folder != own.String() || l.unused != unused || err != nil || time.Since(info.ModTime()) < settled {
		l = listing{own.String(), unused, nil}
		if l.parts, err = u.list(dir, *unused); err != nil {
			fmt.Fprintf(b, "%q %v\n", dir, err)
			return
		}
		u.folders[dir] = l
	}
	for _, p := range l.parts {
		b.WriteString(p.text)
		if p.path != "" {
			stampEntry(b, p.path, 1)
		}
	}
}

// list returns the parts of the stamp of a plugin folder.
func (u *unusedStamps) list(dir string, unused map[string]bool) (parts []part, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if !unused[path] {
			parts = append(parts, part{text.String(), path})
			text.Reset()
			continue
		}
		if _, ok := u.lines[path]; !ok {
			var one strings.Builder
			stampEntry(&one, path, 1)
			u.lines[path] = one.String()
		}
		text.WriteString(u.lines[path])
	}
	return append(parts, part{text: text.String()}), nil
}

// unusedPaths returns the files and folders in plugin folders that only belong to unused plugins.
func unusedPaths(dirs []string, v *admit.Snapshot) map[string]bool {
	paths := make(map[string]bool)
	for _, e := range v.Plugins() {
		if e.State != admit.Listed {
			continue
		}
		path := e.Plugin.Path
		if folder := filepath.Dir(path); !slices.Contains(dirs, folder) {
			paths[folder] = true
			continue
		}
		for _, file := range append(trust.Files(path), path, manifestBeside(path)) {
			paths[file] = true
		}
	}
	for _, e := range v.Plugins() {
		if e.State != admit.Listed {
			delete(paths, filepath.Dir(e.Plugin.Path))
		}
	}
	return paths
}

// stampFolder adds the files in a folder, and in its folders down to depth.
func stampFolder(b *strings.Builder, dir string, depth int) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		fmt.Fprintf(b, "%q %v\n", dir, err)
		return
	}
	for _, e := range entries {
		stampEntry(b, filepath.Join(dir, e.Name()), depth)
	}
}

// stampEntry adds the file at path, or the files in the folder at path.
func stampEntry(b *strings.Builder, path string, depth int) {
	info, err := os.Stat(path) // follows links
	switch {
	case err != nil || !info.IsDir():
		filestamp.Write(b, path, info, err)
	case depth > 0:
		stampFolder(b, path, depth-1)
	}
}

// stampFile adds the file at path with its signatures and its manifest, or the files in the folder at path.
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
	for _, file := range append(trust.Files(path), manifestBeside(path)) {
		if info, err := os.Stat(file); err == nil {
			filestamp.Write(b, file, info, nil)
		}
	}
}

// manifestBeside returns the path of the manifest beside a module or program.
func manifestBeside(path string) string {
	if strings.HasSuffix(path, ".wasm") {
		return filepath.Join(filepath.Dir(path), plugin.ManifestFile)
	}
	return strings.TrimSuffix(path, ".exe") + ".yaml"
}
