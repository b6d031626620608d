//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

const rulesDir = "../../deploy/prometheus"

// webhook receives the notifications of an Alertmanager.
type webhook struct {
	*httptest.Server
	mu  sync.Mutex
	all []notified
}

// notified is an alert of a notification.
type notified struct {
	Status              string
	Labels, Annotations map[string]string
}

func newWebhook(t *testing.T) *webhook {
	h := new(webhook)
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Alerts []notified }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.all = append(h.all, body.Alerts...)
	}))
	t.Cleanup(h.Close)
	return h
}

// last returns the last notification about an alert of a pod; nil if there is none.
func (h *webhook) last(alert, pod string) *notified {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range slices.Backward(h.all) {
		if n.Labels["alertname"] == alert && n.Labels["pod"] == pod {
			return &n
		}
	}
	return nil
}

// prometheus is a real server.
type prometheus struct {
	t       *testing.T
	address string
}

// query returns the current series of an expression.
func (p *prometheus) query(expr string) (series []json.RawMessage) {
	p.t.Helper()
	var body struct {
		Status, Error string
		Data          struct{ Result json.RawMessage }
	}
	text := get(p.t, p.address, "/api/v1/query?"+url.Values{"query": {expr}}.Encode())
	if err := json.Unmarshal([]byte(text), &body); err != nil || body.Status != "success" {
		p.t.Fatalf("%s: %v %s", expr, err, text)
	}
	if json.Unmarshal(body.Data.Result, &series) != nil {
		p.t.Fatalf("%s: %s", expr, text)
	}
	return series
}

func (p *prometheus) await(expr string) {
	p.t.Helper()
	await(p.t, expr, func() bool { return len(p.query(expr)) > 0 })
}

