package prober_test

import (
	"flag"
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
	itemsOfTest = regexp.MustCompile(`"(#\d+\b(?: #\d+\b)*)|\bitem=\d+`)
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
		if files == "" && strings.HasPrefix(row[3], "does not apply: ") {
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
	for _, span := range [][2]int{{1, 197}, {204, 214}, {220, 235}} {
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
		for _, number := range itemNumber.FindAllString(strings.Join(itemsOfTest.FindAllString(string(text), -1), " "), -1) {
			item, _ := strconv.Atoi(number)
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
