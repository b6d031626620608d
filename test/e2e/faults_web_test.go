//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
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

// nginxPage starts nginx with one page, and returns its address.
func nginxPage(t *testing.T) string {
	t.Helper()
	at := freeAddress(t)
	nginx(t, at, page(at))
	return at
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
		{"httpcheck: stopped", alone().stop(), check("/"), "failure", "http: dial tcp {AT}: connect: connection refused"},
		{"httpGet: stopped", closed, get("/"), "failure", `Get "http://{AT}/": dial tcp {AT}: connect: connection refused`},
		{"httpcheck: SIGSTOP", frozen, within("1s", check("/")), "failure", "timed out after 1s: http GET http://{AT}/: no response headers from {AT}; connected after …; … bytes sent, 0 received"},
		{"httpGet: SIGSTOP", frozen, within("1s", get("/")), "failure", `Get "http://{AT}/": context deadline exceeded (Client.Timeout exceeded while awaiting headers): http tcp {AT}: no response headers; connected after …; … bytes sent, 0 received`},
		{"httpcheck: full queue", choked, within("1s", check("/")), "failure", "timed out after 1s: http GET http://{AT}/: no answer to the SYN from {AT}"},
		{"httpGet: full queue", choked, within("1s", get("/")), "failure", `Get "http://{AT}/": context deadline exceeded (Client.Timeout exceeded while awaiting headers): dial tcp {AT}: no answer to the SYN: packets are dropped, or the listen queue is full`},
		{"httpcheck: 404", at, check("/missing"), "failure", "HTTP status 404, want 2xx"},
		{"httpGet: 404", at, get("/missing"), "failure", "HTTP probe failed with statuscode: 404"},
		{"httpcheck: 503", at, check("/broken"), "failure", "HTTP status 503, want 2xx"},
		{"httpGet: 503", at, get("/broken"), "failure", "HTTP probe failed with statuscode: 503"},
		{"httpcheck: backend stopped", at, check("/down"), "failure", "HTTP status 502, want 2xx"},
		{"httpcheck: backend hangs", at, check("/hangs"), "failure", "HTTP status 504, want 2xx"},
		{"httpcheck: redirect loop", at, check("/loop"), "failure", "HTTP status 302, want 2xx, after redirect 10 to http://{AT}/loop"},
		{"httpGet: redirect loop", at, get("/loop"), "failure", `Get "http://{AT}/loop": stopped after 10 redirects`},
		{"httpcheck: redirect without a grant", at, check("/away"), "failure", "http: redirect 1 to http://10.1.2.3/: dial http 10.1.2.3:80: denied: not the probe's target, and not both requested by the plugin and granted"},
		{"httpcheck: other page", at, byPlugin("httpcheck", object{"failIfBodyNotMatchesRegexp": []string{"checkout"}}), "failure", `the body does not match "checkout": "welcome to the shop, which sells things"`},
		{"httpcheck: redis at the port", other, check("/"), "failure", "http: the server closed the connection without a response"},
		{"httpGet: redis at the port", other, get("/"), "failure", `Get "http://{AT}/": EOF`},
		{"httpcheck: TLS on a port without it", at, byPlugin("httpcheck", object{"url": "https:///"}), "failure", "http: tls: first record does not look like a TLS handshake"},
		{"httpcheck: no TLS on a port with it", secured[goodCert], check("/"), "failure", "HTTP status 400, want 2xx"},
		{"httpcheck: cut handshake", cut(t, secured[goodCert], 5), byPlugin("httpcheck", object{"url": "https:///"}), "failure", "http: tls: the server closed the connection within the handshake"},
		{"httpcheck: cut header", cut(t, at, 17), check("/"), "failure", "http: the server closed the connection within the response headers"},
		{"httpGet: cut header", cut(t, at, 17), get("/"), "failure", `Get "http://{AT}/": net/http: HTTP/1.x transport connection broken: unexpected EOF`},
		{"httpcheck: cut body", cut(t, at, 180), word, "failure", "reading the body: unexpected EOF"},
		{"httpcheck: body stops", stalled(t, at, 180), within("1s", word), "failure", "timed out after 1s: read http://{AT}/: status 200; the body is not finished; … bytes of it received"},
		{"httpcheck: slow", slow(t, at, 300*time.Millisecond), byPlugin("httpcheck", object{"latency": object{"warn": "200ms", "fail": "60s"}}), "warning", "it took … ms, more than 200ms"},
		{"httpcheck: too slow", slow(t, at, 300*time.Millisecond), byPlugin("httpcheck", object{"latency": object{"warn": "100ms", "fail": "200ms"}}), "failure", "it took … ms, more than 200ms"},
		{"httpcheck: unknown name", "unknown.invalid:" + port, check("/"), "failure", "http: dial http {AT}: lookup unknown.invalid on …: no such host"},
	}
	return append(rows, certs.faults(secured, byPlugin("httpcheck", certs.tls(object{"url": "https:///"})), "http: ", "HTTP status 200 in … ms, 2 bytes over HTTP/1.1")...)
}

