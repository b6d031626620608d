//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daeace23/prober/agent/api"
)

// Writers report increasing numbers to pushes, and the agent is killed at some time. The next agent must know
// each number whose report was answered with 200, or a later one.
func TestKilledAgentsLoseNoReport(t *testing.T) {
	t.Parallel()
	const writers, kills = 4, 8
	dir := t.TempDir()
	var text strings.Builder
	text.WriteString("apiVersion: prober.dev/v1\nkind: AgentConfig\npush:\n")
	for n := range writers {
		token := filepath.Join(dir, fmt.Sprint("token", n))
		if err := os.WriteFile(token, fmt.Appendf(nil, "0123456789abcdef-%d", n), 0o600); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "- {name: job-%d, ttl: 24h, tokenFile: %s}\n", n, token)
	}
	config := filepath.Join(dir, "prober.yaml")
	if err := os.WriteFile(config, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	var confirmed [writers]atomic.Int64
	total := 0
	for n := range kills + 1 {
		a := startAgent(t, nil, "--config", config, "--state-dir", filepath.Join(dir, "state"))
		var reading sync.WaitGroup
		reading.Go(func() {
			for range a.events {
			}
		})
		known := lastMessages(t, a.url)
		for n := range writers {
			if got, want := known[fmt.Sprint("job-", n)], confirmed[n].Load(); got < want {
				t.Errorf("job-%d: report %d was confirmed, and the next agent knows %d", n, want, got)
			}
		}
		if n == kills {
			break // the last agent was asked
		}
		var writing sync.WaitGroup
		for n := range writers {
			writing.Go(func() {
				for i := confirmed[n].Load() + 1; ; i++ {
					res, err := http.Post(fmt.Sprintf("%s/push/0123456789abcdef-%d?message=%d", a.url, n, i), "", nil)
					if err != nil {
						return // it was killed
					}
					_ = res.Body.Close()
					if res.StatusCode == http.StatusOK {
						confirmed[n].Store(i)
					}
				}
			})
		}
		time.Sleep(50*time.Millisecond + rand.N(200*time.Millisecond))
		_ = a.cmd.Process.Kill()
		_ = a.cmd.Wait()
		writing.Wait()
		reading.Wait()
	}
	for n := range writers {
		total += int(confirmed[n].Load())
	}
	if total < kills*writers {
		t.Errorf("only %d reports were confirmed", total)
	}
	t.Logf("%d kills, %d reports confirmed", kills, total)
}

// lastMessages returns the numbers in the last reports that an agent knows, by the names of pushes.
func lastMessages(t *testing.T, url string) map[string]int64 {
	t.Helper()
	res, err := http.Get(url + "/api/v1/endpoints?type=push")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var list api.EndpointList
	if err := json.NewDecoder(res.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	known := make(map[string]int64)
	for _, e := range list.Items {
		known[e.Name], _ = strconv.ParseInt(e.Push.Message, 10, 64)
	}
	return known
}
