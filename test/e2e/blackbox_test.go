//go:build e2e

package e2e

import (
	"bufio"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// module is a probe of blackbox_exporter, and an equivalent probe of a plugin that is part of prober.
type module struct {
	name   string
	prober string // http or tcp
	yaml   string // fields of blackbox_exporter's module
	config string // config of the plugin, without url
	path   string // path of the URL
	target string // "" is the server without TLS
}

// exporters are the addresses of Debian's blackbox_exporter and of an agent with the same file of modules.
type exporters struct{ blackbox, prober string }

// blackbox starts both with modules.
func blackbox(t *testing.T, modules []module) exporters {
	t.Helper()
	return blackboxWithin(t, "10s", modules)
}

// blackboxWithin is like blackbox, with a timeout.
func blackboxWithin(t *testing.T, timeout string, modules []module) exporters {
	t.Helper()
	var text strings.Builder
	text.WriteString("modules:\n")
	for _, m := range modules {
		fields := m.yaml
		if fields == "" {
			fields = "{}"
		}
		fmt.Fprintf(&text, "  %s: {prober: %s, timeout: %s, %s: %s}\n", m.name, m.prober, timeout, m.prober, fields)
	}
	file := filepath.Join(t.TempDir(), "blackbox.yml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	x := exporters{blackbox: freeAddress(t), prober: freeAddress(t)}
	listening(t, x.blackbox, exec.Command("prometheus-blackbox-exporter", "--config.file", file, "--web.listen-address", x.blackbox))
	listening(t, x.prober, exec.Command(filepath.Join(bin, "prober"), "run", "--blackbox-config", file, "--listen", x.prober, "--socket", filepath.Join(t.TempDir(), "s")))
	return x
}

// serial matches the label with a certificate's serial number, which blackbox_exporter has since 0.25.
var serial = regexp.MustCompile(`,serialnumber="[^"]*"`)

var sample = regexp.MustCompile(`^probe_([a-z_]+)(\{[^}]*\})? (\S+)$`)

// askBlackbox returns the metrics of one probe, and whether it succeeded.
func askBlackbox(t *testing.T, address, name, target string) (metrics map[string]float64, success bool) {
	t.Helper()
	resp, err := http.Get("http://" + address + "/probe?" + url.Values{"module": {name}, "target": {target}}.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	metrics = map[string]float64{}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		m := sample.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		value, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			t.Fatal(err)
		}
		switch m[1] {
		case "success":
			success = value == 1
		case "duration_seconds": // the duration of the tick, which prober has for every probe
		case "warning", "unknown": // only prober has them
		default:
			metrics[m[1]+serial.ReplaceAllString(m[2], "")] = value
		}
	}
	return metrics, success
}

// askPlugin does the same with a plugin.
func askPlugin(t *testing.T, plugin, target, config string) (metrics map[string]float64, success bool, output string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "prober"), "probe", "plugin", plugin, "--target", target, "--config", config, "--timeout", "15s", "-o", "json")
	text, err := cmd.Output()
	if len(text) == 0 {
		t.Fatalf("%s: %v", config, err)
	}
	var v struct {
		Result, Output string
		Metrics        []struct {
			Name   string
			Value  float64
			Labels map[string]string
		}
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	metrics = map[string]float64{}
	for _, m := range v.Metrics {
		delete(m.Labels, "serialnumber")
		var labels []string
		for _, name := range slices.Sorted(maps.Keys(m.Labels)) {
			labels = append(labels, fmt.Sprintf("%s=%q", name, m.Labels[name]))
		}
		series := m.Name
		if len(labels) > 0 {
			series += "{" + strings.Join(labels, ",") + "}"
		}
		metrics[series] = m.Value
	}
	return metrics, v.Result == "success", v.Output
}

