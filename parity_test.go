package prober_test

import (
	"flag"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the last column of docs/kubelet-parity.md")

const parityFile = "docs/kubelet-parity.md"

var (
	parityRow = regexp.MustCompile(`^\| (\d+) \| (.*) \| (.*) \|$`)
	// A test's name begins with its items, "#4 #5 removed pods"; a benchmark's has item=88.
	itemsOfTest = regexp.MustCompile("^[\"`](?:#\\d+\\b(?: #\\d+\\b)*|\\S*\\bitem=\\d+)")
	itemNumber  = regexp.MustCompile(`\d+`)
)

// TestParity holds docs/kubelet-parity.md against the tests: every item of the
// conformance list has a row, and the row names the files whose tests carry the item's
// number, or says why there is none.
func TestParity(t *testing.T) {
	shown := itemsInTests(t)
	text, err := os.ReadFile(parityFile)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[int]bool{}
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		row := parityRow.FindStringSubmatch(line)
		if row == nil {
			continue
		}
		item, _ := strconv.Atoi(row[1])
		if rows[item] {
			t.Errorf("item %d has two rows", item)
		}
		rows[item] = true
		files := strings.Join(shown[item], ", ")
		if strings.HasPrefix(row[3], "does not apply: ") {
			if files != "" {
				t.Errorf("item %d: the row says that it does not apply, and it is shown by %s", item, files)
			}
			continue
		}
		if files == "" {
			t.Errorf("item %d: no test carries #%d, and the row does not say why", item, item)
			continue
		}
		if *update {
			lines[i] = "| " + row[1] + " | " + row[2] + " | " + files + " |"
		} else if row[3] != files {
			t.Errorf("item %d: the row names %q, the tests are in %q; run go test -run Parity . -update", item, row[3], files)
		}
	}
	for _, span := range [][2]int{{1, 197}, {204, 214}, {220, 258}} {
		for item := span[0]; item <= span[1]; item++ {
			if !rows[item] {
				t.Errorf("item %d has no row", item)
			}
		}
	}
	if *update {
		if err := os.WriteFile(parityFile, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// itemsInTests returns, for every item number, the test files that carry it.
func itemsInTests(t *testing.T) map[int][]string {
	t.Helper()
	shown := map[int][]string{}
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name := "[" + filepath.ToSlash(file) + "](../" + filepath.ToSlash(file) + ")"
		for _, item := range itemsIn(text) {
			if !slices.Contains(shown[item], name) {
				shown[item] = append(shown[item], name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return shown
}

// itemsIn returns the items in the names of the tests of a Go file. A name is a string
// literal; what a comment says is not one.
func itemsIn(file []byte) (items []int) {
	var s scanner.Scanner
	fset := token.NewFileSet()
	s.Init(fset.AddFile("", fset.Base(), len(file)), file, nil, 0)
	for {
		_, tok, text := s.Scan()
		if tok == token.EOF {
			return items
		}
		if tok != token.STRING {
			continue
		}
		for _, number := range itemNumber.FindAllString(itemsOfTest.FindString(text), -1) {
			item, _ := strconv.Atoi(number)
			items = append(items, item)
		}
	}
}

func TestItemsAreNotTakenFromComments(t *testing.T) {
	file := "package p\n// Like \"#1 a name\", or item=2.\nvar _ = []string{\"#3 #4 a name\", `#5 raw`, \"x/item=6\", \"not #7\"}\n"
	if got, want := itemsIn([]byte(file)), []int{3, 4, 5, 6}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
