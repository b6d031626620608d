package agent_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/agent"
)

const idlePod = "apiVersion: v1\nkind: Pod\nmetadata: {name: idle}\nspec: {containers: [{name: none}]}\n"

// scrapes starts an agent with that file of blackbox_exporter.
func scrapes(t *testing.T, modules string, change ...func(*agent.Config)) *running {
	t.Helper()
	file := filepath.Join(t.TempDir(), "blackbox.yml")
	write(t, file, modules)
	return start(t, idlePod, append([]func(*agent.Config){func(c *agent.Config) { c.BlackboxConfig = file }}, change...)...)
}

// Whoever may send a request to /probe chooses the target.
func TestScrapeReachesNoMetadataAndNoOwnListener(t *testing.T) {
	t.Parallel()
	r := scrapes(t, `modules:
  http: {prober: http}
  tcp: {prober: tcp}
  dns: {prober: dns, dns: {query_name: a.test, transport_protocol: tcp}}
  udp: {prober: dns, dns: {query_name: a.test}}
  icmp: {prober: icmp}
  grpc: {prober: grpc}
  grpcs: {prober: grpc, grpc: {tls: true, tls_config: {insecure_skip_verify: true}}}
`)
	own := strings.TrimPrefix(r.url, "http://")
	_, port, _ := strings.Cut(own, ":")
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.FormValue("to"), http.StatusFound)
	}))
	defer other.Close()
	to := func(target string) string { return other.URL + "/?" + url.Values{"to": {target}}.Encode() }
	const metadata, noHost, listener = "link-local or metadata address", "not the address of a host", "a listener of prober itself"
	all := []string{"http", "tcp", "dns", "udp", "grpc", "grpcs", "icmp"}
	overTCP := []string{"http", "tcp", "dns", "grpc", "grpcs"}
	for _, c := range []struct {
		modules    []string
		host, port string
		want       string
	}{
		{all, "169.254.169.254", ":80", metadata},
		{all, "[::ffff:169.254.169.254]", ":80", metadata},
		{all, "[64:ff9b::a9fe:a9fe]", ":80", metadata},
		{all, "[fe80::1]", ":80", metadata},
		{all, "[fd00:ec2::254]", ":80", metadata},
		{all, "100.100.100.200", ":80", metadata},
		{all, "0.0.0.0", ":80", noHost},
		{all, "[::]", ":80", noHost},
		{all, "224.0.0.1", ":80", noHost},
		{overTCP, "127.0.0.1", ":" + port, listener},
		{overTCP, "[::ffff:127.0.0.1]", ":" + port, listener},
		{[]string{"http"}, to("http://169.254.169.254/latest"), "", metadata},
		{[]string{"http"}, to("http://[fe80::1]/"), "", metadata},
		{[]string{"http"}, to(r.url), "", listener},
	} {
		for _, module := range c.modules {
			target := c.host + c.port
			if module == "icmp" {
				target = c.host
			}
			query := url.Values{"module": {module}, "target": {target}, "debug": {"true"}}
			status, body := r.send(http.DefaultClient, "GET", "/probe?"+query.Encode())
			if status != http.StatusOK || !strings.Contains(body, c.want) || !strings.Contains(body, "\nprobe_success 0\n") {
				t.Errorf("%s of %s: %d %s", module, target, status, body)
			}
		}
	}
}
