package agent_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/pods/local/manifest"
)

const bannerModule = `modules:
  banner: {prober: tcp, tcp: {query_response: [{expect: "^220"}]}}
`

// bannerPod returns a pod whose probe needs a plugin.
func bannerPod(port int) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: mail
  annotations:
    prober.dev/probes: |
      smtp:
        readiness:
          plugin: {name: expect, target: {port: %d}, config: {queryResponse: [{expect: "^220"}]}}
          periodSeconds: 3600
          timeoutSeconds: 60
          failureThreshold: 1
spec: {containers: [{name: smtp}]}
`, port)
}

// Loading the plugin blocks until the test has checked the agent without it. In the bubble, Wait returns when
// all goroutines are blocked: an agent that did not wait for the plugin would have been created by then.
func TestNewWaitsForReferencedPlugins(t *testing.T) {
	for name, c := range map[string]struct{ pod, modules string }{
		"by a module": {idlePod, bannerModule}, "by a probe": {bannerPod(25), "modules: {}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				pod, modules := filepath.Join(dir, "pod.yaml"), filepath.Join(dir, "blackbox.yml")
				write(t, pod, c.pod)
				write(t, modules, c.modules)
				var scans atomic.Int32
				loads := make(chan struct{})
				source := &files{Source: manifest.Source{Paths: []string{pod}, System: runtime.GOOS}}
				cfg := agent.Config{
					Source: source.open, Listen: "127.0.0.1:0", BlackboxConfig: modules,
					Configured: func(*config.Agent) {
						if scans.Add(1) > 1 { // the first scan covers all plugins; later ones the plugin being loaded
							<-loads
						}
					},
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				stop := errors.New("the test has seen enough")
				var made *agent.Agent
				var err error
				var making sync.WaitGroup
				isMade := make(chan struct{})
				making.Go(func() {
					made, err = agent.New(ctx, cfg)
					close(isMade)
				})
				synctest.Wait()
				select {
				case <-isMade:
					t.Errorf("the agent is ready before its plugin was loaded: %v", err)
				default:
				}
				if scans.Load() < 2 {
					t.Errorf("no plugin is being loaded after %d scans", scans.Load())
				}
				cancel(stop)
				close(loads)
				making.Wait()
				if made != nil {
					_ = made.Run(ctx) // closes it
				} else if !errors.Is(err, stop) {
					t.Errorf("got %v, want %v", err, stop)
				}
			})
		})
	}
}

// The first attempts with a plugin that was never compiled succeed for a healthy target: no attempt fails, or
// is made before the plugin is loaded.
func TestFirstAttemptsWithUncompiledPluginSucceed(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // an empty compilation cache
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("220 ready\r\n"))
			_ = c.Close()
		}
	})
	t.Cleanup(func() { _ = l.Close(); serving.Wait() })
	modules := filepath.Join(t.TempDir(), "blackbox.yml")
	write(t, modules, bannerModule)
	r := start(t, bannerPod(l.Addr().(*net.TCPAddr).Port), func(c *agent.Config) { c.BlackboxConfig = modules })
	_, body := r.do("GET", "/probe?module=banner&debug=true&target="+l.Addr().String())
	if !strings.Contains(body, "\nprobe_success 1\n") {
		t.Errorf("the first scrape: %s", body)
	}
	r.lines.await(t, 0, "smtp", "readiness", "success")
	var list struct{ Items []api.ProbeStatus }
	r.get("/api/v1/probes", &list)
	if len(list.Items) != 1 {
		t.Fatalf("got %d probes", len(list.Items))
	}
	p := list.Items[0]
	if len(p.History) != 1 || p.Last == nil || p.Last.Result != "success" || p.Last.Error != "" || p.Last.Attempts != 1 {
		t.Errorf("the first tick: %+v, history %+v", p.Last, p.History)
	}
}
