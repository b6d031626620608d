//go:build linux

package attacks

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/test/kube/bed"
)

const answersNode = "node-answers"

func closeIt(conn net.Conn) { _ = conn.Close() }

// hostile is an answer of the app that would harm a terminal or forge a log line.
var hostile = []byte("\x1b[2J\x1b[31mred\x07\r\nEvent: forged\u202egnp.exe\x00\xff\xfe\u2028" + strings.Repeat("\n", 50))

// serveApp starts the app of the owner. Each of its ports attacks in another way.
func serveApp(t *testing.T) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/to", func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Location"] = []string{r.FormValue("where")}
		w.WriteHeader(http.StatusFound)
	})
	mux.HandleFunc("/hostile", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(map[string]int{"fail": 500, "warn": 302}[r.FormValue("as")])
		_, _ = w.Write(hostile)
	})
	mux.HandleFunc("/big", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(bytes.Repeat([]byte("0123456789abcdef"), 10<<20/16))
	})
	mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	for address, secure := range map[string]bool{appIP + ":7771": false, appIP + ":7443": true} {
		s := httptest.NewUnstartedServer(mux)
		_ = s.Listener.Close()
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if s.Listener = l; secure {
			s.TLS = &tls.Config{}
			s.StartTLS()
		} else {
			s.Start()
		}
		t.Cleanup(s.Close)
	}
	serve(t, appIP+":7772", func(conn net.Conn) { // an endless banner
		for {
			if _, err := conn.Write(append(hostile, bytes.Repeat([]byte("x"), 1<<16)...)); err != nil {
				break
			}
		}
		_ = conn.Close()
	})
	serve(t, appIP+":7773", func(conn net.Conn) { // a redirect with two URLs
		_, _ = io.WriteString(conn, "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:8080/\r\nLocation: http://169.254.169.254/\r\nRefresh: 0;url=http://127.0.0.1:8080/\r\nAlt-Svc: h2=\"127.0.0.1:8080\"\r\nContent-Length: 0\r\n\r\n")
		_ = conn.Close()
	})
}