// compare compares a scrape of blackbox_exporter with a scrape of an agent and with a plugin. It compares
// only the names of durations.
func compare(t *testing.T, x exporters, m module, target, pluginTarget, plugin, config string) {
	t.Helper()
	want, wantSuccess := askBlackbox(t, x.blackbox, m.name, target)
	scraped, scrapedSuccess := askBlackbox(t, x.prober, m.name, target)
	got, success, output := askPlugin(t, plugin, pluginTarget, config)
	for _, all := range []map[string]float64{want, scraped, got} {
		for series := range all {
			if strings.Contains(series, "duration_seconds") || strings.Contains(series, "lookup_time_seconds") {
				all[series] = 0
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || success != wantSuccess {
		t.Errorf("%s: success %t, blackbox_exporter %t; output %q; (-blackbox_exporter +prober)\n%s", m.name, success, wantSuccess, output, diff)
	}
	if diff := cmp.Diff(want, scraped); diff != "" || scrapedSuccess != wantSuccess {
		t.Errorf("%s: success of a scrape %t, blackbox_exporter %t; (-blackbox_exporter +prober)\n%s", m.name, scrapedSuccess, wantSuccess, diff)
	}
}

// chain returns a certificate for 127.0.0.1 by an intermediate authority, and the root in PEM.
func chain(t *testing.T) (leaf tls.Certificate, root string) {
	t.Helper()
	make := func(name string, parent *x509.Certificate, by *ecdsa.PrivateKey, days int) (*x509.Certificate, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		c := &x509.Certificate{
			SerialNumber: big.NewInt(int64(days)), Subject: pkix.Name{CommonName: name, Organization: []string{"Shop, Inc."}},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Duration(days) * 24 * time.Hour),
			IsCA: name != "leaf", BasicConstraintsValid: true,
		}
		if name == "leaf" {
			c.IPAddresses, c.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"a.test", "b.test"}
		}
		if parent == nil {
			parent, by = c, key
		}
		der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), by)
		if err == nil {
			c, err = x509.ParseCertificate(der)
		}
		if err != nil {
			t.Fatal(err)
		}
		return c, key
	}
	ca, caKey := make("root", nil, nil, 300)
	middle, middleKey := make("middle", ca, caKey, 20)
	own, key := make("leaf", middle, middleKey, 90)
	leaf = tls.Certificate{Certificate: [][]byte{own.Raw, middle.Raw}, PrivateKey: key}
	return leaf, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}))
}

// oddServer is an HTTP server whose answers depend on the path.
func oddServer() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "all is well, "+r.Method) })
	mux.HandleFunc("/status/{code}", func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.PathValue("code"))
		w.WriteHeader(code)
	})
	mux.HandleFunc("/redirect/{n}", func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.PathValue("n"))
		if n == 0 {
			io.WriteString(w, "there")
			return
		}
		http.Redirect(w, r, fmt.Sprintf("/redirect/%d", n-1), http.StatusFound)
	})
	mux.HandleFunc("/gzip", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		io.WriteString(z, strings.Repeat("plain ", 1000))
		z.Close()
	})
	mux.HandleFunc("/chunked", func(w http.ResponseWriter, r *http.Request) {
		for range 3 {
			io.WriteString(w, "part ")
			w.(http.Flusher).Flush()
		}
	})
	mux.HandleFunc("/headers", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT")
		w.Header()["X-Many"] = []string{"first", "second"}
	})
	mux.HandleFunc("/bytes", func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("a\xff\xfe\xc3b")) })
	mux.HandleFunc("/cut", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		io.WriteString(w, "half")
	})
	mux.HandleFunc("/private", func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user+":"+password != "me:secret" && r.Header.Get("Authorization") != "Bearer abc" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	return mux
}

