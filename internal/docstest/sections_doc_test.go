package docstest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/metrics/agentmetrics"
	"sigs.k8s.io/yaml"
)

// sections are the folders of pages that tell operators how to see, be alerted and secure.
var sections = []string{"docs/see", "docs/alert", "docs/secure"}

// sectionPages returns the paths of all pages of sections, with the text of each.
func sectionPages(t *testing.T) map[string]string {
	t.Helper()
	pages := make(map[string]string)
	for _, section := range sections {
		files, err := filepath.Glob(section + "/*.md")
		if err != nil || len(files) < 5 {
			t.Fatalf("%s has %d pages, %v", section, len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			pages[file] = string(text)
		}
	}
	return pages
}

// TestSectionPagesHaveFrontMatter checks the front matter that the site needs, and that the heading of each
// page, which GitHub shows, is its title.
func TestSectionPagesHaveFrontMatter(t *testing.T) {
	titles := make(map[string]string)
	for file, page := range sectionPages(t) {
		rest, found := strings.CutPrefix(page, "---\n")
		front, rest, end := strings.Cut(rest, "\n---\n")
		if !found || !end {
			t.Errorf("%s has no front matter", file)
			continue
		}
		var meta struct {
			Title, Description string
			Weight             int
		}
		if err := yaml.UnmarshalStrict([]byte(front), &meta); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if meta.Title == "" || meta.Description == "" || meta.Weight < 1 {
			t.Errorf("%s: title %q, description %q, weight %d", file, meta.Title, meta.Description, meta.Weight)
		}
		if !strings.HasPrefix(rest, "# "+meta.Title+"\n") {
			t.Errorf("%s does not begin with the heading %q", file, meta.Title)
		}
		if other := titles[meta.Title]; other != "" {
			t.Errorf("%s and %s have the same title", file, other)
		}
		titles[meta.Title] = file
	}
}

func TestSectionPagesNameOnlyKnownMetrics(t *testing.T) {
	known := make(map[string]bool)
	for _, f := range agentmetrics.Families() {
		known[f.Name] = true
	}
	for file, page := range sectionPages(t) {
		for _, m := range regexp.MustCompile("`(prober_[a-z_]+)").FindAllStringSubmatch(page, -1) {
			if !known[m[1]] {
				t.Errorf("%s names %s, which is not a metric", file, m[1])
			}
		}
	}
}

func TestSectionPagesHaveValidConfigs(t *testing.T) {
	configs := 0
	for file := range sectionPages(t) {
		for _, text := range blocks(t, file, "yaml") {
			configs++
			if strings.Contains(text, "\nkind: Pod\n") {
				checkBuiltinPod(t, text)
			} else if _, err := config.Parse("prober.yaml", []byte(text)); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
	if configs < 8 {
		t.Errorf("%d configs were found", configs)
	}
}

func TestSectionPagesHaveValidQueries(t *testing.T) {
	for file := range sectionPages(t) {
		for _, query := range blocks(t, file, "promql") {
			checkExpr(t, file, query)
		}
	}
}
