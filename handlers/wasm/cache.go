package wasm

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/tetratelabs/wazero"
)

// openCache opens the cache of compiled modules: on disk where there is a folder for
// it, else in memory.
func openCache(cfg Config) (wazero.CompilationCache, error) {
	dir := cfg.CacheDir
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return wazero.NewCompilationCache(), nil
		}
		dir = filepath.Join(base, "prober", "wasm")
	}
	if err := privateDir(dir); err != nil {
		return nil, fmt.Errorf("cache folder: %w", err)
	}
	// wazero keys its cache by its own version, which it reads from the program's build
	// information. A program may have none, and native code of another version must
	// never run.
	return wazero.NewCompilationCacheWithDir(filepath.Join(dir, wazeroVersion))
}

// wazeroVersion is the version that go.mod requires.
const wazeroVersion = "v1.12.0"

// privateDir makes dir if need be, and refuses one in which somebody else could put
// code: wazero runs what it finds there and has no more than a checksum to go by.
func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is no folder", dir)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("%s is writable to others (mode %#o); it must be private (0700)", dir, mode)
	}
	return ownedByUs(dir, info)
}
