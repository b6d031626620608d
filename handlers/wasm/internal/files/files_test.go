package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// openers are both ways to open a path.
var openers = map[string]func(string, func(string) error) (*node, error){"system": openNode, "walk": walk}

// below returns an Allowed for a folder.
func below(folder string) func(string) error {
	return func(path string) error {
		if path == folder || strings.HasPrefix(path, folder+"/") {
			return nil
		}
		return fs.ErrPermission
	}
}

func tempDir(t *testing.T) string {
	t.Helper()
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return filepath.ToSlash(folder)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestLinksStayInTheTree compares both ways, for random trees of links, with where filepath.EvalSymlinks says that a
// path leads.
func TestLinksStayInTheTree(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need privileges")
	}
	random := rand.New(rand.NewPCG(1, 2))
	inside, outside := 0, 0
	for range 40 {
		base := tempDir(t)
		folders := []string{"in", "in/a", "in/a/b", "out", "out/a"}
		for _, f := range folders {
			must(t, os.MkdirAll(base+"/"+f, 0o700))
			must(t, os.WriteFile(base+"/"+f+"/file", []byte(f), 0o600))
		}
		paths := []string{"in/a/b/file", "in/../out/file", "in/none"}
		for i := range 8 {
			from := fmt.Sprintf("%s/l%d", folders[random.IntN(3)], i)
			to := [...]string{"file", "..", "../..", ".", "a", base + "/in", base + "/out", "../out/a", "l1/..", "l2", "/", "/proc/self/root" + base + "/in"}[random.IntN(12)]
			must(t, os.Symlink(to, base+"/"+from))
			paths = append(paths, from, from+"/file", from+"/a/file", from+"/in/a/file", from+"/out/file", from+"/l0", from+"/l3/file")
		}
		allowed := below(base + "/in")
		for _, p := range paths {
			want, wantErr := filepath.EvalSymlinks(base + "/" + p)
			isIn := wantErr == nil && allowed(want) == nil
			for name, open := range openers {
				got, err := doBy(open, &Request{Op: Read, Path: base + "/" + p, Most: 100, Allowed: allowed})
				if err == nil && (!isIn || !strings.HasPrefix(string(got.Data), "in")) {
					t.Errorf("%s: %s leads to %s: got %q", name, p, want, got.Data)
				}
				if err == nil {
					inside++
				} else if wantErr == nil && !isIn {
					outside++
				}
			}
		}
	}
	if inside < 100 || outside < 100 {
		t.Errorf("%d paths inside and %d outside were tried", inside, outside)
	}
}

// TestLinksAreSwapped reads a path whose folder is replaced by a link to another folder all the time.
func TestLinksAreSwapped(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need privileges")
	}
	base := tempDir(t)
	must(t, os.MkdirAll(base+"/in/folder", 0o700))
	must(t, os.MkdirAll(base+"/out", 0o700))
	must(t, os.WriteFile(base+"/in/folder/file", []byte("mine"), 0o600))
	must(t, os.WriteFile(base+"/out/file", []byte("secret"), 0o600))
	must(t, os.Symlink("../out", base+"/in/link"))
	ended := make(chan struct{})
	swapping := make(chan struct{})
	go func() {
		defer close(swapping)
		for {
			select {
			case <-ended:
				return
			default:
			}
			for _, names := range [][2]string{{"folder", "aside"}, {"link", "folder"}, {"folder", "link"}, {"aside", "folder"}} {
				if err := os.Rename(base+"/in/"+names[0], base+"/in/"+names[1]); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	read := 0
	for name, open := range openers {
		for range 2000 {
			got, err := doBy(open, &Request{Op: Read, Path: base + "/in/folder/file", Most: 100, Allowed: below(base + "/in")})
			if err == nil && string(got.Data) != "mine" {
				t.Fatalf("%s: got %q", name, got.Data)
			}
			if err == nil {
				read++
			}
		}
	}
	close(ended)
	<-swapping
	if read == 0 {
		t.Error("the file was never read")
	}
}

func TestHangingCallsAreBounded(t *testing.T) {
	var s System
	release := make(chan struct{})
	blocked := func(string) error { <-release; return fs.ErrPermission }
	base := tempDir(t)
	must(t, os.WriteFile(base+"/file", nil, 0o600))
	must(t, os.Symlink("file", base+"/link"))
	for i := range maxHung { // each at a path of its own
		must(t, os.Symlink("file", fmt.Sprintf("%s/l%d", base, i)))
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(context.DeadlineExceeded)
		_, err := s.Do(ctx, Request{Op: Statfs, Path: fmt.Sprintf("%s/l%d", base, i), Pattern: "one", Allowed: blocked})
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), fmt.Sprintf("/l%d: no answer", i)) {
			t.Errorf("got %v", err)
		}
	}
	allow := func(string) error { return nil }
	_, err := s.Do(t.Context(), Request{Op: Stat, Path: base + "/l1", Pattern: "two", Allowed: allow})
	if hangs, ok := errors.AsType[*HangError](err); !ok || hangs.Path != base+"/l1" || hangs.Op != Statfs {
		t.Errorf("the same path: got %v", err)
	}
	_, err = s.Do(t.Context(), Request{Op: Stat, Path: base + "/link", Pattern: "one", Allowed: allow})
	if _, ok := errors.AsType[*HangError](err); !ok {
		t.Errorf("the same grant: got %v", err)
	}
	if _, err = s.Do(t.Context(), Request{Op: Stat, Path: base + "/link", Pattern: "two", Allowed: allow}); err != nil {
		t.Errorf("another grant: got %v", err)
	}
	var calls []*call
	s.mu.Lock()
	for c := range s.hung {
		calls = append(calls, c)
	}
	s.mu.Unlock()
	close(release)
	for _, c := range calls {
		<-c.done
	}
	if _, err = s.Do(t.Context(), Request{Op: Stat, Path: base + "/l1", Pattern: "one", Allowed: allow}); err != nil {
		t.Errorf("after the end: got %v", err)
	}
	if s.running != 0 || len(s.hung) != 0 || len(calls) != maxHung {
		t.Errorf("%d run, %d hang, %d hung", s.running, len(s.hung), len(calls))
	}
}

func TestReadFromOffset(t *testing.T) {
	base := tempDir(t)
	must(t, os.WriteFile(base+"/file", []byte("0123456789"), 0o600))
	must(t, os.Chtimes(base+"/file", time.Time{}, time.Unix(1_700_000_000, 0)))
	for name, open := range openers {
		for _, c := range []struct {
			offset int64
			most   int
			want   string
		}{{0, 4, "0123"}, {4, 4, "4567"}, {8, 4, "89"}, {10, 4, ""}, {1 << 40, 4, ""}, {0, 100, "0123456789"}} {
			got, err := doBy(open, &Request{Op: Read, Path: base + "/file", Offset: c.offset, Most: c.most, Allowed: below(base)})
			if err != nil || string(got.Data) != c.want {
				t.Errorf("%s: %d, %d: got %q, %v", name, c.offset, c.most, got.Data, err)
			}
		}
		got, err := doBy(open, &Request{Op: Stat, Path: base + "/file", Allowed: below(base)})
		if err != nil || got.Info.Size != 10 || got.Info.Modified.Unix() != 1_700_000_000 || got.Info.Type != "file" {
			t.Errorf("%s: got %+v, %v", name, got.Info, err)
		}
	}
}
