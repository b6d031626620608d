package docstest_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/metrics/agentmetrics"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/index"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// sections are the folders of docs with pages.
var sections = []string{"docs/start", "docs/probe", "docs/see", "docs/alert", "docs/secure", "docs/plugins", "docs/embed"}

// operatorsPages returns the files of all pages in sections.
func operatorsPages(t *testing.T) []string {
	t.Helper()
	return pagesIn(t, sections...)
}

// pagesIn returns the files of all pages in folders.
func pagesIn(t *testing.T, folders ...string) (files []string) {
	t.Helper()
	for _, section := range folders {
		err := filepath.WalkDir(section, func(file string, _ fs.DirEntry, err error) error {
			if filepath.Ext(file) == ".md" {
				files = append(files, file)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// TestPagesHaveFrontMatter checks that each page of a section and each page of reference has a weight, a title and a
// description, and that the title is its first heading. The _index.md of a section needs only a title and a weight.
func TestPagesHaveFrontMatter(t *testing.T) {
	atRoot(t)
	files := append(operatorsPages(t), pagesIn(t, kubernetesSection, "docs/migration", "docs/performance")...)
	for _, file := range append(files, referencePages(t)...) {
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var front struct {
			Title, Description string
			Weight             int
		}
		head, text, ok := strings.Cut(strings.TrimPrefix(string(page), "---\n"), "\n---\n")
		if err := yaml.UnmarshalStrict([]byte(head), &front); !ok || err != nil {
			t.Errorf("%s: its front matter: %v", file, err)
			continue
		}
		if front.Title == "" || front.Weight < 1 {
			t.Errorf("%s: the front matter has %+v", file, front)
		}
		if filepath.Base(file) != "_index.md" && (front.Description == "" || !strings.HasPrefix(text, "# "+front.Title+"\n")) {
			t.Errorf("%s: the front matter has %+v; the title must be the first heading", file, front)
		}
	}
}

// referencePages returns the files of the pages in docs itself, without its README.md.
func referencePages(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(files, func(file string) bool { return file == "docs/README.md" })
}

func TestOperatorsPagesNameOnlyKnownMetrics(t *testing.T) {
	atRoot(t)
	known := make(map[string]bool)
	for _, f := range agentmetrics.Families() {
		known[f.Name] = true
	}
	named := 0
	for _, file := range append(operatorsPages(t), pagesIn(t, kubernetesSection, "docs/migration")...) {
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("`(prober_[a-z_]+)").FindAllStringSubmatch(string(page), -1) {
			base := strings.TrimSuffix(strings.TrimSuffix(m[1], "_sum"), "_count") // of a histogram
			if named++; !known[m[1]] && !known[base] {
				t.Errorf("%s names %s, which is not a metric", file, m[1])
			}
		}
	}
	if named < 30 {
		t.Errorf("the pages name metrics %d times, expected at least 30", named)
	}
}

func TestNotificationsPageHasAllFormats(t *testing.T) {
	atRoot(t)
	page, err := os.ReadFile("docs/alert/notifications.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []config.WebhookFormat
	for _, m := range regexp.MustCompile("(?m)^\\| `format: ([a-z]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		rows = append(rows, config.WebhookFormat(m[1]))
	}
	if slices.Sort(rows); !slices.Equal(rows, slices.Sorted(config.WebhookFormats())) {
		t.Errorf("the table of receivers has the formats %q", rows)
	}
}

func TestOperatorsPagesHaveValidConfigs(t *testing.T) {
	atRoot(t)
	checked := 0
	for _, file := range operatorsPages(t) {
		for _, text := range blocks(t, file, "yaml") {
			checked++
			var err error
			switch {
			case strings.Contains(text, "\nkind: Pod\n"):
				checkBuiltinPod(t, text)
			case strings.Contains(text, "\nkind: Plugin\n"):
				_, err = plugin.ParseManifest(file, []byte(text))
			case strings.Contains(text, "\nkind: PluginIndex\n"):
				_, err = index.Parse(file, []byte(text))
			default:
				_, err = config.Parse(file, []byte(text))
			}
			if err != nil {
				t.Error(err)
			}
		}
	}
	if checked < 17 {
		t.Errorf("the pages have %d configs, expected at least 17", checked)
	}
}

func TestOperatorsPagesHaveValidQueries(t *testing.T) {
	atRoot(t)
	queries := 0
	for _, file := range operatorsPages(t) {
		for _, query := range blocks(t, file, "promql") {
			queries++
			checkExpr(t, file, query)
		}
	}
	if queries == 0 {
		t.Error("the pages have no queries")
	}
}

// checkBuiltinPod checks a pod and the configs of its probes, which are of the built-in handlers.
func checkBuiltinPod(t *testing.T, text string) {
	t.Helper()
	var pod v1.Pod
	if err := yaml.UnmarshalStrict([]byte(text), &pod); err != nil {
		t.Fatal(err)
	}
	for _, err := range declared.ValidatePod(&pod) {
		t.Error(err)
	}
	var registry handlers.Registry
	if err := builtin.Register(&registry, builtin.Config{Runner: &builtin.HostRunner{}}); err != nil {
		t.Fatal(err)
	}
	probes, errs := declared.ProbesOf(&pod)
	if len(probes) == 0 || len(errs) > 0 {
		t.Errorf("%d probes, %v", len(probes), errs)
	}
	for _, p := range probes {
		if _, err := registry.Prepare(p.Handler, p.Config, p.Target); err != nil {
			t.Error(err)
		}
	}
}

// TestOperatorsPagesShowReuse checks the one pod that has connection: reuse: it shows both forms.
func TestOperatorsPagesShowReuse(t *testing.T) {
	atRoot(t)
	shown := 0
	for _, file := range operatorsPages(t) {
		for _, text := range blocks(t, file, "yaml") {
			if strings.Contains(text, "connection: reuse") {
				shown++
				checkReuse(t, file, text)
			}
		}
	}
	if shown == 0 {
		t.Error("no pod has connection: reuse")
	}
}

func checkReuse(t *testing.T, file, text string) {
	t.Helper()
	var pod v1.Pod
	if err := yaml.UnmarshalStrict([]byte(text), &pod); err != nil {
		t.Fatal(err)
	}
	probes, errs := declared.ProbesOf(&pod)
	if len(probes) != 2 || len(errs) > 0 || !strings.Contains(text, "httpGet: {") || !strings.Contains(text, "plugin: {name: http,") {
		t.Errorf("%s: %d probes, %v, in\n%s", file, len(probes), errs, text)
	}
	for _, p := range probes {
		if p.Handler != "http" || !strings.Contains(string(p.Config), `"connection":"reuse"`) {
			t.Errorf("%s: the config of %s: %s", file, p.Handler, p.Config)
		}
	}
}

// TestGrantsPageHasValidGrants parses the grants in the first column of the table.
func TestGrantsPageHasValidGrants(t *testing.T) {
	atRoot(t)
	page, err := os.ReadFile("docs/plugins/grants.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| grant | allows |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	count := 0
	for row := range strings.SplitSeq(table, "\n") {
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(strings.Split(row, " | ")[0], -1) {
			count++
			if _, err := plugin.ParseGrant(m[1]); err != nil {
				t.Errorf("%s: %v", m[1], err)
			}
		}
	}
	if count < 9 {
		t.Errorf("found %d grants", count)
	}
}
