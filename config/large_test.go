package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/config"
)

// A large file that another program has written wrongly is refused soon, in a short text.
func TestLargeFileWithManyErrors(t *testing.T) {
	const head = "apiVersion: prober.dev/v1\nkind: AgentConfig\npush:\n"
	names := func(n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf("n%x", i)
		}
		return "[" + strings.Join(all, ", ") + "]"
	}
	var unknown strings.Builder
	for i := range 8000 {
		fmt.Fprintf(&unknown, "- {name: push-%d, ttl: 1h, dependsOn: [databases-%d]}\n", i, i)
	}
	for name, text := range map[string]string{
		"one unknown name in each entry": unknown.String(),
		"a long list of dependencies":    "- {name: p, ttl: 1h, dependsOn: " + names(100_000) + "}\n",
		"a long list of checks":          "- {name: p, ttl: 1h}\nendpoints:\n- {name: e, all: " + names(100_000) + "}\n",
	} {
		start := time.Now()
		_, err := config.Parse("prober.yaml", []byte(head+text))
		if took := time.Since(start); err == nil || len(err.Error()) > 64<<10 || took > 10*time.Second {
			t.Errorf("%s: after %v, %.200v", name, took, err)
		}
	}
	if _, err := config.Parse("prober.yaml", []byte(head+unknown.String())); err == nil || !strings.Contains(err.Error(), "prober.yaml: 7900 further errors are not shown") {
		t.Errorf("%.200v", err)
	}
}