// answers returns probes that are accepted, but that the app, a host name or the config redirects to a
// forbidden address.
func answers() (all []attack) {
	add := func(name, probe string) { all = append(all, attack{name: name, probe: probe}) }
	for _, host := range []string{"127.0.0.1:8080", "[::1]:8080", bed.NodeIP + ":10250", "169.254.169.254", "[fd00:ec2::254]", "[::ffff:127.0.0.1]:8080", victimIP + ":8080", dnsIP + ":8080", "localhost:8080", "2130706433:8080", appIP + "@127.0.0.1:8080", "meta.test"} {
		for _, scheme := range []string{"http", "https"} {
			where := scheme + "://" + host + "/"
			add("redirect to "+where, fmt.Sprintf(`{"httpGet": {"port": 7771, "path": "/to?where=%s"}}`, where))
			add("redirect by TLS to "+where, fmt.Sprintf(`{"httpGet": {"port": 7443, "scheme": "HTTPS", "path": "/to?where=%s"}}`, where))
			add("redirect of httpcheck to "+where, fmt.Sprintf(`{"plugin": {"name": "httpcheck", "target": {"port": 7771}, "config": {"url": "/to?where=%s"}}}`, where))
			add("url of httpcheck "+where, fmt.Sprintf(`{"plugin": {"name": "httpcheck", "target": {"port": 7771}, "config": {"url": %q}}}`, where))
		}
		add("proxy "+host, fmt.Sprintf(`{"plugin": {"name": "httpcheck", "target": {"port": 7771}, "config": {"url": "/", "proxyUrl": "http://%s"}}}`, host))
		add("path with "+host, fmt.Sprintf(`{"httpGet": {"port": 7771, "path": "http://%s/"}}`, host))
		add("path //"+host, fmt.Sprintf(`{"httpGet": {"port": 7771, "path": "//%s/"}}`, host))
		add("path @"+host, fmt.Sprintf(`{"httpGet": {"port": 7771, "path": "@%s/"}}`, host))
		add("opaque path "+host, fmt.Sprintf(`{"httpGet": {"port": 7771, "path": "http:%s/"}}`, host))
		add("Host "+host, fmt.Sprintf(`{"httpGet": {"port": 7771, "path": "/to?where=/", "httpHeaders": [{"name": "Host", "value": %q}]}}`, host))
		add("Host of httpcheck "+host, fmt.Sprintf(`{"plugin": {"name": "httpcheck", "target": {"port": 7771}, "config": {"url": "/to?where=/", "headers": {"Host": %q}}}}`, host))
	}
	for _, name := range []string{"loop.test", "meta.test"} { // the policy allows these names, but they resolve to forbidden addresses
		for path, form := range forms {
			add(path+" "+name, fmt.Sprintf(form, quote(name)))
		}
		add("reuse of "+name, fmt.Sprintf(`{"plugin": {"name": "http", "config": {"host": %q, "port": 8080, "connection": "reuse"}}}`, name))
		add("HTTPS of "+name, fmt.Sprintf(`{"httpGet": {"host": %q, "port": 8080, "scheme": "HTTPS"}}`, name))
		add("HTTP2 of "+name, fmt.Sprintf(`{"plugin": {"name": "http", "target": {"host": %q, "port": 8080}, "config": {"protocol": "HTTP2"}}}`, name))
	}
	add("raw redirect", `{"httpGet": {"port": 7773, "path": "/"}}`)
	add("path with CRLF", `{"httpGet": {"port": 7771, "path": "/ HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\nGET /"}}`)
	add("header with CRLF", `{"httpGet": {"port": 7771, "httpHeaders": [{"name": "A", "value": "b\r\nHost: 127.0.0.1"}]}}`)
	add("service with CRLF", `{"grpc": {"port": 7771, "service": "a\r\n\u0000\u001b[2J"}}`)
	add("unknown credentials", `{"plugin": {"name": "httpcheck", "target": {"port": 7443}, "config": {"url": "https:///", "credentials": "node"}}}`)
	add("CA path", `{"plugin": {"name": "expect", "target": {"port": 7443}, "config": {"tls": true, "tlsConfig": {"ca": "/etc/kubernetes/pki/ca.crt"}}}}`)
	add("source address", `{"plugin": {"name": "expect", "target": {"port": 7771}, "config": {"sourceIpAddress": "127.0.0.1"}}}`)
	add("hostile failure", `{"httpGet": {"port": 7771, "path": "/hostile?as=fail"}}`)
	add("hostile warning", `{"httpGet": {"port": 7771, "path": "/hostile?as=warn"}}`)
	add("hostile body of httpcheck", `{"plugin": {"name": "httpcheck", "target": {"port": 7771}, "config": {"url": "/hostile?as=fail", "failIfBodyNotMatchesRegexp": ["never"]}}}`)
	add("10 MB", `{"httpGet": {"port": 7771, "path": "/big"}}`)
	add("10 MB of httpcheck", `{"plugin": {"name": "httpcheck", "target": {"port": 7771}, "config": {"url": "/big", "failIfBodyNotMatchesRegexp": ["never"]}}, "timeout": "5s"}`)
	add("endless banner", `{"plugin": {"name": "expect", "target": {"port": 7772}, "config": {"queryResponse": [{"expect": "never"}]}}}`)
	add("banner of HTTP", `{"httpGet": {"port": 7772, "path": "/"}}`)
	add("evil regexp", `{"plugin": {"name": "expect", "target": {"port": 7772}, "config": {"queryResponse": [{"expect": "(x+x+)+y"}]}}}`)
	return all
}

