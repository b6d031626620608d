package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/daeace23/prober/config"
)

// largeFile returns a file with n pushes. Each depends on a name that does not exist, or on the first push.
func largeFile(n int, unknown bool) string {
	var b strings.Builder
	b.WriteString("apiVersion: prober.dev/v1\nkind: AgentConfig\npush:\n- {name: push, ttl: 1h}\n")
	for i := range n {
		on := "push"
		if unknown {
			on = fmt.Sprint("databases-", i)
		}
		fmt.Fprintf(&b, "- {name: push-%d, ttl: 1h, dependsOn: [%s]}\n", i, on)
	}
	return b.String()
}

// The errors of a large file that another program has written wrongly are a short text.
func TestLargeFileWithManyErrors(t *testing.T) {
	const head = "apiVersion: prober.dev/v1\nkind: AgentConfig\npush:\n"
	names := func(n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf("n%x", i)
		}
		return "[" + strings.Join(all, ", ") + "]"
	}
	for name, text := range map[string]string{
		"one unknown name in each entry": largeFile(2000, true),
		"a long list of dependencies":    head + "- {name: p, ttl: 1h, dependsOn: " + names(100_000) + "}\n",
		"a long list of checks":          head + "- {name: p, ttl: 1h}\nendpoints:\n- {name: e, all: " + names(100_000) + "}\n",
	} {
		if _, err := config.Parse("prober.yaml", []byte(text)); err == nil || len(err.Error()) > 64<<10 {
			t.Errorf("%s: %.200v", name, err)
		}
	}
	if _, err := config.Parse("prober.yaml", []byte(largeFile(2000, true))); err == nil || !strings.Contains(err.Error(), "prober.yaml: 1900 further errors are not shown") {
		t.Errorf("%.200v", err)
	}
}

// BenchmarkLargeFile compares files with an unknown name in each entry with right ones.
func BenchmarkLargeFile(b *testing.B) {
	for _, n := range []int{2000, 8000} {
		for _, unknown := range []bool{false, true} {
			b.Run(fmt.Sprintf("entries=%d/unknown=%v", n, unknown), func(b *testing.B) {
				text := []byte(largeFile(n, unknown))
				for b.Loop() {
					if _, err := config.Parse("prober.yaml", text); (err != nil) != unknown {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
