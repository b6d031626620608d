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

// scrapes starts an agent with a blackbox_exporter file.
func scrapes(t *testing.T, modules string, change ...func(*agent.Config)) *running {
	t.Helper()
	file := filepath.Join(t.TempDir(), "blackbox.yml")
	write(t, file, modules)
	return start(t, idlePod, append([]func(*agent.Config){func(c *agent.Config) { c.BlackboxConfig = file }}, change...)...)
}

// Any client of /probe chooses the target, so some targets must be refused.
func TestScrapeCannotReachMetadataOrOwnListener(t *testing.T) {
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

func TestScrapeNeedsToken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "scrape.token"), "correct-horse-battery\n")
	config := filepath.Join(dir, "prober.yaml")
	write(t, config, "apiVersion: prober.dev/v1\nkind: AgentConfig\nblackbox: {tokenFile: scrape.token}\n")
	r := scrapes(t, "modules: {tcp: {prober: tcp}}\n", func(c *agent.Config) { c.ConfigFile = config })
	const path = "/probe?module=tcp&target=127.0.0.1:1"
	for _, c := range []struct {
		client  *http.Client
		method  string
		path    string
		headers []string
		want    int
	}{
		{http.DefaultClient, "GET", path, nil, http.StatusUnauthorized},
		{http.DefaultClient, "HEAD", path, nil, http.StatusUnauthorized},
		{http.DefaultClient, "GET", path, []string{"Authorization", "Bearer wrong-horse-battery"}, http.StatusUnauthorized},
		{http.DefaultClient, "GET", path, []string{"Authorization", "Bearer correct-horse-battery"}, http.StatusOK},
		{http.DefaultClient, "GET", path, []string{"X-Prober-Token", "correct-horse-battery"}, http.StatusOK},
		{http.DefaultClient, "GET", path, []string{"Authorization", "Bearer correct-horse-battery", "Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		{http.DefaultClient, "POST", "/-/reload", []string{"Authorization", "Bearer correct-horse-battery"}, http.StatusUnauthorized},
		{http.DefaultClient, "GET", "/metrics", nil, http.StatusOK},
		{r.local, "GET", path, nil, http.StatusOK},
	} {
		if status, body := r.send(c.client, c.method, c.path, c.headers...); status != c.want {
			t.Errorf("%s %s with %q: %d %s, want %d", c.method, c.path, c.headers, status, body, c.want)
		}
	}
}

func TestScrapeTargetsAreListed(t *testing.T) {
	t.Parallel()
	target := httptest.NewServer(http.NotFoundHandler())
	defer target.Close()
	address := strings.TrimPrefix(target.URL, "http://")
	config := filepath.Join(t.TempDir(), "prober.yaml")
	head := "apiVersion: prober.dev/v1\nkind: AgentConfig\n"
	write(t, config, head+"blackbox: {targets: [127.0.0.0/8, '*.shop.example']}\n")
	r := scrapes(t, "modules: {http: {prober: http}, tcp: {prober: tcp}, dns: {prober: dns, dns: {query_name: a}}, icmp: {prober: icmp}, grpc: {prober: grpc}}\n", func(c *agent.Config) { c.ConfigFile = config })
	ask := func(module, target string) string {
		_, body := r.do("GET", "/probe?"+url.Values{"module": {module}, "target": {target}, "debug": {"true"}}.Encode())
		return body
	}
	for _, module := range []string{"http", "tcp", "dns", "icmp", "grpc"} {
		for _, host := range []string{"192.0.2.1", "[2001:db8::1]", "localhost", "shop.example", "a.shop.example.evil.example"} {
			named := host + ":80"
			if module == "icmp" {
				named = host
			}
			if body := ask(module, named); !strings.Contains(body, "denied: blackbox.targets of prober.yaml does not list") {
				t.Errorf("%s of %s: %s", module, named, body)
			}
		}
	}
	if body := ask("tcp", address); !strings.Contains(body, "\nprobe_success 1\n") {
		t.Errorf("a listed target: %s", body)
	}
	write(t, config, head) // is applied without a restart
	r.do("POST", "/-/reload")
	if body := ask("tcp", strings.Replace(address, "127.0.0.1", "localhost", 1)); strings.Contains(body, "does not list") {
		t.Errorf("without a list: %s", body)
	}
}

// The plugins of modules are compiled before the agent listens, so that the first scrape of a healthy target
// does not wait.
func TestPluginsOfModulesAreLoadedBeforeFirstScrape(t *testing.T) {
	t.Parallel()
	r := scrapes(t, `modules:
  banner: {prober: tcp, tcp: {query_response: [{expect: "^SSH"}]}}
  body: {prober: http, http: {fail_if_body_not_matches_regexp: [fine]}}
  dns: {prober: dns, dns: {query_name: a.test}}
`)
	all := r.pluginsByName()
	for _, name := range []string{"expect", "httpcheck", "dns"} {
		if p := all[name]; p.State != "running" || p.Digest == "" || p.Idle == 0 {
			t.Errorf("%s when the agent answers: %+v", name, p)
		}
	}
}
