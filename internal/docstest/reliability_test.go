package docstest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every row of the tables in docs/reliability.md names tests, and the folders that have them.
func TestReliabilityNamesTests(t *testing.T) {
	atRoot(t)
	text, err := os.ReadFile("docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`^\| .* \| .* \| .* \| (.*) \|$`)
	named := regexp.MustCompile("`((?:Test|Benchmark|Fuzz)\\w+)`")
	folder := regexp.MustCompile(`\b(?:agent|core|handlers|pods|plugin|test|internal|metrics|config|cmd)(?:/\w+)*\b`)
	rows := 0
	tables, _, _ := strings.Cut(string(text), "## What CI does not run\n") // whose table has no tests
	for line := range strings.Lines(tables) {
		cells := row.FindStringSubmatch(strings.TrimSpace(line))
		if cells == nil || cells[1] == "test" || strings.HasPrefix(cells[1], "---") {
			continue
		}
		rows++
		tests := named.FindAllStringSubmatch(cells[1], -1)
		var sources strings.Builder
		folders := folder.FindAllString(cells[1], -1)
		for _, name := range folders {
			files, err := filepath.Glob(filepath.Join(name, "*_test.go"))
			if err != nil || len(files) == 0 {
				t.Errorf("%s: no tests in the folder %s", cells[0], name)
			}
			for _, file := range files {
				source, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				sources.Write(source)
			}
		}
		if len(tests) == 0 {
			t.Errorf("%s: names no test", cells[0])
		}
		for _, name := range tests {
			if !strings.Contains(sources.String(), "func "+name[1]+"(") {
				t.Errorf("%s: %s has no %s", cells[0], strings.Join(folders, ", "), name[1])
			}
		}
	}
	if rows < 6 {
		t.Errorf("%d rows were read", rows)
	}
}
