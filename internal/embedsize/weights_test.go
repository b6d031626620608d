package main

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestSizePageIsCurrent builds the programs and compares their sizes with the page. It allows differences, since the
// sizes depend on the Go version.
func TestSizePageIsCurrent(t *testing.T) {
	page, err := os.ReadFile("../../docs/size.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, section := range strings.Split(string(page), "\n## ")[1:] {
		title := regexp.MustCompile(`^(\S+): (\d+\.\d) MB\n`).FindStringSubmatch(section)
		if title == nil {
			t.Fatalf("no size in %.40q", section)
		}
		pkg := "../../cmd/" + title[1]
		total, weights, err := weigh(pkg)
		if err != nil {
			t.Fatal(err)
		}
		if said, _ := strconv.ParseFloat(title[2], 64); math.Abs(float64(total)/1e6-said) > said/20 {
			t.Errorf("%s has %s MB, and docs/size.md says %s: run `make docs`, and look at what has grown", title[1], megabytes(uint64(total)), title[2])
		}
		known := map[string]bool{}
		for _, w := range weights {
			known[w.module] = true
			row := regexp.MustCompile(regexp.QuoteMeta("| " + w.module + " | "))
			if w.bytes > 2*leastWeight && !row.MatchString(section) {
				t.Errorf("%s: %s has %d bytes and no row: run `make docs`", title[1], w.module, w.bytes)
			}
		}
		for _, row := range regexp.MustCompile(`(?m)^\| (\S+\.\S+/\S+) \| `).FindAllStringSubmatch(section, -1) {
			if !known[row[1]] {
				t.Errorf("%s: %s is not linked any more: run `make docs`", title[1], row[1])
			}
		}
	}
}

func TestModuleOf(t *testing.T) {
	modules := map[string]string{"gopkg.in/inf.v0": "gopkg.in/inf.v0", "example.org/a/b": "example.org/a", "main": "example.org/a"}
	for symbol, want := range map[string]string{
		"gopkg.in/inf%2ev0.(*Dec).Add":                "gopkg.in/inf.v0",
		"gopkg.in/inf.v0.(*Dec).Add":                  "gopkg.in/inf.v0",
		"example.org/a/b.F.func1":                     "example.org/a",
		"example.org/a/b.F[go.shape.struct { x/y.T}]": "example.org/a",
		"main.main":                    "example.org/a",
		"vendor/golang.org/x/net.F":    standard,
		"net/http.(*Server).Serve":     standard,
		"runtime.mallocgc":             standard,
		"type:*example.org/a/b.T":      "",
		"go:string.*":                  "",
		"runtime.pclntab":              "",
		"unknown.example/other.F":      "",
		"example.org/a/b..stmp_1":      "example.org/a",
		"example.org/a/b.(*T).M-fm":    "example.org/a",
		"slices.SortFunc[go.shape.[]a": standard,
	} {
		if got := moduleOf(symbol, modules); got != want {
			t.Errorf("%s: got %q, want %q", symbol, got, want)
		}
	}
}