// TestBlackboxHTTP compares httpcheck with blackbox_exporter: the metrics, their values and the verdict.
func TestBlackboxHTTP(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(oddServer())
	t.Cleanup(plain.Close)
	leaf, root := chain(t)
	secure := httptest.NewUnstartedServer(oddServer())
	secure.TLS, secure.EnableHTTP2 = &tls.Config{Certificates: []tls.Certificate{leaf}}, true
	secure.StartTLS()
	t.Cleanup(secure.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, []byte(root), 0o644); err != nil {
		t.Fatal(err)
	}
	trusted := fmt.Sprintf("tls_config: {ca_file: %s}", ca)
	pemText, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	trusts := fmt.Sprintf(`"tlsConfig":{"ca":%s}`, pemText)
	modules := []module{
		{name: "ok", path: "/ok"},
		{name: "post", path: "/ok", yaml: "{method: POST, body: x, headers: {X-A: b}}", config: `"method":"POST","body":"x","headers":{"X-A":"b"}`},
		{name: "status404", path: "/status/404"},
		{name: "status204", path: "/status/204"},
		{name: "valid404", path: "/status/404", yaml: "{valid_status_codes: [404]}", config: `"validStatusCodes":[404]`},
		{name: "redirects", path: "/redirect/3"},
		{name: "manyredirects", path: "/redirect/11"},
		{name: "tenredirects", path: "/redirect/10"},
		{name: "noredirects", path: "/redirect/1", yaml: "{follow_redirects: false}", config: `"followRedirects":false`},
		{name: "noredirects302", path: "/redirect/1", yaml: "{follow_redirects: false, valid_status_codes: [302]}", config: `"followRedirects":false,"validStatusCodes":[302]`},
		{name: "gzip", path: "/gzip", yaml: "{compression: gzip}", config: `"compression":"gzip"`},
		{name: "notgzip", path: "/ok", yaml: "{compression: gzip}", config: `"compression":"gzip"`},
		{name: "gzipasis", path: "/gzip"},
		{name: "chunked", path: "/chunked"},
		{name: "limit", path: "/chunked", yaml: "{body_size_limit: 8B}", config: `"bodySizeLimit":8`},
		{name: "lastmodified", path: "/headers"},
		{name: "headermatch", path: "/headers", yaml: "{fail_if_header_matches: [{header: X-Many, regexp: ^second$}]}", config: `"failIfHeaderMatches":[{"header":"X-Many","regexp":"^second$"}]`},
		{name: "headerneed", path: "/headers", yaml: "{fail_if_header_not_matches: [{header: X-Many, regexp: ^second$}]}", config: `"failIfHeaderNotMatches":[{"header":"X-Many","regexp":"^second$"}]`},
		{name: "headermissing", path: "/headers", yaml: "{fail_if_header_not_matches: [{header: X-None, regexp: x}]}", config: `"failIfHeaderNotMatches":[{"header":"X-None","regexp":"x"}]`},
		{name: "headerallowed", path: "/headers", yaml: "{fail_if_header_matches: [{header: X-None, regexp: x, allow_missing: true}]}", config: `"failIfHeaderMatches":[{"header":"X-None","regexp":"x","allowMissing":true}]`},
		{name: "body", path: "/ok", yaml: "{fail_if_body_matches_regexp: [bad, w.ll]}", config: `"failIfBodyMatchesRegexp":["bad","w.ll"]`},
		{name: "needbody", path: "/ok", yaml: "{fail_if_body_not_matches_regexp: [\"^all\"]}", config: `"failIfBodyNotMatchesRegexp":["^all"]`},
		{name: "neednobody", path: "/ok", yaml: "{fail_if_body_not_matches_regexp: [\"^none\"]}", config: `"failIfBodyNotMatchesRegexp":["^none"]`},
		{name: "bytes", path: "/bytes", yaml: "{fail_if_body_not_matches_regexp: [\"^a...b$\"]}", config: `"failIfBodyNotMatchesRegexp":["^a...b$"]`},
		{name: "cut", path: "/cut"},
		{name: "version", path: "/ok", yaml: "{valid_http_versions: [HTTP/2.0]}", config: `"validHTTPVersions":["HTTP/2.0"]`},
		{name: "basic", path: "/private", yaml: "{basic_auth: {username: me, password: secret}}", config: `"basicAuth":{"username":"me","password":"secret"}`},
		{name: "bearer", path: "/private", yaml: "{bearer_token: abc}", config: `"bearerToken":"abc"`},
		{name: "noauth", path: "/private"},
		{name: "needssl", path: "/ok", yaml: "{fail_if_not_ssl: true}", config: `"failIfNotSSL":true`},
		{name: "ip4", path: "/ok", yaml: "{preferred_ip_protocol: ip4}", config: `"preferredIpProtocol":"ip4"`},
		{name: "tls", path: "/ok", yaml: "{" + trusted + "}", config: trusts, target: secure.URL},
		{name: "tls11", path: "/ok", yaml: "{enable_http2: false, " + trusted + "}", config: `"enableHttp2":false,` + trusts, target: secure.URL},
		{name: "tlsmax", path: "/ok", yaml: "{tls_config: {insecure_skip_verify: true, max_version: TLS12}}", config: `"tlsConfig":{"insecureSkipVerify":true,"maxVersion":"TLS12"}`, target: secure.URL},
		{name: "tlsbad", path: "/ok", target: secure.URL},
		{name: "nossl", path: "/ok", yaml: "{fail_if_ssl: true, " + trusted + "}", config: `"failIfSSL":true,` + trusts, target: secure.URL},
		{name: "refused", path: "/ok", target: "http://" + freeAddress(t)},
	}
	for i := range modules {
		modules[i].prober = "http"
	}
	exporter := blackbox(t, modules)
	for _, m := range modules {
		base := m.target
		if base == "" {
			base = plain.URL
		}
		scheme, host, _ := strings.Cut(base, "://")
		config := fmt.Sprintf(`{"url":"%s://%s"`, scheme, m.path)
		if m.config != "" {
			config += "," + m.config
		}
		compare(t, exporter, m, base+m.path, host, "httpcheck", config+"}")
	}
}