// TestRedirectsReachNoOtherHost runs accepted probes that try to reach other hosts: by redirects, proxies
// and host names, by the requests and by the answers of the app. Events and conditions must be safe to
// print on a terminal.
func TestRedirectsReachNoOtherHost(t *testing.T) {
	y := newYard(t, answersNode, refusedPolicy)
	serveApp(t)
	serve(t, appIP+":7777", closeIt)
	all := answers()
	for i, a := range all {
		probe := strings.TrimSuffix(a.probe, "}") + `, "period": "500ms", "failureThreshold": 1}`
		y.pod(t, answersNode, fmt.Sprint("a", i), map[string]string{
			"prober.dev/probes": `{"app": {"readiness": ` + probe + `}}`, "prober.dev/conditions": "true",
		})
	}
	y.awaitAll(t, len(all))
	y.awaitBenign(t, answersNode)
	y.nothingReached(t)
	y.checkTexts(t, all)
}

// awaitAll waits until each of the pods a0 to a(n-1) has had two attempts, or an event.
func (y *yard) awaitAll(t *testing.T, n int) {
	t.Helper()
	bed.Await(t, "attempts at each pod", func() bool {
		events, text := y.events(t), y.metrics(t)
		for i := range n {
			name := fmt.Sprint("a", i)
			if len(events[name]) == 0 && tickCount(text, name) < 2 {
				return false
			}
		}
		return true
	})
}

// checkTexts checks that the events and conditions of all pods are safe to print, and that there are few
// events.
func (y *yard) checkTexts(t *testing.T, all []attack) {
	t.Helper()
	events := y.events(t)
	for i, a := range all {
		name := fmt.Sprint("a", i)
		for _, e := range events[name] {
			checkPlain(t, a.name, e.Message)
		}
		pod, err := y.Client.CoreV1().Pods(y.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range pod.Status.Conditions {
			checkPlain(t, a.name, c.Message)
		}
		if len(events[name]) > 4 {
			t.Errorf("%s: %d events", a.name, len(events[name]))
		}
	}
}

// TestForgedStatus forges the addresses in the statuses of pods. The agent must not contact an address that
// no pod can have, and not the node itself if a pod has no address.
func TestForgedStatus(t *testing.T) {
	y := newYard(t, "node-forged", "")
	serve(t, appIP+":7777", closeIt)
	addresses := []string{"", "127.0.0.1", "127.9.9.9", "::1", "169.254.169.254", "fd00:ec2::254", "::ffff:127.0.0.1", "0.0.0.0", "::"}
	var all []attack
	for _, ip := range addresses {
		for _, probe := range []string{
			`{"tcpSocket": {"port": 8080}}`, `{"httpGet": {"port": 8080}}`, `{"httpGet": {"port": 8080, "scheme": "HTTPS"}}`, `{"grpc": {"port": 8080}}`,
			`{"plugin": {"name": "http", "config": {"port": 8080, "connection": "reuse"}}}`, `{"plugin": {"name": "tcp", "target": {"port": 8080}}}`,
			`{"plugin": {"name": "expect", "target": {"port": 8080}}}`, `{"plugin": {"name": "httpcheck", "target": {"port": 8080}}}`,
			`{"plugin": {"name": "dns", "target": {"port": 8080}, "config": {"queryName": "a.b"}}}`, `{"plugin": {"name": "icmp"}}`,
		} {
			all = append(all, attack{name: ip + " " + probe, probe: probe, want: []string{ip}})
		}
	}
	refused := make(map[string]bool) // by the API server
	for i, a := range all {
		name := fmt.Sprint("a", i)
		pod := bed.Pod(name, nil)
		pod.Spec.NodeName = "node-forged"
		pod.Annotations = map[string]string{"prober.dev/probes": `{"app": {"readiness": ` + strings.TrimSuffix(a.probe, "}") + `, "period": "200ms"}}}`}
		pod = y.Create(t, y.namespace, pod)
		if !refused[a.want[0]] {
			refused[a.want[0]] = !y.forge(t, pod, a.want[0])
		}
	}
	kept := slices.DeleteFunc(addresses, func(ip string) bool { return refused[ip] })
	t.Logf("the API server accepts the addresses %q", kept)
	if len(kept) < 4 {
		t.Fatal("the API server accepts too few of the addresses for this test")
	}
	y.awaitBenign(t, "node-forged")
	y.awaitBenign(t, "node-forged")
	y.nothingReached(t)
}
