package doctest_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/doctest"
)

func TestLike(t *testing.T) {
	for _, c := range []struct {
		want, got string
		like      bool
	}{
		{"", "", true},
		{"", "something", false},
		{"one\ntwo", "one\ntwo", true},
		{"one\ntwo", "one\ntwo\nthree", false},
		{"one\n…", "one\ntwo\nthree", true},
		{"one\n…\nthree", "one\nthree", true},
		{"one\n…\nthree", "one\ntwo", false},
		{"…\nthree", "one\ntwo\nthree", true},
		{"took …", "took 3 ms", true},
		{"took … ms", "took 3 s", false},
		{"a  b", "a b", true},
		{"a b", "ab", false},
		{"1.5", "105", false},
	} {
		if got := doctest.Like(c.want, c.got); got != c.like {
			t.Errorf("Like(%q, %q) = %t", c.want, c.got, got)
		}
	}
}

func TestRunBackgroundEventually(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "page.md")
	text := "```console background\n$ sh -c 'echo starts; echo works; sleep 0.3; echo done >FILE; exec sleep 600' &\nstarts\n```\n" +
		"```console eventually\n$ cat FILE\ndone\n```\n"
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	doctest.Run(t, doctest.Page{File: page, Dir: dir, Env: os.Environ(), Here: strings.NewReplacer("FILE", "file")})
}

func TestInFolderSortsByWeight(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.md":      "---\ntitle: A\nweight: 20\n---\n# A\n```console\n$ true\n```\n",
		"b.md":      "---\ntitle: B\nweight: 3\ndescription: b\n---\n# B\n```console rust\n$ true\n```\n",
		"no.md":     "---\ntitle: No commands\nweight: 1\n---\n# No commands\n```sh\ntrue\n```\n",
		"other.txt": "```console\n$ true\n```\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := doctest.InFolder(t, dir)
	if want := []string{filepath.Join(dir, "b.md"), filepath.Join(dir, "a.md")}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