// TestBlackboxTCP compares expect with blackbox_exporter.
func TestBlackboxTCP(t *testing.T) {
	t.Parallel()
	leaf, root := chain(t)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, []byte(root), 0o644); err != nil {
		t.Fatal(err)
	}
	pemText, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	serve := func(talk func(net.Conn)) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() { defer c.Close(); talk(c) }()
			}
		}()
		return l.Addr().String()
	}
	config := &tls.Config{Certificates: []tls.Certificate{leaf}}
	mail := serve(func(c net.Conn) {
		fmt.Fprint(c, "220-mx1.test\r\n220 ready\r\n")
		for lines := bufio.NewScanner(c); lines.Scan(); {
			switch lines.Text() {
			case "EHLO ready":
				fmt.Fprint(c, "250-SIZE\r\n250 STARTTLS\r\n")
			case "STARTTLS":
				fmt.Fprint(c, "220 go\r\n")
				secured := tls.Server(c, config)
				fmt.Fprint(secured, "secret\n")
				return
			default:
				fmt.Fprint(c, "500 no\r\n")
				return
			}
		}
	})
	secure := serve(func(c net.Conn) { fmt.Fprint(tls.Server(c, config), "hello over TLS\n") })
	talk := `[{expect: "^220 (.*)$", send: "EHLO ${1}"}, {expect: "^250[ -]STARTTLS"}, {send: STARTTLS}, {expect: "^220", starttls: true}, {expect: secret}]`
	talkJSON := `[{"expect":"^220 (.*)$","send":"EHLO ${1}"},{"expect":"^250[ -]STARTTLS"},{"send":"STARTTLS"},{"expect":"^220","starttls":true},{"expect":"secret"}]`
	trusted := fmt.Sprintf("tls_config: {ca_file: %s}", ca)
	trusts := fmt.Sprintf(`"tlsConfig":{"ca":%s}`, pemText)
	modules := []module{
		{name: "connect", target: mail},
		{name: "greeting", target: mail, yaml: `{query_response: [{expect: "^220 "}]}`, config: `"queryResponse":[{"expect":"^220 "}]`},
		{name: "nomatch", target: mail, yaml: `{query_response: [{send: x}, {expect: "^999"}]}`, config: `"queryResponse":[{"send":"x"},{"expect":"^999"}]`},
		{name: "starttls", target: mail, yaml: "{query_response: " + talk + ", " + trusted + "}", config: `"queryResponse":` + talkJSON + "," + trusts},
		{name: "starttlsbad", target: mail, yaml: "{query_response: " + talk + "}", config: `"queryResponse":` + talkJSON},
		{name: "tls", target: secure, yaml: "{tls: true, query_response: [{expect: hello}], " + trusted + "}", config: `"tls":true,"queryResponse":[{"expect":"hello"}],` + trusts},
		{name: "tlsnoverify", target: secure, yaml: "{tls: true, tls_config: {insecure_skip_verify: true}}", config: `"tls":true,"tlsConfig":{"insecureSkipVerify":true}`},
		{name: "tlsbad", target: secure, yaml: "{tls: true}", config: `"tls":true`},
		{name: "refused", target: freeAddress(t)},
	}
	for i := range modules {
		modules[i].prober = "tcp"
	}
	exporter := blackbox(t, modules)
	for _, m := range modules {
		compare(t, exporter, m, m.target, m.target, "expect", "{"+m.config+"}")
	}
}