func apacheFaults(t *testing.T) []fault {
	certs, secured := newShopCertificates(t), make(map[string]string)
	start := func(extra string) *server {
		dir, at := t.TempDir(), freeAddress(t)
		config := fmt.Sprintf("ServerRoot %s\nServerName shop.test\nPidFile pid\nErrorLog log\nListen %s\nDocumentRoot %[1]s/htdocs\n", dir, at)
		for _, m := range []string{"mpm_event", "authz_core", "authz_user", "auth_basic", "authn_core", "authn_file", "ssl", "alias", "rewrite"} {
			config += fmt.Sprintf("LoadModule %s_module /usr/lib/apache2/modules/mod_%[1]s.so\n", m)
		}
		if err := os.MkdirAll(filepath.Join(dir, "htdocs"), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, dir, "users", "shop:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n") // password
		write(t, filepath.Join(dir, "htdocs"), "index.html", "welcome")
		return serves(t, at, exec.Command("apache2", "-X", "-f", file(t, "apache.conf", config+strings.ReplaceAll(extra, "DIR", dir))))
	}
	var hosts strings.Builder
	for name, f := range certs.files {
		secured[name] = freeAddress(t)
		fmt.Fprintf(&hosts, "Listen %s\n<VirtualHost %[1]s>\nSSLEngine on\nSSLCertificateFile '%s'\nSSLCertificateKeyFile '%s'\n</VirtualHost>\n", secured[name], f.chain, f.key)
	}
	at := start(hosts.String() + `
User nobody
<Location /private>
AuthType Basic
AuthName shop
AuthUserFile DIR/users
Require valid-user
</Location>
<Location /forbidden>
Require all denied
</Location>
Redirect 503 /closed
Redirect /moved /moved
`).at
	check := func(fields object) object { return byPlugin("httpcheck", fields) }
	rows := []fault{
		{"welcome", at, check(object{"url": "/index.html"}), "success", "HTTP status 200 in … ms, 7 bytes over HTTP/1.1"},
		{"404", at, check(object{"url": "/gone"}), "failure", "HTTP status 404, want 2xx"},
		{"403", at, check(object{"url": "/forbidden"}), "failure", "HTTP status 403, want 2xx"},
		{"503", at, check(object{"url": "/closed"}), "failure", "HTTP status 503, want 2xx"},
		{"redirect loop", at, check(object{"url": "/moved"}), "failure", "HTTP status 302, want 2xx, after redirect 10 to http://…"},
		{"no password", at, check(object{"url": "/private"}), "failure", "HTTP status 401, want 2xx"},
		{"wrong password", at, check(object{"url": "/private", "basicAuth": object{"username": "shop", "password": "guess"}}), "failure", "HTTP status 401, want 2xx"},
		{"TLS on a port without it", at, check(object{"url": "https:///"}), "failure", "http: tls: first record does not look like a TLS handshake"},
		{"stopped", start("User nobody\n").stop(), check(object{}), "failure", "http: dial tcp {AT}: connect: connection refused"},
		{"SIGSTOP", start("User nobody\n").freeze(), within("1s", check(object{})), "failure", "timed out after 1s: http GET http://{AT}/: no response headers from {AT}; connected after …; … bytes sent, 0 received"},
	}
	return append(rows, certs.faults(secured, check(certs.tls(object{"url": "https:///index.html"})), "http: ", "HTTP status 200 in … ms, 7 bytes over HTTP/1.1")...)
}

