package docstest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEventsPageNamesEveryReason finds the reasons of events in the sources of those that write them.
func TestEventsPageNamesEveryReason(t *testing.T) {
	atRoot(t)
	const file = "docs/events.md"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		files, pattern string
		least          int
		prefixes       []string // of what the pattern finds
	}{
		{"pods/local/start.go", `(?m)^\tevent[A-Z]\w+ += "(\w+)"`, 7, nil},
		{"pods/kube/liveness/actor.go", `(?m)^\tevent(?:Killing|PreStop|Evicted) += "(\w+)"`, 3, nil},
		{"pods/kube/liveness/actor.go", `(?m)^\tevent(?:Failed|Refused|Withheld) += "(\w+)"`, 3, []string{"ProbeRestart", "ProbeEvict"}},
		{"pods/kube/liveness/act.go", `reason :?= "(\w+)"`, 2, nil},
		{"pods/kube/*.go", `EventType\w+, "(\w+)"`, 4, nil},
		{"pods/kube/*.go", `reason, message = "(\w+)"`, 1, nil},
		{"pods/kube/conditions/writer.go", `EventTypeWarning, "(\w+)"`, 1, nil},
		{"core/worker/observer.go", `EventReason = "(\w+)"`, 2, nil},
		{"agent/actions.go", `"[a-z]+": "([A-Z]\w+)"`, 6, nil},
		{"agent/actions.go", `EventTypeWarning, "(\w+)"`, 1, nil},
	} {
		files, err := filepath.Glob(c.files)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			source, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(c.pattern).FindAllStringSubmatch(string(source), -1) {
				found++
				reasons := []string{m[1]}
				if len(c.prefixes) > 0 {
					reasons = nil
					for _, prefix := range c.prefixes {
						reasons = append(reasons, prefix+m[1])
					}
				}
				for _, reason := range reasons {
					if !strings.Contains(string(page), "`"+reason+"`") {
						t.Errorf("%s does not name the event %s of %s", file, reason, f)
					}
				}
			}
		}
		if found < c.least {
			t.Errorf("%s has %d reasons that match %s, want at least %d", c.files, found, c.pattern, c.least)
		}
	}
}
