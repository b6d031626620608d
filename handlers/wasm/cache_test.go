package wasm

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPruneCacheRemovesLeastRecentlyUsed(t *testing.T) {
	dir := t.TempDir()
	older, newer := filepath.Join(dir, "v1.0.0", "wazero-dev"), filepath.Join(dir, wazeroVersion, "wazero-dev")
	for _, d := range []string{older, newer} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	write := func(path string, size int, age time.Duration) {
		t.Helper()
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	name := func(c string) string { return strings.Repeat(c, 64) }
	write(filepath.Join(newer, name("a")), 10, time.Hour)
	write(filepath.Join(older, name("b")), 10, 2*time.Hour)
	write(filepath.Join(newer, name("c")+".123.tmp"), 10, 3*time.Hour)
	write(filepath.Join(newer, name("d")), 10, 4*time.Hour)
	if runtime.GOOS == "linux" { // b was written first and read recently
		if err := os.Chtimes(filepath.Join(older, name("b")), now.Add(-2*time.Hour), now.Add(-8*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(newer, "notes.txt"), 1000, 9*time.Hour) // not a file of the cache
	write(filepath.Join(dir, name("e")), 1000, 9*time.Hour)
	left := func() (names []string) {
		for _, pattern := range []string{"*", "*/*/*"} {
			paths, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range paths {
				if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() {
					names = append(names, filepath.Base(p)[:1])
				}
			}
		}
		slices.Sort(names)
		return names
	}
	for _, tc := range []struct {
		most  int
		bytes int64
		want  string
	}{{4, 40, "[a b c d e n]"}, {3, 40, "[a b c e n]"}, {3, 29, "[a b e n]"}, {1, 1 << 30, "[a e n]"}, {0, 0, "[e n]"}} {
		pruneCache(dir, tc.most, tc.bytes)
		if got := fmt.Sprint(left()); got != tc.want {
			t.Errorf("%d modules of %d bytes: left are %s, want %s", tc.most, tc.bytes, got, tc.want)
		}
	}
	pruneCache("", 0, 0)
}
