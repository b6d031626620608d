package blackbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/daeace23/prober/agent/blackbox"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/probe"
)

// prepare is the Prepare function of a server.
type prepare = func(ctx context.Context, handler string, config []byte, target probe.Target) (probe.Handler, error)

// load reads a file with the given text.
func load(t *testing.T, text string) (*blackbox.File, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "blackbox.yml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := blackbox.Load(path)
	return f, err
}

// scrape sends a request to a server whose file has the given text.
func scrape(t *testing.T, text, query string, header http.Header, with prepare) *httptest.ResponseRecorder {
	t.Helper()
	f, err := load(t, text)
	if err != nil {
		t.Fatal(err)
	}
	server := blackbox.NewServer(blackbox.Config{File: func() *blackbox.File { return f }, Prepare: with})
	r := httptest.NewRequest("GET", "/probe?"+query, nil)
	maps.Copy(r.Header, header)
	w := httptest.NewRecorder()
	server.ServeHTTP(w, r)
	return w
}

// prepareOutcome returns a Prepare function whose handlers all have that outcome.
func prepareOutcome(out probe.Outcome, err error) prepare {
	return func(context.Context, string, []byte, probe.Target) (probe.Handler, error) {
		return probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) { return out, err }), nil
	}
}

// values returns the samples of a response, as NAME{LABELS}.
func values(t *testing.T, body string) map[string]float64 {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatalf("%v in\n%s", err, body)
	}
	all := make(map[string]float64)
	for name, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			key := name
			if len(labels) > 0 {
				key += "{" + strings.Join(labels, ",") + "}"
			}
			all[key] = m.GetGauge().GetValue()
		}
	}
	return all
}

