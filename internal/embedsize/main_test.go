package main

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTablesAreCurrentExceptForSizes(t *testing.T) {
	page, err := os.ReadFile("../../docs/embed/size.md")
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[string]string{}
	for _, p := range programs {
		row := regexp.MustCompile(regexp.QuoteMeta("| "+p.uses+" | ") + `(\d+\.\d MB) \|`).FindSubmatch(page)
		if row == nil {
			t.Fatalf("no row of %s; run `make docs`", p.uses)
		}
		sizes[p.dir] = string(row[1])
	}
	want, err := replace(string(page), sizes)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(page)); diff != "" {
		t.Errorf("docs/embed/size.md is not current: run `make docs` (-want +got)\n%s", diff)
	}
}

func TestEveryProgramIsInTheTable(t *testing.T) {
	dirs, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"vet"}
	for _, d := range dirs {
		if !slices.ContainsFunc(programs, func(p program) bool { return p.dir == d.Name() }) {
			t.Errorf("testdata/%s is not a program of the table", d.Name())
		}
		args = append(args, "./testdata/"+d.Name())
	}
	if _, err := run(args...); err != nil {
		t.Error(err)
	}
}
