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
)

var update = flag.Bool("update", false, "rewrite the columns of docs/kubelet-parity.md")

const parityFile = "docs/kubelet-parity.md"

var (
	parityRow = regexp.MustCompile(`^\| (\d+) \| (.*) \| ([^|]*) \| ([^|]*) \|$`)
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

// releaseCell returns the releases that do not do what an item says, with their switches; "" if all do.
func releaseCell(item int) string {
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
	return strings.Join(parts, "; ")
}

// TestParity holds docs/kubelet-parity.md against the tests and the profiles: every item of the
// conformance list has a row, and the row names the files whose tests carry the item's
// number, or says why there is none. A column names the releases of the kubelet that do not do the same.
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
		files, releases := strings.Join(shown[item], ", "), releaseCell(item)
		if strings.HasPrefix(row[4], "does not apply: ") {
			if files != "" {
				t.Errorf("item %d: the row says that it does not apply, and it is shown by %s", item, files)
			}
			files = row[4]
		}
		if files == "" {
			t.Errorf("item %d: no test carries #%d, and the row does not say why", item, item)
			continue
		}
		if *update {
			lines[i] = "| " + row[1] + " | " + row[2] + " | " + releases + " | " + files + " |"
		} else if row[3] != releases || row[4] != files {
			t.Errorf("item %d: the row ends with %q, want %q; run go test ./internal/docstest -run Parity -update", item, row[3]+" | "+row[4], releases+" | "+files)
		}
	}
	for _, span := range [][2]int{{1, 197}, {204, 214}, {220, 263}} {
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
	atRoot(t)
	file := "package p\n// Like \"#1 a name\", or item=2.\nvar _ = []string{\"#3 #4 a name\", `#5 raw`, \"x/item=6\", \"not #7\"}\n"
	if got, want := itemsIn([]byte(file)), []int{3, 4, 5, 6}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