func TestModulesAreConvertedToHandlers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, module, target, hostname string
		handler, config                string
		to                             probe.Target
	}{
		{"http", "{prober: http}", "example.com", "", "httpcheck", `{"url":"http:///","headers":{"Host":"example.com"}}`, probe.Target{Host: "example.com", Port: 80}},
		{"http with a path", "{prober: http}", "https://example.com:8443/a?b=c#d", "", "httpcheck", `{"url":"https:///a?b=c","headers":{"Host":"example.com:8443"}}`, probe.Target{Host: "example.com", Port: 8443}},
		{"http of IPv6", "{prober: http}", "http://[::1]:81", "", "httpcheck", `{"url":"http:///","headers":{"Host":"[::1]:81"}}`, probe.Target{Host: "::1", Port: 81}},
		{
			"hostname", "{prober: http, http: {headers: {X-Y: z}}}", "https://10.0.0.1/", "shop.example", "httpcheck",
			`{"url":"https:///","headers":{"Host":"shop.example","X-Y":"z"},"tlsConfig":{"serverName":"shop.example"}}`, probe.Target{Host: "10.0.0.1", Port: 443},
		},
		{
			"a header Host is the name of the certificate", "{prober: http, http: {headers: {host: 'shop.example:8443'}}}", "https://10.0.0.1/", "", "httpcheck",
			`{"url":"https:///","headers":{"host":"shop.example:8443"},"tlsConfig":{"serverName":"shop.example"}}`, probe.Target{Host: "10.0.0.1", Port: 443},
		},
		{
			"a server_name of its own", "{prober: http, http: {headers: {Host: a}, tls_config: {server_name: b}}}", "https://10.0.0.1/", "", "httpcheck",
			`{"url":"https:///","headers":{"Host":"a"},"tlsConfig":{"serverName":"b"}}`, probe.Target{Host: "10.0.0.1", Port: 443},
		},
		{
			"http fields", `{prober: http, timeout: 5s, http: {method: POST, body: '{}', valid_status_codes: [200, 404], valid_http_versions: ["HTTP/2.0"], body_size_limit: 10MB, compression: gzip, no_follow_redirects: true, fail_if_ssl: true,
				fail_if_body_not_matches_regexp: [ok], fail_if_header_matches: [{header: A, regexp: b, allow_missing: true}], preferred_ip_protocol: ip4, ip_protocol_fallback: false, enable_http2: false,
				basic_auth: {username: u, password: p}, tls_config: {insecure_skip_verify: true, min_version: TLS12}, proxy_url: "http://proxy:3128"}}`, "http://a", "", "httpcheck",
			`{"url":"http:///","headers":{"Host":"a"},"method":"POST","body":"{}","validStatusCodes":[200,404],"validHTTPVersions":["HTTP/2.0"],"bodySizeLimit":10485760,"compression":"gzip","followRedirects":false,"failIfSSL":true,
				"failIfBodyNotMatchesRegexp":["ok"],"failIfHeaderMatches":[{"header":"A","regexp":"b","allowMissing":true}],"preferredIpProtocol":"ip4","ipProtocolFallback":false,"enableHttp2":false,
				"basicAuth":{"username":"u","password":"p"},"tlsConfig":{"insecureSkipVerify":true,"minVersion":"TLS12"},"proxyUrl":"http://proxy:3128"}`, probe.Target{Host: "a", Port: 80},
		},
		{
			"http values as YAML's Go decoder reads them", `{<<: {prober: http, timeout: 1.5s}, http: {headers: {X-A: 1.0, X-B: yes}, fail_if_ssl: yes, follow_redirects: true, no_follow_redirects: on, body_size_limit: 1.5KB}}`, "http://a", "", "httpcheck",
			`{"url":"http:///","headers":{"Host":"a","X-A":"1.0","X-B":"yes"},"failIfSSL":true,"followRedirects":false,"bodySizeLimit":1536}`, probe.Target{Host: "a", Port: 80},
		},
		{
			"tcp", `{prober: tcp, tcp: {tls: true, query_response: [{expect: "^SSH-(.*)"}, {send: "PONG ${1}", starttls: true}], source_ip_address: 10.0.0.9}}`, "[::1]:22", "", "expect",
			`{"tls":true,"queryResponse":[{"expect":"^SSH-(.*)"},{"send":"PONG ${1}","starttls":true}],"sourceIpAddress":"10.0.0.9"}`, probe.Target{Host: "::1", Port: 22},
		},
		{
			"dns", `{prober: dns, dns: {query_name: example.com, query_type: MX, recursion_desired: false, valid_rcodes: [NOERROR], validate_answer_rrs: {fail_if_not_matches_regexp: [x]}}}`, "8.8.8.8", "", "dns",
			`{"queryName":"example.com","queryType":"MX","recursionDesired":false,"validRcodes":["NOERROR"],"validateAnswerRrs":{"failIfNotMatchesRegexp":["x"]}}`, probe.Target{Host: "8.8.8.8", Port: 53},
		},
		{"dns over TLS", `{prober: dns, dns: {query_name: a, dns_over_tls: true, transport_protocol: tcp}}`, "dns.example", "", "dns", `{"queryName":"a","dnsOverTls":true,"transportProtocol":"tcp"}`, probe.Target{Host: "dns.example", Port: 853}},
		{"icmp", `{prober: icmp, icmp: {ttl: 5, payload_size: 99, dont_fragment: true}}`, "example.com", "", "icmp", `{"ttl":5,"payloadSize":99,"dontFragment":true}`, probe.Target{Host: "example.com"}},
		{"icmp over IPv6", `{prober: icmp, icmp: {preferred_ip_protocol: ip4, ip_protocol_fallback: false, source_ip_address: 10.0.0.9}}`, "[::1]", "", "icmp", `{"preferredIpProtocol":"ip4","ipProtocolFallback":false,"sourceIpAddress":"10.0.0.9"}`, probe.Target{Host: "::1"}},
		{"grpc", `{prober: grpc, grpc: {service: s}}`, "127.0.0.1:81", "", "grpc", `{"port":81,"service":"s"}`, probe.Target{Host: "127.0.0.1", Port: 81}},
		{"grpc without a port", `{prober: grpc}`, "127.0.0.1", "", "grpc", `{"port":80}`, probe.Target{Host: "127.0.0.1", Port: 80}},
		{
			"grpc of a URL", `{prober: grpc, grpc: {tls: true, tls_config: {insecure_skip_verify: true}}}`, "https://127.0.0.1/x", "", "grpc",
			`{"port":443,"mode":"TLS"}`, probe.Target{Host: "127.0.0.1", Port: 443},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			w := scrape(t, "modules: {m: "+c.module+"}", url.Values{"module": {"m"}, "target": {c.target}, "hostname": {c.hostname}}.Encode(), nil,
				func(_ context.Context, handler string, config []byte, target probe.Target) (probe.Handler, error) {
					asked++
					var got, want map[string]any
					if err := json.Unmarshal([]byte(c.config), &want); err != nil {
						t.Fatal(err)
					}
					err := json.Unmarshal(config, &got)
					if (got["timeout"] != nil) != (handler != "grpc") {
						t.Errorf("the timeout is %v", got["timeout"])
					}
					delete(got, "timeout") // see TestTimeouts
					if err != nil || !reflect.DeepEqual(got, want) || handler != c.handler || target != c.to {
						t.Errorf("%s %s of %+v; want %s %s of %+v", handler, config, target, c.handler, c.config, c.to)
					}
					return probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
						return probe.Outcome{Result: probe.Success}, nil
					}), nil
				})
			if asked != 1 || w.Code != http.StatusOK || values(t, w.Body.String())["probe_success"] != 1 {
				t.Errorf("%d attempts, %d:\n%s", asked, w.Code, w.Body)
			}
		})
	}
}

