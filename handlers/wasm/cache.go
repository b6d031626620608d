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

// What the folder of the cache may hold: each version of a plugin leaves a file there. A
// Go guest is some 10 MB.
const (
	maxCached      = 256
	maxCachedBytes = 1 << 30
)

// cacheDir is where compiled modules are kept; "" where there is no place for them.
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

// openCache opens the cache of compiled modules: on disk where there can be a folder for
// it, which it returns, else in memory. A folder that others may write to is an error.
func openCache(cfg Config) (cache wazero.CompilationCache, folder string, err error) {
	dir := cacheDir(cfg)
	if dir == "" {
		return wazero.NewCompilationCache(), "", nil
	}
	// wazero runs what it finds there, and has no more than a checksum to go by.
	err = ownership.PrivateDir(dir)
	if _, failed := errors.AsType[*fs.PathError](err); err != nil && !failed {
		return nil, "", fmt.Errorf("cache folder: %w", err)
	}
	if err == nil {
		cache, err = newCache(dir)
	}
	if err != nil { // a full disk, one that is only read, no home: no reason not to probe
		cfg.Logger.Warn("there is no cache folder: plugins are compiled at each start", "error", err.Error())
		return wazero.NewCompilationCache(), "", nil
	}
	return cache, dir, nil
}

// newCache returns a cache in dir, in which it makes folders if need be.
func newCache(dir string) (wazero.CompilationCache, error) {
	// wazero keys its cache by its own version, which it reads from the program's build
	// information. A program may have none, and native code of another version must
	// never run.
	return wazero.NewCompilationCacheWithDir(filepath.Join(dir, wazeroVersion))
}

// remakeCache makes the folders of the cache again where they were deleted. Its error means
// that the cache is not to be used.
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

// cached are the names that wazero gives to its files, and to those that it had no time
// to finish.
var cached = regexp.MustCompile(`^[0-9a-f]{64}(\.[0-9]+\.tmp)?$`)

// pruneCache removes compiled modules, those first that were not used for longest, until
// no more are left than may be, in number and in bytes. Other processes may use the folder
// at the same time: what is removed before one reads it is compiled again. Whatever else
// is in the folder stays.
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
			_ = os.Remove(m.path) // who may not write there has nothing to tidy
		}
	}
}

// pruneCompilers removes what compilers have left that were killed, and the marks of modules
// that were not loaded for long.
func pruneCompilers(dir string) {
	for pattern, age := range map[string]time.Duration{unfinished + "*": 2 * compilerLast, filepath.Join("v*", finished+"*"): 90 * 24 * time.Hour} {
		paths, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, path := range paths {
			if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()) > age {
				_ = os.RemoveAll(path)
			}
		}
	}
}
