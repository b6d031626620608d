package docstest_test

import (
	"fmt"
	"os"
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
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const operatorsPage = "docs/operators.md"

func TestOperatorsPageNamesOnlyKnownMetrics(t *testing.T) {
	page, err := os.ReadFile(operatorsPage)
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool)
	for _, f := range agentmetrics.Families() {
		known[f.Name] = true
	}
	for _, m := range regexp.MustCompile("`(prober_[a-z_]+)").FindAllStringSubmatch(string(page), -1) {
		if !known[m[1]] {
			t.Errorf("%s names %s, which is not a metric", operatorsPage, m[1])
		}
	}
}

func TestOperatorsPageHasValidConfigs(t *testing.T) {
	for _, text := range slices.Concat(blocks(t, operatorsPage, "yaml"), blocks(t, "docs/production.md", "yaml")) {
		if strings.Contains(text, "\nkind: Pod\n") {
			checkBuiltinPod(t, text)
		} else if _, err := config.Parse("prober.yaml", []byte(text)); err != nil {
			t.Error(err)
		}
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

// The page shows both forms of a probe that keeps its connection.
func TestOperatorsPageShowsReuse(t *testing.T) {
	for _, text := range blocks(t, operatorsPage, "yaml") {
		if !strings.Contains(text, "connection: reuse") {
			continue
		}
		var pod v1.Pod
		if err := yaml.UnmarshalStrict([]byte(text), &pod); err != nil {
			t.Fatal(err)
		}
		probes, errs := declared.ProbesOf(&pod)
		if len(probes) != 2 || len(errs) > 0 || !strings.Contains(text, "httpGet: {") || !strings.Contains(text, "plugin: {name: http,") {
			t.Errorf("%d probes, %v, in\n%s", len(probes), errs, text)
		}
		for _, p := range probes {
			if p.Handler != "http" || !strings.Contains(string(p.Config), `"connection":"reuse"`) {
				t.Errorf("the config of %s: %s", p.Handler, p.Config)
			}
		}
		return
	}
	t.Error("no pod has connection: reuse")
}

// knownFields returns the fields that config knows in a mapping of prober.yaml, as the error of an
// unknown field lists them. The mapping is in the place of MAPPING. There are none if a mapping is
// not allowed there.
func knownFields(nested string) []string {
	text := "apiVersion: prober.dev/v1\nkind: AgentConfig\n" + strings.Replace(nested, "MAPPING", "{no_such: 1}", 1)
	_, err := config.Parse("prober.yaml", []byte(text))
	_, known, ok := strings.Cut(fmt.Sprint(err), "no_such: unknown field; known: ")
	if !ok {
		return nil
	}
	known, _, _ = strings.Cut(known, "\n")
	known, _, _ = strings.Cut(known, " (")
	return strings.Split(known, ", ")
}

func TestOperatorsPageDescribesEveryField(t *testing.T) {
	page, err := os.ReadFile(operatorsPage)
	if err != nil {
		t.Fatal(err)
	}
	described := 0
	var walk func(prefix, nested string, fields []string)
	walk = func(prefix, nested string, fields []string) {
		for _, field := range fields {
			name := prefix + field
			mapping := strings.Replace(nested, "MAPPING", "{"+field+": MAPPING}", 1)
			list := strings.Replace(nested, "MAPPING", "{"+field+": [MAPPING]}", 1)
			if prefix == "" {
				mapping, list = field+": MAPPING", field+": [MAPPING]"
			}
			inMapping, inList := knownFields(mapping), knownFields(list)
			switch {
			case name == "apiVersion" || name == "kind":
				continue
			case inList != nil:
				walk(name+"[].", list, inList)
				continue
			case inMapping != nil && name != "plugins[].limits": // docs/abi.md has those
				walk(name+".", mapping, inMapping)
				if prefix == "" {
					continue
				}
			}
			described++
			if !strings.Contains(string(page), "\n| `"+name+"` | ") {
				t.Errorf("the table of %s has no row for %s", operatorsPage, name)
			}
		}
	}
	walk("", "", knownFields("no_such: 1"))
	if described < 18 {
		t.Errorf("%d fields were found", described)
	}
}

func TestOperatorsPageHasValidGrants(t *testing.T) {
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