func TestErrorsOfFilesHavePosition(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"modules: {a: {prober: http, htp: {}}}":                          "blackbox.yml:1: modules.a.htp: unknown field",
		"modules:\n  a:\n    prober: smtp":                               `blackbox.yml:3: modules.a: prober: "smtp" is unknown; known: dns, grpc, http, icmp, tcp`,
		"modules: {a: {}}":                                               "modules.a: prober: the field is required",
		"modules: {a: {prober: tcp, timeout: soon}}":                     "modules.a.timeout: ",
		"modules: {a: {prober: dns}}":                                    "modules.a: dns.query_name: the field is required",
		"modules: {a: {prober: http, http: {body_size_limit: many}}}":    "modules.a.http.body_size_limit: ",
		"modules: {a: {prober: tcp, tcp: {tls_config: {cert_file: c}}}}": "modules.a: tls_config: cert_file and key_file must be set together",
		"modules: {a: {prober: http, http: {body_size_limit: nan}}}":     "modules.a.http.body_size_limit: ",
		"mods: {}": "mods: unknown field",
	} {
		if _, err := load(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v; want %s", text, err, want)
		}
	}
}

func TestUnsupportedModules(t *testing.T) {
	t.Parallel()
	const text = "modules: {ok: {prober: tcp}, a: {prober: http, http: {oauth2: {client_id: x, token_url: y}}}, c: {prober: grpc, grpc: {tls: true, tls_config: {insecure_skip_verify: true}}}}"
	f, err := load(t, text)
	if err != nil {
		t.Fatal(err)
	}
	if u := f.Unsupported(); len(u) != 1 || u["a"] == nil {
		t.Errorf("unsupported: %v", u)
	}
	w := scrape(t, text, "module=a&target=x", nil, prepareOutcome(probe.Outcome{Result: probe.Success}, nil))
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "http.oauth2 is not supported") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestUnsupportedFields(t *testing.T) {
	t.Parallel()
	for module, want := range map[string]string{
		`{prober: http, http: {oauth2: {client_id: x, token_url: y, proxy_from_environment: true}}}`: "http.oauth2",
		`{prober: http, http: {enable_http3: true}}`:                                                 "http.enable_http3",
		`{prober: http, http: {compression: br}}`:                                                    "http.compression: br",
		`{prober: http, http: {http_headers: {X-A: {files: [a]}}}}`:                                  "http.http_headers",
		`{prober: http, http: {fail_if_body_json_matches_cel: "body.a == 1"}}`:                       "http.fail_if_body_json_matches_cel",
		`{prober: http, http: {fail_if_body_json_not_matches_cel: "body.a == 1"}}`:                   "http.fail_if_body_json_matches_cel",
		`{prober: http, http: {proxy_from_environment: true}}`:                                       "http.proxy_from_environment",
		`{prober: http, http: {proxy_url: "http://p:1", no_proxy: a}}`:                               "http.no_proxy",
		`{prober: http, http: {proxy_url: "http://p:1", skip_resolve_phase_with_proxy: true}}`:       "http.skip_resolve_phase_with_proxy",
		`{prober: http, http: {proxy_url: "socks5://p:1"}}`:                                          "http.proxy_url: socks5://",
		`{prober: http, http: {tls_config: {cert: a, key: b}}}`:                                      "tls_config.cert and key",
		`{prober: tcp, tcp: {query_response: [{expect_bytes: S}]}}`:                                  "tcp.query_response.expect_bytes",
		`{prober: tcp, tcp: {query_response: [{send: !!binary AAAACATSFi8=}]}}`:                      "bytes (!!binary)",
		`{prober: unix, unix: {query_response: [{send: PING}, {expect: PONG}]}}`:                     "prober: unix",
		`{prober: grpc, grpc: {metadata: {a: [b]}}}`:                                                 "grpc.metadata",
		`{prober: http, http: {bearer_token_file: nosuch, basic_auth: {password_file: b}}}`:          "http.basic_auth.password_file: b: no such file",
		`{prober: tcp, tcp: {tls_config: {ca_file: nosuch}}}`:                                        "tls_config.ca_file: nosuch: no such file",
		`{prober: grpc, grpc: {tls: true}}`:                                                          "does not verify certificates",
	} {
		f, err := load(t, "modules: {m: "+module+"}")
		if err != nil {
			t.Error(err)
			continue
		}
		if err := f.Unsupported()["m"]; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", module, err, want)
		}
	}
}