// file writes a file into a new folder, and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// startPrometheus starts a Prometheus with the rules of deploy/prometheus, and an Alertmanager that notifies
// hook. Alerts fire after two seconds. Both have an interval of one second.
func startPrometheus(t *testing.T, hook string, agents ...string) *prometheus {
	t.Helper()
	alertmanager, address := freeAddress(t), freeAddress(t)
	listening(t, alertmanager, exec.Command("prometheus-alertmanager", "--cluster.listen-address=", "--web.listen-address="+alertmanager,
		"--storage.path="+t.TempDir(), "--config.file="+file(t, "alertmanager.yml", fmt.Sprintf(`
route: {receiver: test, group_by: [alertname, pod], group_wait: 0s, group_interval: 1s}
receivers: [{name: test, webhook_configs: [{url: %q, send_resolved: true}]}]
`, hook))))
	rules, err := os.ReadFile(filepath.Join(rulesDir, "prober.rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	quick := regexp.MustCompile(`(?m)^    for: .*$`).ReplaceAllString(string(rules), "    for: 2s")
	listening(t, address, exec.Command("prometheus", "--web.listen-address="+address, "--storage.tsdb.path="+t.TempDir(),
		"--enable-feature=native-histograms", "--config.file="+file(t, "prometheus.yml", fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s}
scrape_configs: [{job_name: prober, static_configs: [{targets: [%s]}]}]
alerting: {alertmanagers: [{static_configs: [{targets: [%q]}]}]}
rule_files: [%q]
`, strings.Join(agents, ", "), alertmanager, file(t, "prober.rules.yaml", quick)))))
	await(t, "Prometheus to be ready", func() bool {
		return strings.Contains(get(t, address, "/-/ready"), "is Ready")
	})
	return &prometheus{t, address}
}

// agent starts `prober run` with args, and returns its address.
func agent(t *testing.T, args ...string) string {
	t.Helper()
	address := freeAddress(t)
	args = append([]string{"run", "--listen", address, "--plugins", filepath.Join(bin, "plugins"), "--socket", filepath.Join(t.TempDir(), "s")}, args...)
	listening(t, address, exec.Command(filepath.Join(bin, "prober"), args...))
	return address
}

// monitored has pods and targets that provide data for all panels of the dashboard.
func monitored(t *testing.T, port string) (pods, config string) {
	pods = file(t, "pods.yaml", strings.ReplaceAll(`
apiVersion: v1
kind: Pod
metadata:
  name: shop
  annotations:
    prober.dev/probes: |
      web:
        readiness: {httpGet: {path: /, port: PORT}, period: 200ms, timeout: 5s, failureThreshold: 2}
        liveness: {httpGet: {path: /, port: PORT}, paused: true}
spec: {containers: [{name: web}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: queue
  annotations:
    prober.dev/probes: |
      web:
        readiness: {plugin: {name: httpjson, target: {port: PORT}, config: {path: /status, field: depth, fail: {max: 9}}}, period: 500ms, timeout: 5s}
spec: {containers: [{name: web}]}
---
apiVersion: v1
kind: Pod
metadata: {name: batch}
spec: {containers: [{name: job, command: [sh, -c, "sleep 1; exit 1"]}]}
`, "PORT", port))
	config = file(t, "prober.yaml", strings.ReplaceAll(`
apiVersion: prober.dev/v1
kind: AgentConfig
targets: [{name: web, probe: {httpGet: {path: /status, port: PORT}, period: 1s}, static: ["127.0.0.1:PORT"]}]
slo: [{name: shop, match: [{pod: shop}], objective: 99.9, window: 30d}]
`, "PORT", port))
	return pods, config
}

// TestPrometheusScrapesAndAlerts scrapes two agents with a real Prometheus, one with native histograms. A
// probe fails and recovers, and a real Alertmanager must notify of both.
func TestPrometheusScrapesAndAlerts(t *testing.T) {
	t.Parallel()
	var status atomic.Int32
	status.Store(http.StatusOK)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			w.WriteHeader(int(status.Load()))
		}
		fmt.Fprint(w, `{"depth": 7}`)
	}))
	defer target.Close()
	_, port, _ := net.SplitHostPort(target.Listener.Addr().String())
	pods, config := monitored(t, port)
	native := agent(t, "-f", pods, "--config", config, "--metrics-buckets", "native", "--restart-backoff", "1s")
	classic := agent(t, "-f", file(t, "pod.yaml", strings.Split(must(os.ReadFile(pods)), "---")[0]))
	hook := newWebhook(t)
	p := startPrometheus(t, hook.URL, native, classic)

	p.await(fmt.Sprintf(`prober_probe_state{instance=%q,pod="shop",kind="readiness",state="success"} == 1`, native))
	p.await(fmt.Sprintf(`prober_ready{instance=%q,pod="shop"} == 1`, native))
	of := fmt.Sprintf(`{instance=%q,pod="shop",probe_type="Readiness"}`, native)
	p.await(`histogram_count(prober_probe_duration_seconds` + of + `) > 0`)
	p.await(`histogram_quantile(0.99, rate(prober_probe_duration_seconds` + of + `[5m])) > 0`)
	if series := p.query(`prober_probe_duration_seconds_bucket{instance="` + native + `"}`); len(series) > 0 {
		t.Errorf("the native histograms have classic buckets: %s", series)
	}
	p.await(fmt.Sprintf(`prober_probe_duration_seconds_bucket{instance=%q,le="+Inf"} > 0`, classic))
	for _, address := range []string{native, classic} {
		check := exec.Command("promtool", "check", "metrics")
		check.Stdin = strings.NewReader(get(t, address, "/metrics"))
		if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("promtool check metrics: %v\n%s", err, out)
		}
	}

	status.Store(http.StatusServiceUnavailable)
	await(t, "ProberProbeFailing to fire", func() bool {
		n := hook.last("ProberProbeFailing", "shop")
		return n != nil && n.Status == "firing"
	})
	n := hook.last("ProberProbeFailing", "shop")
	if n.Annotations["summary"] != "The readiness probe of default/shop/web fails." || n.Labels["severity"] != "warning" {
		t.Errorf("the alert is %+v", n)
	}
	p.await(`prober_probe_failures_total{pod="shop",reason="http_status"} > 0`)
	checkDashboard(t, p)

	status.Store(http.StatusOK)
	await(t, "ProberProbeFailing to end", func() bool {
		n := hook.last("ProberProbeFailing", "shop")
		return n != nil && n.Status == "resolved"
	})
	if n := hook.last("ProberProbeFailing", "queue"); n != nil {
		t.Errorf("a probe that did not fail: %+v", n)
	}
}

// must returns the text of a file.
func must(text []byte, err error) string {
	if err != nil {
		panic(err)
	}
	return string(text)
}

// checkDashboard waits until each query of the dashboard has data.
func checkDashboard(t *testing.T, p *prometheus) {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(must(os.ReadFile(filepath.Join(rulesDir, "dashboard.json")))), &dashboard); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$__rate_interval", "5m", "$job", ".*", "$instance", ".*", "$namespace", ".*", "$pod", ".*")
	queries := 0
	for _, panel := range dashboard.Panels {
		for _, q := range panel.Targets {
			queries++
			p.await(variables.Replace(q.Expr))
		}
	}
	if queries < 20 {
		t.Errorf("%d queries", queries)
	}
}

func TestPromtoolAcceptsTheRules(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"check", "rules", "prober.rules.yaml"}, {"test", "rules", "prober.rules_test.yaml"}} {
		cmd := exec.Command("promtool", args...)
		cmd.Dir = rulesDir
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "SUCCESS") {
			t.Errorf("%v: %v\n%s", cmd.Args, err, out)
		}
	}
	config := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(must(os.ReadFile(filepath.Join(rulesDir, "README.md"))))
	if config == nil {
		t.Fatal("README.md has no configuration of a scrape")
	}
	path := file(t, "prometheus.yml", config[1])
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "prober.rules.yaml"), []byte(must(os.ReadFile(filepath.Join(rulesDir, "prober.rules.yaml")))), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("promtool", "check", "config", path).CombinedOutput(); err != nil || !strings.Contains(string(out), "rules found") {
		t.Errorf("the configuration of README.md: %v\n%s", err, out)
	}
}