// TestShippedModulesAreReproducible builds two of the plugins that are part of prober, and compares the bytes; make
// check-shipped builds all.
func TestShippedModulesAreReproducible(t *testing.T) {
	t.Parallel()
	out, names := t.TempDir(), []string{"domain", "expect"} // without and with regular expressions
	cmd := exec.Command("../../handlers/shipped/build", names...)
	cmd.Env = append(os.Environ(), "OUT="+out)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, name := range names {
		got, err := os.ReadFile(filepath.Join(out, name+".wasm"))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join("../../handlers/shipped", name, name+".wasm"))
		if err != nil || string(got) != string(want) {
			t.Errorf("%s: the module differs from one that is built from its source (%v): run make plugins-shipped", name, err)
		}
	}
}

// dnsmasq starts a server that knows the domain test and refuses all others.
func dnsmasq(t *testing.T) string {
	t.Helper()
	address := freeAddress(t)
	host, port, _ := net.SplitHostPort(address)
	listening(t, address, exec.Command("dnsmasq", "--no-daemon", "--conf-file=/dev/null", "--pid-file=", "--user=nobody",
		"--port="+port, "--listen-address="+host, "--bind-interfaces", "--no-resolv", "--no-hosts", "--local=/test/", "--local-ttl=30",
		"--host-record=www.test,192.0.2.1,2001:db8::1", "--host-record=www.test,192.0.2.2", "--cname=alias.test,www.test",
		"--mx-host=test,mx.test,10", "--txt-record=test,v=spf1 mx -all", "--srv-host=_db._tcp.test,www.test,5432,0,5",
		"--ptr-record=9.2.0.192.in-addr.arpa,www.test"))
	return address
}

