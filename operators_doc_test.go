package prober_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/plugin"
)

const operatorsPage = "docs/operators.md"

func TestOperatorsPageNamesOnlyKnownMetrics(t *testing.T) {
	page, err := os.ReadFile(operatorsPage)
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool)
	for _, f := range metrics.Families() {
		known[f.Name] = true
	}
	for _, m := range regexp.MustCompile("`(prober_[a-z_]+)").FindAllStringSubmatch(string(page), -1) {
		if !known[m[1]] {
			t.Errorf("%s names %s, which is not a metric", operatorsPage, m[1])
		}
	}
}

// TestOperatorsFile reads the prober.yaml of docs/operators.md, and looks whether the page
// tells of each field that config knows.
func TestOperatorsFile(t *testing.T) {
	for _, text := range blocks(t, operatorsPage, "yaml") {
		if _, err := config.Parse("prober.yaml", []byte(text)); err != nil {
			t.Error(err)
		}
	}
	page, err := os.ReadFile(operatorsPage)
	if err != nil {
		t.Fatal(err)
	}
	const head = "apiVersion: prober.dev/v1\nkind: AgentConfig\n"
	for prefix, bad := range map[string]string{
		"": "x: 1\n", "plugins[].": "plugins:\n- x: 1\n", "trust.": "trust: {x: 1}\n",
	} {
		_, err := config.Parse("prober.yaml", []byte(head+bad))
		if err == nil {
			t.Fatalf("%q is no error", bad)
		}
		_, known, ok := strings.Cut(err.Error(), "known: ")
		if !ok {
			t.Fatalf("the error does not say what is known: %v", err)
		}
		known, _, _ = strings.Cut(known, "\n")
		for field := range strings.SplitSeq(known, ", ") {
			switch name := prefix + strings.Trim(field, " )"); name {
			case "apiVersion", "kind", "plugins", "trust":
			default:
				if !strings.Contains(string(page), "`"+name+"`") {
					t.Errorf("%s does not tell of %s", operatorsPage, name)
				}
			}
		}
	}
}

// TestOperatorsGrants reads the grants of docs/operators.md.
func TestOperatorsGrants(t *testing.T) {
	page, err := os.ReadFile(operatorsPage)
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
