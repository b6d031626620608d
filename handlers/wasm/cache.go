package wasm

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/daeace23/prober/internal/ownership"
)

// What the cache folder may hold. Each version of a plugin leaves a file there, of some 10 MB
// for a Go guest.
const (
	maxCached      = 256
	maxCachedBytes = 1 << 30
)

// cacheDir returns the folder for compiled modules; "" if there is none.
func cacheDir(cfg Config) string {
	if cfg.CacheDir != "" {
		return cfg.CacheDir
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(base, "prober", "wasm")
}

// openCache opens the cache of compiled modules, in the folder that it returns, or in memory
// if there can be no folder. A folder that others may write to is an error.
func openCache(cfg Config) (cache wazero.CompilationCache, folder string, err error) {
	dir := cacheDir(cfg)
	if dir == "" {
		return wazero.NewCompilationCache(), "", nil
	}
	// wazero runs the code that it finds there after it has compared a checksum.
	err = ownership.PrivateDir(dir)
	if _, failed := errors.AsType[*fs.PathError](err); err != nil && !failed {
		return nil, "", fmt.Errorf("cache folder: %w", err)
	}
	if err == nil {
		cache, err = newCache(dir)
	}
	if err != nil { // for example a full or read-only disk, or no home folder
		cfg.Logger.Warn("there is no cache folder: plugins are compiled at each start", "error", err.Error())
		return wazero.NewCompilationCache(), "", nil
	}
	return cache, dir, nil
}

// newCache returns a cache in dir, and makes its folders if necessary.
func newCache(dir string) (wazero.CompilationCache, error) {
	// wazero keys its cache by its version, which it reads from the build information of the
	// program. A program may have none, and code of another version must not run.
	return wazero.NewCompilationCacheWithDir(filepath.Join(dir, wazeroVersion))
}

// remakeCache makes the cache folders again if they were deleted. After an error the cache
// must not be used.
func (h *Host) remakeCache() error {
	if h.cacheFolder == "" {
		return nil
	}
	if err := ownership.PrivateDir(h.cacheFolder); err != nil {
		return err
	}
	_, err := newCache(h.cacheFolder) // for its folders
	return err
}

// wazeroVersion is the version that go.mod requires.
const wazeroVersion = "v1.12.0"

// cached matches the names of wazero's files, including unfinished ones.
var cached = regexp.MustCompile(`^[0-9a-f]{64}(\.[0-9]+\.tmp)?$`)

// pruneCache removes the compiled modules that were not used for the longest time, until at most so
// many, and so many bytes, are left. It removes no other files. Other processes may use the folder at the same time: they
// compile again what they do not find.
func pruneCache(dir string, most int, bytes int64) {
	type module struct {
		path string
		size int64
		used time.Time
	}
	var modules []module
	if dir == "" {
		return
	}
	pruneCompilers(dir)
	paths, _ := filepath.Glob(filepath.Join(dir, "v*", "wazero-*", "*"))
	for _, path := range paths {
		info, err := os.Lstat(path)
		if err == nil && info.Mode().IsRegular() && cached.MatchString(info.Name()) {
			modules = append(modules, module{path, info.Size(), lastUsed(info)})
		}
	}
	slices.SortFunc(modules, func(a, b module) int { return cmp.Or(b.used.Compare(a.used), cmp.Compare(a.path, b.path)) })
	for i, m := range modules {
		if bytes -= m.size; i >= most || bytes < 0 {
			_ = os.Remove(m.path) // fails if the folder is read-only
		}
	}
}

// pruneCompilers removes the folders of compilers that were killed, and the marks of modules
// that were not loaded for a long time.
func pruneCompilers(dir string) {
	for pattern, age := range map[string]time.Duration{unfinished + "*": 2 * compilerTimeout, filepath.Join("v*", finished+"*"): 90 * 24 * time.Hour} {
		paths, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, path := range paths {
			if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()) > age {
				_ = os.RemoveAll(path)
			}
		}
	}
}