// TestBlackboxDNS compares dns with blackbox_exporter.
func TestBlackboxDNS(t *testing.T) {
	t.Parallel()
	server := dnsmasq(t)
	modules := []module{
		{name: "a", yaml: "query_name: www.test, query_type: A", config: `"queryName":"www.test","queryType":"A"`},
		{name: "aaaa", yaml: "query_name: www.test, query_type: AAAA", config: `"queryName":"www.test","queryType":"AAAA"`},
		{name: "any", yaml: "query_name: www.test", config: `"queryName":"www.test"`},
		{name: "tcp", yaml: "query_name: www.test, query_type: A, transport_protocol: tcp", config: `"queryName":"www.test","queryType":"A","transportProtocol":"tcp"`},
		{name: "cname", yaml: "query_name: alias.test, query_type: A", config: `"queryName":"alias.test","queryType":"A"`},
		{name: "soa", yaml: "query_name: test, query_type: SOA", config: `"queryName":"test","queryType":"SOA"`},
		{name: "norecursion", yaml: "query_name: www.test, query_type: A, recursion_desired: false", config: `"queryName":"www.test","queryType":"A","recursionDesired":false`},
		{name: "chaos", yaml: "query_name: version.bind, query_type: TXT, query_class: CH", config: `"queryName":"version.bind","queryType":"TXT","queryClass":"CH"`},
		{name: "nxdomain", yaml: "query_name: lost.test, query_type: A", config: `"queryName":"lost.test","queryType":"A"`},
		{name: "validnxdomain", yaml: "query_name: lost.test, query_type: A, valid_rcodes: [NXDOMAIN]", config: `"queryName":"lost.test","queryType":"A","validRcodes":["NXDOMAIN"]`},
		{name: "refused", yaml: "query_name: www.example.com, query_type: A", config: `"queryName":"www.example.com","queryType":"A"`},
		{name: "noserver", yaml: "query_name: www.test, query_type: A, transport_protocol: tcp", config: `"queryName":"www.test","queryType":"A","transportProtocol":"tcp"`, target: freeAddress(t)},
	}
	// Each rule with expressions that all, some and no records match, and without records.
	for field, camel := range map[string]string{
		"fail_if_matches_regexp": "failIfMatchesRegexp", "fail_if_all_match_regexp": "failIfAllMatchRegexp",
		"fail_if_not_matches_regexp": "failIfNotMatchesRegexp", "fail_if_none_matches_regexp": "failIfNoneMatchesRegexp",
	} {
		for i, expression := range []string{`["192[.]0[.]2"]`, `["192[.]0[.]2[.]2$"]`, `["10[.]0"]`, `["192[.]0", "10[.]0"]`, `["^www[.]test[.]\\t30\\tIN\\tA\\t192"]`} {
			for _, kind := range []string{"A", "MX"} {
				modules = append(modules, module{
					name:   fmt.Sprint(field, i, kind),
					yaml:   fmt.Sprintf("query_name: www.test, query_type: %s, validate_answer_rrs: {%s: %s}", kind, field, expression),
					config: fmt.Sprintf(`"queryName":"www.test","queryType":"%s","validateAnswerRrs":{"%s":%s}`, kind, camel, expression),
				})
			}
		}
	}
	for _, c := range []struct{ kind, name, text string }{
		{"AAAA", "www.test", `\\tAAAA\\t2001:db8::1$`}, {"MX", "test", `^test[.]\\t30\\tIN\\tMX\\t10 mx[.]test[.]$`}, {"TXT", "test", `\\tTXT\\t\"v=spf1 mx -all\"$`},
		{"SRV", "_db._tcp.test", `\\tSRV\\t0 5 5432 www[.]test[.]$`}, {"PTR", "9.2.0.192.in-addr.arpa", `\\tPTR\\twww[.]test[.]$`},
	} {
		modules = append(modules, module{
			name:   "text" + c.kind,
			yaml:   fmt.Sprintf(`query_name: %s, query_type: %s, validate_answer_rrs: {fail_if_not_matches_regexp: ["%s"]}`, c.name, c.kind, c.text),
			config: fmt.Sprintf(`"queryName":"%s","queryType":"%s","validateAnswerRrs":{"failIfNotMatchesRegexp":["%s"]}`, c.name, c.kind, c.text),
		})
	}
	for i := range modules {
		modules[i].prober, modules[i].yaml = "dns", "{"+modules[i].yaml+"}"
	}
	exporter := blackbox(t, modules)
	for _, m := range modules {
		target := m.target
		if target == "" {
			target = server
		}
		compare(t, exporter, m, target, target, "dns", "{"+m.config+"}")
	}
}

// sameScrape compares a scrape of blackbox_exporter with an agent's. It compares only the names of durations.
func sameScrape(t *testing.T, x exporters, module, target string) (success bool) {
	t.Helper()
	want, wantSuccess := askBlackbox(t, x.blackbox, module, target)
	got, success := askBlackbox(t, x.prober, module, target)
	for _, all := range []map[string]float64{want, got} {
		for series := range all {
			if strings.Contains(series, "duration_seconds") || strings.Contains(series, "lookup_time_seconds") {
				all[series] = 0
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || success != wantSuccess {
		t.Errorf("%s of %s: success %t, blackbox_exporter %t; (-blackbox_exporter +prober)\n%s", module, target, success, wantSuccess, diff)
	}
	return success
}

// TestBlackboxTimeouts probes targets that do not answer in time. The metrics measured until then are
// reported.
func TestBlackboxTimeouts(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			fmt.Fprint(w, "begins")
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}))
	t.Cleanup(web.Close)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	deaf, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { deaf.Close() })
	modules := []module{
		{name: "web", prober: "http"},
		{name: "banner", prober: "tcp", yaml: `{query_response: [{expect: "^SSH"}]}`},
		{name: "name", prober: "dns", yaml: `{query_name: a.test}`},
	}
	x := blackboxWithin(t, "1s", modules)
	for _, c := range []struct{ module, target string }{
		{"web", web.URL + "/hang"}, {"web", web.URL + "/body"}, {"banner", silent.Addr().String()}, {"name", deaf.LocalAddr().String()},
	} {
		if sameScrape(t, x, c.module, c.target) {
			t.Errorf("%s of %s succeeded", c.module, c.target)
		}
	}
}

