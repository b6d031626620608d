package wasm

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/tetratelabs/wazero"

	"github.com/daeace23/prober/plugin"
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
	// wazero runs what it finds there, and has no more than a checksum to go by.
	if err := plugin.PrivateDir(dir); err != nil {
		return nil, fmt.Errorf("cache folder: %w", err)
	}
	// wazero keys its cache by its own version, which it reads from the program's build
	// information. A program may have none, and native code of another version must
	// never run.
	return wazero.NewCompilationCacheWithDir(filepath.Join(dir, wazeroVersion))
}

// wazeroVersion is the version that go.mod requires.
const wazeroVersion = "v1.12.0"
