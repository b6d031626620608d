package docstest_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	codeBlock    = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	markdownLink = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading      = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	notInAnchor  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns the anchors of the headings of a page, as GitHub makes them.
func anchors(page string) map[string]bool {
	all := make(map[string]bool)
	for _, m := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(page, ""), -1) {
		anchor := strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")
		for name, n := anchor, 1; ; n++ {
			if !all[name] {
				all[name] = true
				break
			}
			name = fmt.Sprintf("%s-%d", anchor, n)
		}
	}
	return all
}

// TestLinksLeadSomewhere follows every relative link of every page, to its heading too.
func TestLinksLeadSomewhere(t *testing.T) {
	atRoot(t)
	links := 0
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && file != "." || d.Name() == "testdata" || d.Name() == "bin" || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		if d.IsDir() || filepath.Ext(file) != ".md" {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, m := range markdownLink.FindAllStringSubmatch(codeBlock.ReplaceAllString(string(text), ""), -1) {
			if !strings.Contains(m[1], ":") {
				links++
				followLink(t, file, string(text), m[1])
			}
		}
		return nil
	})
	if err != nil || links < 100 {
		t.Errorf("%d links, %v", links, err)
	}
}

func followLink(t *testing.T, file, page, link string) {
	t.Helper()
	path, anchor, _ := strings.Cut(link, "#")
	if path != "" {
		path = filepath.Join(filepath.Dir(file), path)
		info, err := os.Stat(path)
		if err != nil {
			t.Errorf("%s: %s: %v", file, link, err)
			return
		}
		if info.IsDir() || anchor == "" {
			return
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
			return
		}
		page = string(text)
	}
	if filepath.Ext(path) == ".md" || path == "" {
		if !anchors(page)[anchor] {
			t.Errorf("%s: %s: no such heading", file, link)
		}
	}
}