func TestClientCertificateBecomesCredentials(t *testing.T) {
	t.Parallel()
	f, err := load(t, "modules: {m: {prober: http, http: {tls_config: {cert_file: c.pem, key_file: /k.pem, server_name: s}}}}")
	if err != nil {
		t.Fatal(err)
	}
	if c := f.Credentials; len(c) != 1 || !filepath.IsAbs(c[0].Cert) || c[0].Key != "/k.pem" || c[0].ServerName != "s" || !reflect.DeepEqual(c[0].Plugins, []string{"httpcheck"}) {
		t.Errorf("%+v", c)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	const text = "modules: {http_2xx: {prober: http}}"
	out := probe.Outcome{Result: probe.Warning, Metrics: []probe.Metric{
		{Name: "http_status_code", Value: 200}, {Name: "http_duration_seconds", Value: 1, Labels: map[string]string{"phase": "connect"}},
		{Name: "http_duration_seconds", Value: 2, Labels: map[string]string{"phase": "tls"}},
		{Name: "http_duration_seconds", Value: 3, Labels: map[string]string{"other": "label"}}, {Name: "success", Value: 7},
	}}
	w := scrape(t, text, "target=a", nil, prepareOutcome(out, nil))
	got := values(t, w.Body.String())
	delete(got, "probe_duration_seconds")
	want := map[string]float64{
		"probe_success": 1, "probe_warning": 1, "probe_unknown": 0, "probe_http_status_code": 200,
		"probe_http_duration_seconds{phase=connect}": 1, "probe_http_duration_seconds{phase=tls}": 2,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
	got = values(t, scrape(t, text, "target=a", nil, prepareOutcome(probe.Outcome{}, os.ErrPermission)).Body.String())
	if got["probe_success"] != 0 || got["probe_unknown"] != 1 {
		t.Errorf("after an error: %v", got)
	}
}

func TestBadScrapesAreRefused(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{"module=x&target=a": `Unknown module "x"`, "module=m": "Target parameter is missing"} {
		if w := scrape(t, "modules: {m: {prober: tcp}}", query, nil, nil); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
	w := scrape(t, "modules: {m: {prober: tcp}}", "module=m&target=a:1", http.Header{"X-Prometheus-Scrape-Timeout-Seconds": {"soon"}}, nil)
	if w.Code != http.StatusBadRequest {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := scrape(t, "modules: {m: {prober: tcp}}", "module=m&target=a", nil, nil); values(t, w.Body.String())["probe_success"] != 0 {
		t.Errorf("a target without a port: %s", w.Body)
	}
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		module, header string
		want           time.Duration
	}{
		{"", "", 119500 * time.Millisecond}, {"", "10", 9500 * time.Millisecond}, {"timeout: 2s", "10", 2 * time.Second}, {"timeout: 20s", "10", 9500 * time.Millisecond},
		{"timeout: 2s", "0.1", 2 * time.Second}, {"timeout: 1d", "", 119500 * time.Millisecond},
		{"timeout: 1.5s", "10", 1500 * time.Millisecond}, {"timeout: 1m30s", "", 90 * time.Second},
	} {
		header := http.Header{}
		if c.header != "" {
			header.Set("X-Prometheus-Scrape-Timeout-Seconds", c.header)
		}
		var got time.Duration
		scrape(t, "modules: {m: {prober: tcp, "+c.module+"}}", "module=m&target=a:1", header, func(ctx context.Context, _ string, config []byte, _ probe.Target) (probe.Handler, error) {
			// The plugin ends at its own timeout, before the deadline.
			if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) <= c.want || !strings.Contains(string(config), fmt.Sprintf(`"timeout":"%v"`, c.want)) {
				t.Errorf("%q with %q: config %s, deadline in %v", c.module, c.header, config, time.Until(deadline))
			}
			return probe.HandlerFunc(func(_ context.Context, req probe.Request) (probe.Outcome, error) {
				got = req.Spec.Timeout
				return probe.Outcome{Result: probe.Success}, nil
			}), nil
		})
		if got != c.want {
			t.Errorf("%q with %q: %s", c.module, c.header, got)
		}
	}
}

func TestDebugHidesSecretsAndEscapes(t *testing.T) {
	t.Parallel()
	const text = "modules: {m: {prober: http, http: {bearer_token: s3cret, headers: {Authorization: hidden, X-Api-Key: k3y, Accept: any}, proxy_url: 'http://user:@proxy:1', proxy_connect_header: {X-Token: [pr0xy]}, basic_auth: {username: u, password: pa55}}}}"
	w := scrape(t, text, "module=m&target=a&debug=true", nil, func(context.Context, string, []byte, probe.Target) (probe.Handler, error) {
		return probe.HandlerFunc(func(_ context.Context, req probe.Request) (probe.Outcome, error) {
			req.Trace(probe.TraceEvent{Type: probe.TraceCall, Name: "http", Detail: "sent s3cret k3y pr0xy dTpwYTU1 \x1b[31m", Duration: time.Second})
			return probe.Outcome{Result: probe.Failure, Output: "not pa55\n<b>"}, nil
		}), nil
	})
	body := w.Body.String()
	for _, secret := range []string{"s3cret", "hidden", "pa55", "k3y", "pr0xy", "dTpwYTU1", "\x1b"} {
		if strings.Contains(body, secret) {
			t.Errorf("the text has %q:\n%s", secret, body)
		}
	}
	for _, want := range []string{"call    http          1s  sent ", `"Accept": "any"`, "failure after ", "probe_success 0", `"username": "u"`, `"bearerToken": "<secret>"`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	if kind := w.Header().Get("Content-Type"); kind != "text/plain; charset=utf-8" {
		t.Error(kind)
	}
}

func TestDebugHidesWhatIsSent(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(file, []byte("login=s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for module, want := range map[string]string{
		`{prober: tcp, tcp: {query_response: [{send: "AUTH s3cret"}, {expect: "^OK"}, {send: "GET s3cret"}]}}`: `"expect": "^OK"`,
		`{prober: http, http: {body: '{"password": "s3cret"}'}}`:                                               `"body": "<secret>"`,
		`{prober: http, http: {body_file: ` + file + `}}`:                                                      `"body": "<secret>"`,
	} {
		w := scrape(t, "modules: {m: "+module+"}", "module=m&target=a:1&debug=true", nil, func(_ context.Context, _ string, config []byte, _ probe.Target) (probe.Handler, error) {
			if !strings.Contains(string(config), "s3cret") {
				t.Errorf("%s: the handler has %s", module, config)
			}
			return probe.HandlerFunc(func(_ context.Context, req probe.Request) (probe.Outcome, error) {
				req.Trace(probe.TraceEvent{Type: probe.TraceCall, Name: "read", Detail: "login=s3cret"})
				return probe.Outcome{Result: probe.Failure, Output: "unknown login=s3cret"}, nil
			}), nil
		})
		body := w.Body.String()
		_, config, _ := strings.Cut(body, "Module configuration:")
		if strings.Contains(config, "s3cret") || !strings.Contains(config, want) {
			t.Errorf("%s: no %s, or a secret in\n%s", module, want, config)
		}
		if strings.Contains(module, "body_file") && strings.Contains(body, "s3cret") {
			t.Errorf("%s: the contents of the file in\n%s", module, body)
		}
	}
}

// TestGRPC expects the values of blackbox_exporter 0.23 for the same servers, except its expiry without a
// certificate.
func TestGRPC(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, states := grpc.NewServer(), health.NewServer()
	states.SetServingStatus("down", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	grpc_health_v1.RegisterHealthServer(server, states)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	var registry handlers.Registry
	if err := builtin.Register(&registry, builtin.Config{Runner: &builtin.HostRunner{}}); err != nil {
		t.Fatal(err)
	}
	with := func(_ context.Context, handler string, config []byte, target probe.Target) (probe.Handler, error) {
		return registry.Prepare(handler, config, target)
	}
	for _, c := range []struct {
		service, status string
		success, code   float64
	}{{"", "SERVING", 1, 0}, {"down", "NOT_SERVING", 0, 0}, {"nosuch", "", 0, 5}} {
		w := scrape(t, "modules: {m: {prober: grpc, grpc: {service: '"+c.service+"'}}}", "module=m&target="+listener.Addr().String(), nil, with)
		got := values(t, w.Body.String())
		for _, name := range []string{"probe_duration_seconds", "probe_dns_lookup_time_seconds", "probe_grpc_duration_seconds{phase=check}", "probe_grpc_duration_seconds{phase=resolve}"} {
			if _, ok := got[name]; !ok {
				t.Errorf("no %s", name)
			}
			delete(got, name)
		}
		want := map[string]float64{
			"probe_success": c.success, "probe_warning": 0, "probe_unknown": 0, "probe_grpc_ssl": 0, "probe_grpc_status_code": c.code,
			"probe_ip_protocol": 4, "probe_ip_addr_hash": 3668918509,
		}
		for _, s := range []string{"SERVING", "NOT_SERVING", "SERVICE_UNKNOWN", "UNKNOWN"} {
			want["probe_grpc_healthcheck_response{serving_status="+s+"}"] = 0
			if s == c.status {
				want["probe_grpc_healthcheck_response{serving_status="+s+"}"] = 1
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("service %q: %v", c.service, got)
		}
	}
}

func TestFilesOfSecretsAreReadAtEachScrape(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "token")
	var got []string
	var f *blackbox.File
	var err error
	for _, want := range []string{"", "first", "second"} { // at first, the file does not exist
		if want != "" {
			if err := os.WriteFile(token, []byte(want+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if f == nil {
			f, err = load(t, "modules: {m: {prober: http, http: {bearer_token_file: "+token+"}}}")
		}
		if err != nil {
			t.Fatal(err)
		}
		server := blackbox.NewServer(blackbox.Config{File: func() *blackbox.File { return f }, Prepare: func(_ context.Context, _ string, config []byte, _ probe.Target) (probe.Handler, error) {
			var c struct{ BearerToken string }
			if err := json.Unmarshal(config, &c); err != nil {
				t.Error(err)
			}
			got = append(got, c.BearerToken)
			return probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) { return probe.Outcome{}, nil }), nil
		}})
		server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/probe?module=m&target=a", nil))
	}
	if !reflect.DeepEqual(got, []string{"first", "second"}) {
		t.Errorf("tokens %q", got)
	}
}

func TestUnknownHandlerIsServerError(t *testing.T) {
	t.Parallel()
	var registry handlers.Registry
	w := scrape(t, "modules: {m: {prober: icmp}}", "module=m&target=a", nil, func(_ context.Context, handler string, config []byte, target probe.Target) (probe.Handler, error) {
		return registry.Prepare(handler, config, target)
	})
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), `unknown handler "icmp"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// If no attempt was made, the response must not have probe_success 0.
func TestScrapeWithoutSlotIsRefused(t *testing.T) {
	t.Parallel()
	w := scrape(t, "modules: {a: {prober: tcp}}", "module=a&target=127.0.0.1:1", nil, prepareOutcome(probe.Outcome{}, fmt.Errorf("busy: %w", probe.ErrNoSlot)))
	if body := w.Body.String(); w.Code != http.StatusServiceUnavailable || body != "Module \"a\": no attempt was made: busy: "+probe.ErrNoSlot.Error()+"\n" {
		t.Errorf("status %d, %q", w.Code, body)
	}
}