// TestBlackboxOwnFiles starts agents with the default and the example file of Debian's blackbox_exporter.
// Some modules of the example name missing files.
func TestBlackboxOwnFiles(t *testing.T) {
	t.Parallel()
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }))
	t.Cleanup(target.Close)
	found := 0
	for _, path := range []string{"/etc/prometheus/blackbox.yml", "/usr/share/doc/prometheus-blackbox-exporter/examples/example.yml"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Logf("%s: %v", path, err) // packages may be installed without documents
			continue
		}
		found++
		theirs, ours := freeAddress(t), freeAddress(t)
		listening(t, theirs, exec.Command("prometheus-blackbox-exporter", "--config.file", path, "--web.listen-address", theirs))
		listening(t, ours, exec.Command(filepath.Join(bin, "prober"), "run", "--blackbox-config", path, "--listen", ours, "--socket", filepath.Join(t.TempDir(), "s")))
		for _, m := range regexp.MustCompile(`(?m)^  (\w+):\n    prober: http$`).FindAllStringSubmatch(string(text), -1) {
			if m[1] == "http_with_proxy" { // skip_resolve_phase_with_proxy
				continue
			}
			want, wantSuccess := askBlackbox(t, theirs, m[1], target.URL)
			got, success := askBlackbox(t, ours, m[1], target.URL)
			unread := m[1] == "http_custom_ca_example" // whose file is not there: prober asks nobody
			if success != wantSuccess || !unread && !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want))) {
				t.Errorf("%s of %s: success %t, %v; blackbox_exporter %t, %v", m[1], path, success, got, wantSuccess, want)
			}
		}
	}
	if found == 0 {
		t.Error("blackbox_exporter has no file of its own")
	}
}

// TestBlackboxICMP sends the same scrapes to blackbox_exporter and to prober, with one file of modules. If
// this user may not send echo requests, both must fail.
func TestBlackboxICMP(t *testing.T) {
	t.Parallel()
	const modules = `modules:
  plain: {prober: icmp, timeout: 10s}
  four: {prober: icmp, timeout: 10s, icmp: {preferred_ip_protocol: ip4}}
  fouronly: {prober: icmp, timeout: 10s, icmp: {preferred_ip_protocol: ip4, ip_protocol_fallback: false}}
  ttl: {prober: icmp, timeout: 10s, icmp: {ttl: 1}}
  small: {prober: icmp, timeout: 10s, icmp: {payload_size: 1}}
  large: {prober: icmp, timeout: 10s, icmp: {payload_size: 65000}}
  whole: {prober: icmp, timeout: 10s, icmp: {preferred_ip_protocol: ip4, dont_fragment: true, payload_size: 1400}}
  source: {prober: icmp, timeout: 10s, icmp: {preferred_ip_protocol: ip4, source_ip_address: 127.0.0.9}}
  nosource: {prober: icmp, timeout: 10s, icmp: {preferred_ip_protocol: ip4, source_ip_address: 192.0.2.1}}
`
	file := filepath.Join(t.TempDir(), "blackbox.yml")
	if err := os.WriteFile(file, []byte(modules), 0o600); err != nil {
		t.Fatal(err)
	}
	theirs, ours := freeAddress(t), freeAddress(t)
	listening(t, theirs, exec.Command("prometheus-blackbox-exporter", "--config.file", file, "--web.listen-address", theirs))
	listening(t, ours, exec.Command(filepath.Join(bin, "prober"), "run", "--blackbox-config", file, "--listen", ours, "--socket", filepath.Join(t.TempDir(), "s")))
	for _, c := range []struct{ module, target string }{
		{"plain", "127.0.0.1"}, {"plain", "::1"}, {"plain", "localhost"}, {"four", "127.0.0.1"}, {"four", "::1"},
		{"fouronly", "127.0.0.1"}, {"fouronly", "::1"}, {"ttl", "127.0.0.1"}, {"ttl", "::1"}, {"small", "127.0.0.1"}, {"large", "127.0.0.1"},
		{"large", "::1"}, {"whole", "127.0.0.1"}, {"source", "127.0.0.1"}, {"nosource", "127.0.0.1"},
	} {
		sameScrape(t, exporters{theirs, ours}, c.module, c.target)
	}
}