func haproxyFaults(t *testing.T) []fault {
	certs, secured, at, closed := newShopCertificates(t), make(map[string]string), freeAddress(t), freeAddress(t)
	web := nginxPage(t)
	start := func(at, more string) *server {
		config := fmt.Sprintf("global\nmaxconn 100\ndefaults\nmode http\ntimeout connect 300ms\ntimeout client 60s\ntimeout server 300ms\nretries 0\nlisten web\nbind %s\nserver web %s\n", at, web)
		return serves(t, at, exec.Command("haproxy", "-db", "-f", file(t, "haproxy.cfg", config+more)))
	}
	hangs, full, old := freeAddress(t), freeAddress(t), freeAddress(t)
	more := fmt.Sprintf("listen down\nbind %s\nserver down %s\nlisten hangs\nbind %s\nserver hangs %s\n", old, closed, hangs, silent(t)) +
		fmt.Sprintf("listen full\nbind %s\nserver full %s maxconn 1\ntimeout queue 100ms\nhttp-request deny deny_status 429\n", full, web)
	for name, f := range certs.files {
		secured[name] = freeAddress(t)
		more += fmt.Sprintf("listen %s\nbind %s ssl crt '%s'\nserver web %s\n", strings.ReplaceAll(name, " ", "-"), secured[name], f.both, web)
	}
	start(at, more)
	check := byPlugin("httpcheck", object{})
	rows := []fault{
		{"backend", at, check, "success", "HTTP status 200 in … ms, 40 bytes over HTTP/1.1"},
		{"backend stopped", old, check, "failure", "HTTP status 503, want 2xx"},
		{"backend hangs", hangs, check, "failure", "HTTP status 504, want 2xx"},
		{"too many requests", full, check, "failure", "HTTP status 429, want 2xx"},
		{"stopped", start(closed, "").stop(), check, "failure", "http: dial tcp {AT}: connect: connection refused"},
		{"SIGSTOP", start(freeAddress(t), "").freeze(), within("1s", check), "failure", "timed out after 1s: http GET http://{AT}/: no response headers from {AT}; connected after …; … bytes sent, 0 received"},
	}
	return append(rows, certs.faults(secured, byPlugin("httpcheck", certs.tls(object{"url": "https:///"})), "http: ", "HTTP status 200 in … ms, 40 bytes over HTTP/1.1")...)
}

func squidFaults(t *testing.T) []fault {
	start := func(rules string) *server {
		dir, at := dataFolder(t), freeAddress(t)
		config := fmt.Sprintf("http_port %s\npid_filename none\ncache_log %s/log\naccess_log none\ncache deny all\ncoredump_dir %[2]s\ncache_effective_user nobody\nvisible_hostname shop.test\nconnect_timeout 1 seconds\nconnect_retries 0\npinger_enable off\nshutdown_lifetime 0 seconds\n%s", at, dir, rules)
		path := file(t, "squid.conf", config)
		return serves(t, at, exec.Command("squid", "-N", "-n", fmt.Sprintf("e2e%d", nextPort.Load()), "-f", path))
	}
	web, closed := freeAddress(t), freeAddress(t)
	nginx(t, web, page(web))
	open, shut := start("http_access allow all\n").at, start("http_access deny all\n").at
	stopped := start("http_access allow all\n").stop()
	through := func(proxy string) object {
		return byPlugin("httpcheck", object{"proxyUrl": "http://" + proxy})
	}
	return []fault{
		{"through the proxy", web, through(open), "success", "HTTP status 200 in … ms, 40 bytes over HTTP/1.1"},
		{"target stopped", closed, through(open), "failure", "HTTP status 503, want 2xx"},
		{"proxy denies", web, through(shut), "failure", "HTTP status 403, want 2xx"},
		{"proxy stopped", web, through(stopped), "failure", "http: proxyconnect tcp: dial tcp " + stopped + ": connect: connection refused"},
		{"proxy SIGSTOP", web, within("1s", through(start("http_access allow all\n").freeze())), "failure", "timed out after 1s: http GET http://{AT}/: no response headers from …; connected after …; … bytes sent, 0 received"},
	}
}

