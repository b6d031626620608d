package docstest_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	commentBreak  = regexp.MustCompile(`\n\s*// ?`)
	rationaleLink = regexp.MustCompile(`RATIONALE\.md, "([^"]+)"`)
)

// TestRationaleHeadingsExist checks that RATIONALE.md has every heading that comments of Go files quote, once, and
// that comments link at least 40 of them.
func TestRationaleHeadingsExist(t *testing.T) {
	atRoot(t)
	page, err := os.ReadFile("RATIONALE.md")
	if err != nil {
		t.Fatal(err)
	}
	headings := make(map[string]int)
	for _, m := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(string(page), ""), -1) {
		headings[m[1]]++
	}
	linked := make(map[string]bool)
	err = filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && file != "." || d.Name() == "testdata" || d.Name() == "bin") {
			return fs.SkipDir
		}
		if d.IsDir() || filepath.Ext(file) != ".go" || strings.HasPrefix(filepath.ToSlash(file), "internal/docstest/") {
			return nil
		}
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, m := range rationaleLink.FindAllStringSubmatch(commentBreak.ReplaceAllString(string(source), " "), -1) {
			linked[m[1]] = true
			if headings[m[1]] != 1 {
				t.Errorf("%s: RATIONALE.md has the heading %q %d times, expected once", file, m[1], headings[m[1]])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(linked) < 40 {
		t.Errorf("comments link %d headings of RATIONALE.md, expected at least 40", len(linked))
	}
}
