package main

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/daeace23/prober/internal/doctest"
)

const blackboxPage = "../../docs/migration/blackbox_exporter.md"

// TestBlackboxExporterPage runs an agent with the files of the page, whose hosts are servers of this test. It
// applies the scrape job to the targets, and checks that the expressions of the page select series.
func TestBlackboxExporterPage(t *testing.T) {
	t.Parallel()
	shop := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	shop.Config.ErrorLog = log.New(io.Discard, "", 0) // of attempts that time out
	shop.StartTLS()
	t.Cleanup(shop.Close)
	shopAddress := shop.Listener.Addr().String()
	cmdb := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `[{"targets":["https://%s/login"]},{"targets":["http://192.0.2.1"],"labels":{"env":"dev"}}]`, shopAddress)
	}))
	t.Cleanup(cmdb.Close)
	here := strings.NewReplacer("shop.example", shopAddress, "cmdb.example", cmdb.Listener.Addr().String(), "bastion.example:22", greet(t, "SSH-2.0-test\r\n"))
	dir := t.TempDir()
	files := doctest.Files(t, blackboxPage)
	files["ca.pem"] = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: shop.Certificate().Raw}))
	for name, text := range files {
		files[name] = here.Replace(text)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(files[name]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := startAgent(t, []string{"SSL_CERT_FILE=" + filepath.Join(dir, "ca.pem")},
		"--config", filepath.Join(dir, "prober.yaml"), "--blackbox-config", filepath.Join(dir, "blackbox.yml"))
	succeed(t, a, 4)

	var scraped string
	for _, at := range scrapes(t, strings.ReplaceAll(files["prometheus.yml"], "127.0.0.1:9115", strings.TrimPrefix(a.url, "http://")), files["targets.json"]) {
		scraped = body(t, at)
		if !strings.Contains(scraped, "\nprobe_success 1\n") || !strings.Contains(scraped, "\nprobe_unknown 0\n") {
			t.Errorf("%s:\n%s", at, scraped)
		}
	}
	metrics := body(t, a.url+"/metrics")
	checkSelectors(t, scraped+metrics, files["rules.yaml"])
	page, err := os.ReadFile(blackboxPage)
	if err != nil {
		t.Fatal(err)
	}
	for _, expr := range regexp.MustCompile("(?s)```promql\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		checkSelectors(t, metrics, expr[1])
	}
	rows := regexp.MustCompile("(?m)^\\| (`probe_[a-z].*?) \\| (.*) \\|$").FindAllStringSubmatch(string(page), -1)
	for _, row := range rows {
		if !strings.Contains(row[2], "not there") {
			checkSelectors(t, scraped, row[1])
			checkSelectors(t, metrics, row[2])
		}
	}
	if len(rows) < 5 {
		t.Errorf("the page has %d rows about metrics", len(rows))
	}
}

// greet returns the address of a server that greets with a line.
func greet(t *testing.T, line string) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, line)
			_ = conn.Close()
		}
	}()
	return listener.Addr().String()
}

// succeed waits until the probes of that many pods have succeeded.
func succeed(t *testing.T, a *agentProcess, pods int) {
	t.Helper()
	succeeded := make(map[string]bool)
	deadline := time.After(patience)
	for len(succeeded) < pods {
		select {
		case e, ok := <-a.events:
			if !ok {
				t.Fatal("the stream has ended")
			}
			var p struct{ Pod, Result string }
			if err := json.Unmarshal(e.data, &p); err != nil {
				t.Fatal(err)
			}
			if e.name == "probe" && p.Result == "success" {
				succeeded[p.Pod] = true
			}
		case <-deadline:
			t.Fatalf("only %v have succeeded", succeeded)
		}
	}
}

// scrapes returns the URLs that the jobs of a Prometheus scrape for targets.
func scrapes(t *testing.T, config, targets string) (urls []string) {
	t.Helper()
	var prometheus struct {
		Jobs []struct {
			Path    string              `json:"metrics_path"`
			Params  map[string][]string `json:"params"`
			Relabel []struct {
				Sources     []string `json:"source_labels"`
				Target      string   `json:"target_label"`
				Replacement string   `json:"replacement"`
			} `json:"relabel_configs"`
		} `json:"scrape_configs"`
	}
	var list []struct{ Targets []string }
	if err := yaml.Unmarshal([]byte(config), &prometheus); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(targets), &list); err != nil {
		t.Fatal(err)
	}
	for _, job := range prometheus.Jobs {
		for _, target := range list[0].Targets {
			labels := map[string]string{"__address__": target}
			for _, r := range job.Relabel {
				labels[r.Target] = r.Replacement
				if len(r.Sources) == 1 {
					labels[r.Target] = labels[r.Sources[0]]
				}
			}
			query := url.Values(job.Params)
			query.Set("target", labels["__param_target"])
			urls = append(urls, "http://"+labels["__address__"]+job.Path+"?"+query.Encode())
			if labels["instance"] != target {
				t.Errorf("the label instance of %s is %q", target, labels["instance"])
			}
		}
	}
	if len(urls) == 0 {
		t.Error("no target is scraped")
	}
	return urls
}

func body(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v", url, res.Status, err)
	}
	return string(text)
}

var (
	selector = regexp.MustCompile(`\b(prober?_[a-z_]*[a-z])(\{[^}]*\})?`)
	matcher  = regexp.MustCompile(`[a-z_]+="[^"]*"`)
)

// checkSelectors checks that each selector in text selects a series of samples. It skips placeholders with X,
// such as metric="X".
func checkSelectors(t *testing.T, samples, text string) {
	t.Helper()
	for _, m := range selector.FindAllStringSubmatch(text, -1) {
		series := `(?m)^` + m[1] + `[ {]`
		if m[2] == "" || strings.Contains(m[2], `"X"`) {
			if !regexp.MustCompile(series).MatchString(samples) {
				t.Errorf("there is no %s", m[1])
			}
			continue
		}
		found := false
		for _, line := range regexp.MustCompile(series+".*").FindAllString(samples, -1) {
			all := true
			for _, label := range matcher.FindAllString(m[2], -1) {
				all = all && (strings.Contains(line, "{"+label) || strings.Contains(line, ","+label))
			}
			found = found || all
		}
		if !found {
			t.Errorf("no series is selected by %s", m[0])
		}
	}
}