// caddy starts caddy with the sites of a Caddyfile, of which one is at the address.
func caddy(t *testing.T, at, sites string) *server {
	t.Helper()
	cmd := exec.Command("caddy", "run", "--adapter", "caddyfile", "--config", file(t, "Caddyfile", "{\nadmin off\nauto_https off\n}\n"+sites))
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "XDG_CONFIG_HOME="+t.TempDir(), "XDG_DATA_HOME="+t.TempDir())
	return serves(t, at, cmd)
}

func caddyFaults(t *testing.T) []fault {
	certs, secured := newShopCertificates(t), make(map[string]string)
	at := freeAddress(t)
	site := func(name, at, lines string) string {
		_, port, _ := net.SplitHostPort(at)
		return fmt.Sprintf("%s:%s {\nbind 127.0.0.1\n%s\n}\n", name, port, lines)
	}
	sites := site("http://shop.test", at, fmt.Sprintf(`handle /private* {
basicauth {
shop $2a$04$AAAAAAAAAAAAAAAAAAAAAOgGJrPbtSvXOUAKRRtC7BZDJ2jjNQ.C2
}
}
handle /down {
reverse_proxy %s
}
handle /hangs {
reverse_proxy %s {
transport http {
response_header_timeout 200ms
}
}
}
handle /missing {
error 404
}
handle /moved {
redir https://shop.test/moved
}
handle {
respond "welcome to the shop"
}`, freeAddress(t), silent(t)))
	for name, f := range certs.files {
		secured[name] = freeAddress(t)
		sites += site("https://shop.test", secured[name], fmt.Sprintf("tls %q %q\nrespond ok", f.chain, f.key))
	}
	caddy(t, at, sites)
	alone := func() *server { at := freeAddress(t); return caddy(t, at, site("http://", at, "respond ok")) }
	check := func(fields object) object {
		return byPlugin("httpcheck", fields)
	}
	shop := func(fields object) object {
		maps.Copy(fields, object{"headers": object{"Host": "shop.test"}})
		return check(fields)
	}
	welcome := object{"failIfBodyNotMatchesRegexp": []string{"welcome"}}
	rows := []fault{
		{"welcome", at, shop(maps.Clone(welcome)), "success", "HTTP status 200 in … ms, 19 bytes over HTTP/1.1"},
		{"other virtual host", at, check(welcome), "failure", `the body does not match "welcome": ""`},
		{"404", at, shop(object{"url": "/missing"}), "failure", "HTTP status 404, want 2xx"},
		{"no password", at, shop(object{"url": "/private"}), "failure", "HTTP status 401, want 2xx"},
		{"backend stopped", at, shop(object{"url": "/down"}), "failure", "HTTP status 502, want 2xx"},
		{"backend hangs", at, shop(object{"url": "/hangs"}), "failure", "HTTP status 504, want 2xx"},
		{"redirect is not followed", at, shop(object{"url": "/moved", "followRedirects": false}), "failure", "HTTP status 302, want 2xx"},
		{"no TLS on a port with it", secured[goodCert], check(object{}), "failure", "HTTP status 400, want 2xx"},
		{"TLS on a port without it", at, check(object{"url": "https:///"}), "failure", "http: tls: first record does not look like a TLS handshake"},
		{"unknown name in TLS", secured[goodCert], check(object{"url": "https:///", "tlsConfig": object{"serverName": "other.test"}}), "failure", "http: …tls: internal error…"},
		{"stopped", alone().stop(), check(object{}), "failure", "http: dial tcp {AT}: connect: connection refused"},
		{"SIGSTOP", alone().freeze(), within("1s", check(object{})), "failure", "timed out after 1s: http GET http://{AT}/: no response headers from {AT}; connected after …; … bytes sent, 0 received"},
	}
	return append(rows, certs.faults(secured, check(certs.tls(object{"url": "https:///", "headers": object{"Host": "shop.test"}})), "http: ", "HTTP status 200 in … ms, 2 bytes over HTTP/2.0")...)
}
