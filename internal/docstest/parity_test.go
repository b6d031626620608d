package docstest_test

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

	"github.com/daeace23/prober/probe"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the generated cells of docs/kubelet-parity.md")

const parityFile = "docs/kubelet-parity.md"

const (
	parityHead = "| item | behaviour | shown by |"
	// shownByAll begins the line above a table with the files that show each of its items.
	shownByAll = "Each item is shown by "
)

var (
	// parityRow has the item or its range, what it says, the releases that do otherwise, and the files.
	parityRow = regexp.MustCompile(`^\| (\d+(?:–\d+)?) \| (.*?)(?: Otherwise: ([^|]*)\.)? \| ([^|]*) \|$`)
	// A test's name begins with its items, "#4 #5 removed pods"; a benchmark's has item=88.
	itemsOfTest = regexp.MustCompile("^[\"`](?:#\\d+\\b(?: #\\d+\\b)*|\\S*\\bitem=\\d+)")
	itemNumber  = regexp.MustCompile(`\d+`)
)

// deviations are the switches that an item is about. A kubelet with one of them does not do what the item says.
var deviations = map[int]probe.Compat{
	71:  probe.CompatPortNumbers,
	72:  probe.CompatPortNumbers,
	227: probe.CompatAddPodStops | probe.CompatAddPodSkips,
	228: probe.CompatStopSkipsSidecars,
	230: probe.CompatKeepRun,
	231: probe.CompatInheritReplaced,
	233: probe.CompatBodyHangIsError,
	259: probe.CompatAddPodStops,
	262: probe.CompatIgnoreProtocol,
	263: probe.CompatIgnoreProtocol,
}

// remaining are the items that no switch is about and that some kubelets do not do, with the first release that
// does; "" for none. "What remains different" says more.
var remaining = map[int]string{224: "", 232: "", 234: "", 260: "1.37"}

// otherwise returns the sentence that names the releases that do not do what an item says, with their switches; ""
// if all do.
func otherwise(item int) string {
	var causes []string
	releases := make(map[string][]string)
	for _, r := range probe.KubeletReleases() {
		var switches []string
		for _, s := range probe.CompatSwitches() {
			if r.Compat.Has(s.Compat) && deviations[item].Has(s.Compat) {
				switches = append(switches, s.Name)
			}
		}
		since, differs := remaining[item]
		cause := "no switch"
		switch {
		case len(switches) > 0:
			cause = "`" + strings.Join(switches, ", ") + "`"
		case !differs || since != "" && r.Name >= since:
			continue
		}
		if !slices.Contains(causes, cause) {
			causes = append(causes, cause)
		}
		releases[cause] = append(releases[cause], r.Name)
	}
	var parts []string
	for _, cause := range causes {
		parts = append(parts, strings.Join(releases[cause], ", ")+": "+cause)
	}
	if len(parts) == 0 {
		return ""
	}
	return " Otherwise: " + strings.Join(parts, "; ") + "."
}

// TestParity holds docs/kubelet-parity.md against the tests and the profiles: every item of the
// conformance list has a row, and the row or the line above its table names the files whose tests carry the item's
// number, or says why there is none. The row names the releases of the kubelet that do otherwise.
func TestParity(t *testing.T) {
	atRoot(t)
	shown := itemsInTests(t)
	text, err := os.ReadFile(parityFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range probe.KubeletReleases() {
		if !regexp.MustCompile(`(?m)^The releases .*\b` + regexp.QuoteMeta(r.Name) + `\b.* are kubelets`).Match(text) {
			t.Errorf("%s does not explain release %s", parityFile, r.Name)
		}
	}
	lines := strings.Split(string(text), "\n")
	rows := map[int]bool{}
	var want []string
	var common []string // files that show each item of the table
	for i, line := range lines {
		row := parityRow.FindStringSubmatch(line)
		switch {
		case strings.HasPrefix(line, shownByAll):
			continue
		case line == parityHead:
			if common = commonFiles(lines[i+1:], shown); len(common) > 0 {
				want = append(want, shownByAll+strings.Join(common, ", ")+".", "")
			}
		case row != nil:
			item, last := itemsOfRow(row[1])
			for i := item; i <= last; i++ {
				if rows[i] {
					t.Errorf("item %d has two rows", i)
				}
				rows[i] = true
				if !slices.Equal(shown[i], shown[item]) || otherwise(i) != otherwise(item) {
					t.Errorf("item %d needs a row of its own: its tests or releases differ from item %d", i, item)
				}
			}
			own := slices.DeleteFunc(slices.Clone(shown[item]), func(file string) bool { return slices.Contains(common, file) })
			files := strings.Join(own, ", ")
			switch excused := strings.HasPrefix(row[4], "does not apply: "); {
			case excused && shown[item] != nil:
				t.Errorf("item %d: the row says that it does not apply, and it is shown by %s", item, files)
			case excused:
				files = row[4]
			case shown[item] == nil:
				t.Errorf("item %d: no test carries #%d, and the row does not say why", item, item)
			}
			line = "| " + row[1] + " | " + row[2] + otherwise(item) + " | " + files + " |"
		case line == "" && i > 0 && strings.HasPrefix(lines[i-1], shownByAll):
			continue // belongs to the line before
		}
		want = append(want, line)
	}
	for _, span := range [][2]int{{1, 197}, {204, 214}, {220, 263}} {
		for item := span[0]; item <= span[1]; item++ {
			if !rows[item] {
				t.Errorf("item %d has no row", item)
			}
		}
	}
	if *update {
		if err := os.WriteFile(parityFile, []byte(strings.Join(want, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if diff := cmp.Diff(lines, want); diff != "" {
		t.Errorf("%s is not current: run go test ./internal/docstest -run Parity -update (-got +want)\n%s", parityFile, diff)
	}
}

// commonFiles returns the files that show each item of the table that lines begins with, if it has several.
func commonFiles(lines []string, shown map[int][]string) (common []string) {
	items := 0
	for _, line := range lines {
		row := parityRow.FindStringSubmatch(line)
		switch {
		case !strings.HasPrefix(line, "|"):
			if items < 2 {
				return nil
			}
			return common
		case row == nil: // the line below the heading
			continue
		}
		item, last := itemsOfRow(row[1])
		if items == 0 {
			common = slices.Clone(shown[item])
		}
		items += last - item + 1
		common = slices.DeleteFunc(common, func(file string) bool { return !slices.Contains(shown[item], file) })
	}
	return common
}

// itemsOfRow returns the first and the last item of a row.
func itemsOfRow(cell string) (first, last int) {
	from, to, isRange := strings.Cut(cell, "–")
	first, _ = strconv.Atoi(from)
	if !isRange {
		return first, first
	}
	last, _ = strconv.Atoi(to)
	return first, last
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
	atRoot(t)
	file := "package p\n// Like \"#1 a name\", or item=2.\nvar _ = []string{\"#3 #4 a name\", `#5 raw`, \"x/item=6\", \"not #7\"}\n"
	if got, want := itemsIn([]byte(file)), []int{3, 4, 5, 6}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
