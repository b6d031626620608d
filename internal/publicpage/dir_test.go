package publicpage_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daeace23/prober/internal/publicpage"
)

// opened returns a folder with the index "old", and its path.
func opened(t *testing.T) (*publicpage.Dir, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "status")
	d, err := publicpage.OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	replace(t, d, "index.html", "old", "badge-a.svg", "a")
	return d, path
}

// replace replaces the files of d by pairs of a name and contents.
func replace(t *testing.T, d *publicpage.Dir, pairs ...string) {
	t.Helper()
	err := d.Replace(func(put func(string, []byte) error) error {
		for i := 0; i < len(pairs); i += 2 {
			if err := put(pairs[i], []byte(pairs[i+1])); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// listing returns the names and the contents of all files.
func listing(t *testing.T, path string) string {
	t.Helper()
	entries, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(path, e.Name()))
		fmt.Fprintf(&b, "%s: %q %v\n", e.Name(), text, err)
	}
	return b.String()
}

func TestReplaceRemovesFilesThatAreGone(t *testing.T) {
	d, path := opened(t)
	replace(t, d, "index.html", "new", "feed.xml", "f")
	const want = ".prober-page: \"feed.xml\\nindex.html\\n\" <nil>\nfeed.xml: \"f\" <nil>\nindex.html: \"new\" <nil>\n"
	if got := listing(t, path); got != want {
		t.Error(got)
	}
}

func TestReplaceKeepsUnchangedFiles(t *testing.T) {
	d, path := opened(t)
	long := time.Now().Add(-24 * time.Hour)
	if err := os.Chtimes(filepath.Join(path, "badge-a.svg"), long, long); err != nil {
		t.Fatal(err)
	}
	replace(t, d, "index.html", "new", "badge-a.svg", "a")
	if info, err := os.Stat(filepath.Join(path, "badge-a.svg")); err != nil || time.Since(info.ModTime()) < time.Hour {
		t.Errorf("%v, %v", info, err)
	}
}

func TestReplaceErrorKeepsOldFiles(t *testing.T) {
	d, path := opened(t)
	before := listing(t, path)
	broken := errors.New("broken")
	for _, name := range []string{"", "../index.html", "other.txt", "index.html/x", ".prober-page", "index.html"} {
		err := d.Replace(func(put func(string, []byte) error) error {
			if err := put("index.html", []byte("new")); err != nil {
				return err
			}
			if name == "" {
				return broken
			}
			return put(name, []byte("new"))
		})
		if err == nil || name == "" && !errors.Is(err, broken) {
			t.Errorf("%q: %v", name, err)
		}
		if after := listing(t, path); after != before {
			t.Errorf("%q: %s", name, after)
		}
	}
}

func TestFolderOfOthersIsRefused(t *testing.T) {
	for name, prepare := range map[string]func(path string) error{
		"index.html": func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"x":          func(path string) error { return os.Mkdir(path, 0o700) },
		"feed.xml":   func(path string) error { return os.Symlink("/etc/passwd", path) },
	} {
		dir := t.TempDir()
		if err := prepare(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		_, err := publicpage.OpenDir(dir)
		if e, ok := errors.AsType[*publicpage.ForeignError](err); !ok || len(e.Names) != 1 || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := publicpage.OpenDir(filepath.Join(t.TempDir(), "a", "b")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestFileOfOthersThatComesLaterIsRefused(t *testing.T) {
	d, path := opened(t)
	badge := filepath.Join(path, "badge-a.svg")
	if err := errors.Join(os.Remove(badge), os.Symlink("/etc/passwd", badge)); err != nil {
		t.Fatal(err)
	}
	err := d.Replace(func(put func(string, []byte) error) error { return put("index.html", []byte("new")) })
	if _, ok := errors.AsType[*publicpage.ForeignError](err); !ok {
		t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(path, "index.html")); err != nil || string(text) != "old" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestFilesOfKilledExportAreRemoved(t *testing.T) {
	d, path := opened(t)
	long := time.Now().Add(-2 * time.Hour)
	for name, at := range map[string]time.Time{".prober-new-a": long, ".prober-new-b": time.Now()} {
		name = filepath.Join(path, name)
		if err := errors.Join(os.WriteFile(name, nil, 0o600), os.Chtimes(name, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	replace(t, d, "index.html", "new")
	if got := listing(t, path); strings.Contains(got, ".prober-new-a") || !strings.Contains(got, ".prober-new-b") {
		t.Error(got)
	}
}

func TestReaderSeesWholeFiles(t *testing.T) {
	d, path := opened(t)
	texts := []string{strings.Repeat("a", 1<<20), strings.Repeat("b", 1<<19)}
	replace(t, d, "index.html", texts[1])
	stop := make(chan struct{})
	var reading sync.WaitGroup
	for range 2 {
		reading.Go(func() {
			for {
				text, err := os.ReadFile(filepath.Join(path, "index.html"))
				if err != nil || len(text) == 0 || len(text) != len(texts[text[0]-'a']) || len(bytes.Trim(text, string(text[0]))) > 0 {
					t.Errorf("%d bytes, %v", len(text), err)
					return
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for i := range 50 {
		replace(t, d, "index.html", texts[i%2])
	}
	close(stop)
	reading.Wait()
}
