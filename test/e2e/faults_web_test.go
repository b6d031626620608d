//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// nginx starts nginx with the directives of the block http, which has a server at the address.
func nginx(t *testing.T, at, http string) *server {
	t.Helper()
	dir := t.TempDir()
	config := fmt.Sprintf(`daemon off; worker_processes 1; user root; pid %[1]s/pid; error_log stderr;
events {}
http { access_log off; client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
%s
}`, dir, http)
	return serves(t, at, exec.Command("nginx", "-e", "stderr", "-p", dir, "-c", file(t, "nginx.conf", config)))
}

// page is a block server of nginx with one page.
func page(at string) string {
	return fmt.Sprintf("server { listen %s; location / { return 200 'welcome to the shop, which sells things\\n'; } }\n", at)
}

func nginxFaults(t *testing.T) []fault {
	certs, secured := newShopCertificates(t), make(map[string]string)
	at, closed := freeAddress(t), freeAddress(t)
	_, port, _ := net.SplitHostPort(at)
	config := fmt.Sprintf(`server { listen %[1]s;
location / { return 200 'welcome to the shop, which sells things\n'; }
location /missing { return 404; }
location /broken { return 503; }
location /loop { return 302 /loop; }
location /away { return 302 http://10.1.2.3/; }
location /down { proxy_pass http://%[2]s; }
location /hangs { proxy_pass http://%[3]s; proxy_read_timeout 200ms; }
}
`, at, closed, silent(t))
	for name, f := range certs.files {
		secured[name] = freeAddress(t)
		config += fmt.Sprintf("server { listen %s ssl; ssl_certificate '%s'; ssl_certificate_key '%s'; location / { return 200 ok; } }\n", secured[name], f.chain, f.key)
	}
	nginx(t, at, config)
	alone := func() *server { at := freeAddress(t); return nginx(t, at, page(at)) }
	short := freeAddress(t)
	other := redis(t)
	check := func(path string) object { return byPlugin("httpcheck", object{"url": path}) }
	get := func(path string) object { return object{"httpGet": object{"path": path}} }
	word := byPlugin("httpcheck", object{"failIfBodyNotMatchesRegexp": []string{"welcome"}})
	frozen, choked := alone().freeze(), nginx(t, short, strings.Replace(page(short), ";", " backlog=1;", 1)).choke()
	rows := []fault{
		{"httpcheck", at, word, "success", "HTTP status 200 in … ms, 40 bytes over HTTP/1.1"},
		{"httpGet", at, get("/"), "success", "welcome to the shop, which sells things"},
		{"httpcheck: stopped", alone().stop(), check("/"), "failure", "http: dial tcp AT: connect: connection refused"},
		{"httpGet: stopped", closed, get("/"), "failure", `Get "http://AT/": dial tcp AT: connect: connection refused`},
		{"httpcheck: SIGSTOP", frozen, within("1s", check("/")), "failure", "timed out after 1s: http GET http://AT/: no response headers from AT; connected after …; … bytes sent, 0 received"},
		{"httpGet: SIGSTOP", frozen, within("1s", get("/")), "failure", `Get "http://AT/": context deadline exceeded (Client.Timeout exceeded while awaiting headers): http tcp AT: no response headers; connected after …; … bytes sent, 0 received`},
		{"httpcheck: full queue", choked, within("1s", check("/")), "failure", "timed out after 1s: http GET http://AT/: no answer to the SYN from AT"},
		{"httpGet: full queue", choked, within("1s", get("/")), "failure", `Get "http://AT/": context deadline exceeded (Client.Timeout exceeded while awaiting headers): dial tcp AT: no answer to the SYN: packets are dropped, or the listen queue is full`},
		{"httpcheck: 404", at, check("/missing"), "failure", "HTTP status 404, want 2xx"},
		{"httpGet: 404", at, get("/missing"), "failure", "HTTP probe failed with statuscode: 404"},
		{"httpcheck: 503", at, check("/broken"), "failure", "HTTP status 503, want 2xx"},
		{"httpGet: 503", at, get("/broken"), "failure", "HTTP probe failed with statuscode: 503"},
		{"httpcheck: backend stopped", at, check("/down"), "failure", "HTTP status 502, want 2xx"},
		{"httpcheck: backend hangs", at, check("/hangs"), "failure", "HTTP status 504, want 2xx"},
		{"httpcheck: redirect loop", at, check("/loop"), "failure", "HTTP status 302, want 2xx, after redirect 10 to http://AT/loop"},
		{"httpGet: redirect loop", at, get("/loop"), "failure", `Get "http://AT/loop": stopped after 10 redirects`},
		{"httpcheck: redirect without a grant", at, check("/away"), "failure", "http: redirect 1 to http://10.1.2.3/: dial http 10.1.2.3:80: denied: not the probe's target, and not both requested by the plugin and granted"},
		{"httpcheck: other page", at, byPlugin("httpcheck", object{"failIfBodyNotMatchesRegexp": []string{"checkout"}}), "failure", `the body does not match "checkout": "welcome to the shop, which sells things"`},
		{"httpcheck: redis at the port", other, check("/"), "failure", "http: the server closed the connection without a response"},
		{"httpGet: redis at the port", other, get("/"), "failure", `Get "http://AT/": EOF`},
		{"httpcheck: TLS on a port without it", at, byPlugin("httpcheck", object{"url": "https:///"}), "failure", "http: tls: first record does not look like a TLS handshake"},
		{"httpcheck: no TLS on a port with it", secured[goodCert], check("/"), "failure", "HTTP status 400, want 2xx"},
		{"httpcheck: cut handshake", cut(t, secured[goodCert], 5), byPlugin("httpcheck", object{"url": "https:///"}), "failure", "http: tls: the server closed the connection within the handshake"},
		{"httpcheck: cut header", cut(t, at, 17), check("/"), "failure", "http: the server closed the connection within the response headers"},
		{"httpGet: cut header", cut(t, at, 17), get("/"), "failure", `Get "http://AT/": net/http: HTTP/1.x transport connection broken: unexpected EOF`},
		{"httpcheck: cut body", cut(t, at, 180), word, "failure", "reading the body: unexpected EOF"},
		{"httpcheck: body stops", stalled(t, at, 180), within("1s", word), "failure", "timed out after 1s: read http://AT/: status 200; the body is not finished; … bytes of it received"},
		{"httpcheck: slow", slow(t, at, 300*time.Millisecond), byPlugin("httpcheck", object{"latency": object{"warn": "200ms", "fail": "60s"}}), "warning", "it took … ms, more than 200ms"},
		{"httpcheck: too slow", slow(t, at, 300*time.Millisecond), byPlugin("httpcheck", object{"latency": object{"warn": "100ms", "fail": "200ms"}}), "failure", "it took … ms, more than 200ms"},
		{"httpcheck: unknown name", "unknown.invalid:" + port, check("/"), "failure", "http: dial http AT: lookup unknown.invalid on …: no such host"},
	}
	return append(rows, certs.faults(secured, byPlugin("httpcheck", certs.tls(object{"url": "https:///"})), "http: ", "HTTP status 200 in … ms, 2 bytes over HTTP/1.1")...)
}
