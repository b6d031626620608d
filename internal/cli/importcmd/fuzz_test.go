package importcmd

import (
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/daeace23/prober/config"
)

// fuzz checks that an importer never panics, and that its output can be loaded. `prober import` also runs
// prober validate, see TestImport of internal/cli.
func fuzz(f *testing.F, tool, name string) {
	archives, err := filepath.Glob(filepath.Join("testdata", tool, "*.txtar"))
	if err != nil || len(archives) == 0 {
		f.Fatal("no archives", err)
	}
	for _, path := range archives {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range archive.Files {
			if file.Name != "stderr" && file.Name != "prober.yaml" && !strings.HasPrefix(file.Name, "plugins/") {
				f.Add(string(file.Data))
			}
		}
	}
	var read func(p *plan, files []input) error
	for _, i := range importers {
		if i.tool == tool {
			read = i.read
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		in := input{name, []byte(text)}
		if in.check() != nil || len(text) > 1<<16 {
			return
		}
		p := newPlan()
		if read(p, []input{in}) != nil {
			return
		}
		checkPlan(t, p, tool)
	})
}

// checkPlan renders a plan until config.Parse accepts all of it, as accepted does.
func checkPlan(t *testing.T, p *plan, tool string) {
	file, err := p.accepted(t.Context(), tool, nil)
	if err != nil {
		if strings.Contains(err.Error(), "must be at most") { // a file above the limit of prober.yaml is refused
			return
		}
		t.Fatalf("refused: %v", err)
	}
	if _, err := config.Parse("prober.yaml", file); err != nil {
		t.Fatalf("%v\n%s", err, file)
	}
	for _, finding := range p.sortedFindings() {
		if finding.Line < 1 || finding.Text == "" || !utf8.ValidString(finding.String()) || strings.Contains(finding.String(), "\n") {
			t.Errorf("%+v", finding)
		}
	}
}

func FuzzBlackbox(f *testing.F)    { fuzz(f, "blackbox", "blackbox.yml") }
func FuzzGatus(f *testing.F)       { fuzz(f, "gatus", "config.yaml") }
func FuzzUptimeKuma(f *testing.F)  { fuzz(f, "uptime-kuma", "backup.json") }
func FuzzCloudprober(f *testing.F) { fuzz(f, "cloudprober", "cloudprober.cfg") }
func FuzzNagios(f *testing.F)      { fuzz(f, "nagios", "objects.cfg") }
func FuzzMonit(f *testing.F)       { fuzz(f, "monit", "monitrc") }
