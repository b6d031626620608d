package wasm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/daeace23/prober/handlers/wasm/internal/binary"
	"github.com/daeace23/prober/handlers/wasm/internal/compiled"
	"github.com/daeace23/prober/internal/ownership"
)

// Limits of the cache folder. Each version of a plugin leaves two files there, the native code and
// the stub, about 12 MB in total for a Go guest.
const (
	maxCached      = 512
	maxCachedBytes = 1 << 30
)

// cacheDir returns the folder for compiled modules, or "" if there is none.
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

// openCache opens the cache of compiled modules and returns its folder. If the folder cannot be
// used, the cache is in memory and folder is "". A folder that others may write to is an error.
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

// stubs reports whether modules are kept on disk, as stubs and their native code.
func (h *Host) stubs() bool {
	return h.cacheFolder != "" && !h.cfg.Interpreter && h.cfg.Coverage == nil
}

// stubPath returns the path of a stub in the cache folder.
func stubPath(folder, name string) string { return filepath.Join(folder, wazeroVersion, name) }

// readStub returns the stub of a module with the results of its inspection, or nil if there is no stub.
func (h *Host) readStub(name string) *binary.Module {
	if !h.stubs() {
		return nil
	}
	stub, err := compiled.Read(stubPath(h.cacheFolder, name), maxCode)
	if err != nil {
		return nil
	}
	return stub
}

// errNotCached means that the compiled module is not in the cache.
var errNotCached = errors.New("the compiled module is not in the cache")

// loadStub takes the native code of a stub from the cache. stub may be nil.
func (h *Host) loadStub(ctx context.Context, stub *binary.Module) compilation {
	if stub == nil {
		return compilation{err: errNotCached}
	}
	if err := h.remakeCache(); err != nil {
		return compilation{err: err}
	}
	// Without native code in the cache, wazero would compile the empty functions of the stub.
	// wazero checks the context in a parallel compilation only, not when it reads the cache. So an
	// ended context allows reading and prevents compiling.
	ended, cancel := context.WithCancel(experimental.WithCompilationWorkers(ctx, 2))
	cancel()
	made := compileFor(stub, func(features api.CoreFeatures) compilation {
		return compileIn(ended, compilerConfig(wazero.NewRuntimeConfig(), features, stub.Metered).WithCompilationCache(h.cache), stub.Code)
	})
	if errors.Is(made.err, context.Canceled) {
		made.err = errNotCached
	}
	made.volatile = made.volatile || stub.Volatile
	return made
}

// compileToCache compiles m in this process, and adds it to the cache.
func (h *Host) compileToCache(name string, m *binary.Module) error {
	if err := h.remakeCache(); err != nil {
		return err
	}
	own, err := os.MkdirTemp(h.cacheFolder, workPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(own)
	return compileInto(h.cacheFolder, own, name, m)
}

// cached matches the names of wazero's files and of stubs, including workPrefix ones.
var cached = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(` + compiled.Prefix + `)?[0-9a-f]{64}(\.[0-9]+\.tmp)?$`)
})

// pruneCache removes the least recently used files of the cache, until at most maxFiles files and
// maxBytes bytes are left. It removes no other files. Other processes may use the folder
// concurrently: they compile a missing module again.
func pruneCache(dir string, maxFiles int, maxBytes int64) {
	type file struct {
		path string
		size int64
		used time.Time
	}
	var files []file
	if dir == "" {
		return
	}
	pruneCompilers(dir)
	paths, _ := filepath.Glob(filepath.Join(dir, "v*", "wazero-*", "*"))
	stubs, _ := filepath.Glob(filepath.Join(dir, "v*", compiled.Prefix+"*"))
	for _, path := range append(paths, stubs...) {
		info, err := os.Lstat(path)
		if err == nil && info.Mode().IsRegular() && cached().MatchString(info.Name()) {
			files = append(files, file{path, info.Size(), lastUsed(info)})
		}
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Or(b.used.Compare(a.used), cmp.Compare(a.path, b.path)) })
	for i, f := range files {
		if maxBytes -= f.size; i >= maxFiles || maxBytes < 0 {
			_ = os.Remove(f.path) // best effort: the folder may be read-only
		}
	}
}

// pruneCompilers removes the folders of compilers that were killed.
func pruneCompilers(dir string) {
	paths, _ := filepath.Glob(filepath.Join(dir, workPrefix+"*"))
	for _, path := range paths {
		if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()) > 2*compilerTimeout {
			_ = os.RemoveAll(path)
		}
	}
}
