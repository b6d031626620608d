package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestKeepRowsKeepsOthers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(file, []byte("before\n"+begin+end+"after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, rows := range []map[string]string{
		{"fuzz": "| `fuzz` | a | passed | 1m | 2026-01-01 | abc |\n"},
		{"soak": "| `soak` | b | **failed** | 2m | 2026-01-02 | def |\n"},
		{"soak": "| `soak` | b | passed | 3m | 2026-01-03 | fed |\n"},
	} {
		if err := keepRows(file, rows); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	if !strings.HasPrefix(got, "before\n"+begin) || !strings.HasSuffix(got, end+"after\n") ||
		!strings.Contains(got, "| `fuzz` | a | passed | 1m | 2026-01-01 | abc |\n") || !strings.Contains(got, "| 2026-01-03 | fed |\n") ||
		strings.Contains(got, "def") || strings.Count(got, "not run yet") != len(steps)-2 {
		t.Error(got)
	}
	if err := keepRows(filepath.Join(t.TempDir(), "none"), nil); err == nil {
		t.Error("no error without a file")
	}
}

// TestStepsAreTargets checks that the Makefile has the targets and the variables of each step.
func TestStepsAreTargets(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		for i, word := range s.make {
			pattern := "(?m)^" + regexp.QuoteMeta(word) + ":"
			if name, _, ok := strings.Cut(word, "="); ok == (i > 0) && ok {
				pattern = "(?m)^" + regexp.QuoteMeta(name) + " *[?:]="
			}
			if !regexp.MustCompile(pattern).Match(makefile) {
				t.Errorf("%s: the Makefile has no %s", s.name, word)
			}
		}
	}
}

func TestPageHasAllSteps(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("../..", page))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), begin)
	old, _, _ := strings.Cut(rest, end)
	if old != table(old, nil) {
		t.Error("docs/reliability.md has other steps: run `go run ./test/verify STEP` for those that are new")
	}
}

func TestChooseNamesKnownSteps(t *testing.T) {
	if _, err := choose([]string{"fuz"}); err == nil || !strings.Contains(err.Error(), "known: platforms") {
		t.Error(err)
	}
	if got, err := choose([]string{"soak"}); err != nil || len(got) != 1 || got[0].name != "soak" {
		t.Error(got, err)
	}
}

func TestFiguresAreOfLastLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	for text, want := range map[string]string{"a\nfigures: 1 MB\nb\nfigures: 2 MB\nc\n": ": 2 MB", "no figures: 3 MB\n": ""} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := figures(file); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
