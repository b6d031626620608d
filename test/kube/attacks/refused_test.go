//go:build linux

package attacks

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/test/kube/bed"
)

const (
	refusedNode = "node-refused"
	// The policy allows host names that others may point to any address, and a network that includes the
	// metadata service.
	refusedPolicy = `  targets: [loop.test, meta.test, 168.0.0.0/7, app.test]
  minPeriod: 100ms
`
	secret = "s3cr3t-0f-the-n0de"
)

// attack is an annotation that misuses the agent.
type attack struct {
	name   string
	probe  string            // of the readiness of the container app
	others map[string]string // other annotations
	want   []string          // parts of the event's message
}

// targets are forbidden hosts, with a part of the event's message.
var targets = map[string]string{
	"127.0.0.1": "would be the node itself", "127.9.9.9": "would be the node itself", "::1": "would be the node itself",
	"[::1]": "would be the node itself", "localhost": "would be the node itself", "LocalHost.": "would be the node itself",
	"x.localhost": "would be the node itself", "::ffff:127.0.0.1": "would be the node itself", "[::ffff:127.0.0.1]": "would be the node itself",
	"64:ff9b::7f00:1": "would be the node itself", "0.0.0.0": "is not the address of a host", "::": "is not the address of a host",
	"2130706433": "is no address of the pod", "0x7f000001": "is no address of the pod", "0177.0.0.1": "is no address of the pod",
	"127.1": "is no address of the pod", "127.0.0.1:8080": "is no address of the pod", "127.0.0.1/": "is no address of the pod",
	"user@127.0.0.1": "is no address of the pod", " 127.0.0.1": "is no address of the pod", bed.NodeIP: "is no address of the pod",
	bed.NodeName: "is no address of the pod", "169.254.169.254": "is no address of the pod", "169.254.170.2": "is no address of the pod",
	"::ffff:169.254.169.254": "is no address of the pod", "fd00:ec2::254": "is no address of the pod", "fe80::77%lo": "is no address of the pod",
	"metadata.google.internal": "is no address of the pod", victimIP: "is no address of the pod", "victim.test": "is no address of the pod",
	"::ffff:" + victimIP: "is no address of the pod", dnsIP: "is no address of the pod", bed.ServiceIP: "is no address of the pod",
	"kubernetes.default.svc": "is no address of the pod", appIP + "\r\nHost: x": "is no address of the pod", "app.test\x00.127.0.0.1": "is no address of the pod",
}

// forms are the fields of a probe that name a host.
var forms = map[string]string{ // path in the event: probe
	"httpGet.host":             `{"httpGet": {"host": %s, "port": 8080, "path": "/"}}`,
	"tcpSocket.host":           `{"tcpSocket": {"host": %s, "port": 8080}}`,
	"plugin.target.host":       `{"plugin": {"name": "expect", "target": {"host": %s, "port": 8080}}}`,
	"plugin.target.host dns":   `{"plugin": {"name": "dns", "target": {"host": %s, "port": 53}, "config": {"queryName": "secret.example"}}}`,
	"plugin.target.host icmp":  `{"plugin": {"name": "icmp", "target": {"host": %s}}}`,
	"plugin.target.host http":  `{"plugin": {"name": "http", "target": {"host": %s, "port": 8080}}}`,
	"plugin.target.host grpc":  `{"plugin": {"name": "grpc", "target": {"host": %s, "port": 8080}}}`,
	"plugin.target.host check": `{"plugin": {"name": "httpcheck", "target": {"host": %s, "port": 8080}}}`,
	"plugin.config.host http":  `{"plugin": {"name": "http", "config": {"host": %s, "port": 8080}}}`,
	"plugin.config.host tcp":   `{"plugin": {"name": "tcp", "config": {"host": %s, "port": 8080}}}`,
}

// refusals returns attacks that name each of targets in each of forms, and attacks that name something else.
func refusals() (all []attack) {
	for host, why := range targets {
		for path, form := range forms {
			all = append(all, attack{name: path + " " + host, probe: fmt.Sprintf(form, quote(host)), want: []string{"[app].readiness." + strings.Fields(path)[0], why}})
		}
	}
	for _, socket := range []string{bed.CRISocket, bed.Dir + "/agent/socket", "/run/docker.sock"} {
		for _, name := range []string{"expect", "http", "tcp", "grpc"} {
			all = append(all, attack{
				name: name + " " + socket, probe: fmt.Sprintf(`{"plugin": {"name": %q, "target": {"unix": %q}}}`, name, socket),
				want: []string{"[app].readiness.plugin.target.unix", "must not name sockets of its node"},
			})
		}
	}
	return append(all, []attack{
		{name: "a host twice", probe: `{"tcpSocket": {"host": "` + appIP + `", "port": 8080, "host": "127.0.0.1"}}`, want: []string{`"host" already set`}},
		{name: "a host of grpc", probe: `{"grpc": {"port": 8080, "host": "127.0.0.1"}}`, want: []string{"[app].readiness", "host"}},
		{name: "a host of the plugin grpc", probe: `{"plugin": {"name": "grpc", "config": {"port": 8080, "host": "127.0.0.1"}}}`, want: []string{"[app].readiness.plugin.config.host", "unknown field"}},
		{name: "two hosts of the plugin tcp", probe: `{"plugin": {"name": "tcp", "config": {"host": "` + victimIP + `", "HOST": "` + appIP + `", "port": 8080}}}`, want: []string{"[app].readiness.plugin.config.HOST", "unknown field"}},
		{name: "two other hosts of the plugin tcp", probe: `{"plugin": {"name": "tcp", "config": {"host": "` + appIP + `", "HOST": "` + victimIP + `", "port": 8080}}}`, want: []string{"[app].readiness.plugin.config.HOST", "unknown field"}},
		{name: "a second handler", probe: `{"tcpSocket": {"port": 7777}, "httpGet": {"host": "127.0.0.1", "port": 8080}}`, want: []string{"[app].readiness"}},
		{name: "exec", probe: `{"exec": {"command": ["cat", "/etc/shadow"]}}`, want: []string{"[app].readiness.exec", "--cri-socket"}},
		{name: "exec as a plugin", probe: `{"plugin": {"name": "exec", "config": {"command": ["cat", "/etc/shadow"]}}}`, want: []string{"[app].readiness", "--cri-socket"}},
		{name: "file", probe: `{"plugin": {"name": "httpcheck", "config": {"bearerToken": "${file:/var/run/secrets/kubernetes.io/serviceaccount/token}"}}}`, want: []string{"[app].readiness", "/var/run/secrets/kubernetes.io/serviceaccount/token"}},
		{name: "file of the yard", probe: `{"plugin": {"name": "httpcheck", "config": {"bearerToken": "${file:` + secretFile + `}"}}}`, want: []string{"[app].readiness", secretFile}},
		{name: "env", probe: `{"plugin": {"name": "httpcheck", "config": {"bearerToken": "${env:YARD_SECRET}"}}}`, want: []string{"[app].readiness", "YARD_SECRET"}},
		{name: "env of a builtin", probe: `{"httpGet": {"port": 7777, "httpHeaders": [{"name": "A", "value": "${env:YARD_SECRET}"}]}}`, want: []string{"[app].readiness", "YARD_SECRET"}},
		{name: "unknown plugin", probe: `{"plugin": {"name": "../../../bin/sh"}}`, want: []string{`unknown handler "../../../bin/sh"`}},
		{name: "unknown config", probe: `{"plugin": {"name": "dns", "config": {"queryName": "a.b", "nameserver": "127.0.0.1"}}}`, want: []string{"[app].readiness", "nameserver"}},
		{name: "method with CRLF", probe: `{"plugin": {"name": "httpcheck", "config": {"method": "GET / HTTP/1.1\r\nHost: x"}}}`, want: []string{"[app].readiness", "method"}},
		{name: "scheme", probe: `{"httpGet": {"port": 7777, "scheme": "file"}}`, want: []string{"[app].readiness", "scheme"}},
		{name: "port", probe: `{"tcpSocket": {"port": 70000}}`, want: []string{"[app].readiness", "port"}},
		{name: "period of a nanosecond", probe: `{"tcpSocket": {"port": 7777}, "period": "1ns"}`, want: []string{"[app].readiness.period"}},
		{name: "period below that of the operator", probe: `{"tcpSocket": {"port": 7777}, "period": "20ms"}`, want: []string{"[app].readiness.period", "100ms"}},
		{name: "negative period", probe: `{"tcpSocket": {"port": 7777}, "period": "-1s"}`, want: []string{"[app].readiness.period"}},
		{name: "huge thresholds", probe: `{"tcpSocket": {"port": 7777}, "failureThreshold": 99999999999}`, want: []string{"[app].readiness"}},
		{name: "control characters", probe: `{"tcpSocket": {"port": 7777}, "\u001b[31mred\u0000\u202e": 1}`, want: []string{"[app].readiness"}},
		{name: "mode restart", others: map[string]string{"prober.dev/liveness": "restart"}, probe: `{"tcpSocket": {"port": 7777}}`, want: []string{"[prober.dev/liveness]", "kubernetes.liveness.modes"}},
		{name: "mode evict", others: map[string]string{"prober.dev/liveness": "evict"}, probe: `{"tcpSocket": {"port": 7777}}`, want: []string{"[prober.dev/liveness]", "kubernetes.liveness.modes"}},
		{name: "mode unknown", others: map[string]string{"prober.dev/liveness": "\x1b[2Jreboot" + strings.Repeat("x", 5000)}, probe: `{"tcpSocket": {"port": 7777}}`, want: []string{"[prober.dev/liveness]"}},
		{name: "network", others: map[string]string{"prober.dev/network": "pod"}, probe: `{"tcpSocket": {"port": 7777, "host": "127.0.0.1"}}`, want: []string{"[prober.dev/network]", "podNetwork"}},
	}...)
}

const secretFile = bed.Dir + "/yard-secret"

func quote(text string) string {
	q := fmt.Sprintf("%q", text)
	return strings.ReplaceAll(q, `\x00`, `\u0000`)
}

// TestRefused checks that each attack is refused with an event that says where and why, and that the agent
// contacts no forbidden address.
func TestRefused(t *testing.T) {
	t.Setenv("YARD_SECRET", secret)
	y := newYard(t, refusedNode, refusedPolicy)
	if err := os.WriteFile(secretFile, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	serve(t, appIP+":7777", closeIt)
	all := refusals()
	for i := range all {
		annotations := map[string]string{"prober.dev/probes": `{"app": {"readiness": ` + all[i].probe + `}}`}
		maps.Copy(annotations, all[i].others)
		y.pod(t, refusedNode, fmt.Sprint("a", i), annotations)
	}
	var events map[string][]corev1.Event
	bed.Await(t, "an event for each attack", func() bool {
		events = y.events(t)
		return len(events) >= len(all) || t.Context().Err() != nil
	})
	y.awaitBenign(t, refusedNode)
	for i := range all {
		y.checkEvent(t, &all[i], events[fmt.Sprint("a", i)])
	}
	y.nothingReached(t)
	t.Logf("%d attacks", len(all))
}

// checkEvent checks the event that the owner of the pod gets for an attack.
func (y *yard) checkEvent(t *testing.T, a *attack, events []corev1.Event) {
	t.Helper()
	if len(events) == 0 {
		t.Errorf("%s: no event for %s", a.name, a.probe)
		return
	}
	e := events[0]
	if e.Reason != "ProbeInvalid" || e.Type != corev1.EventTypeWarning {
		t.Errorf("%s: event %s %s: %s", a.name, e.Type, e.Reason, e.Message)
	}
	for _, want := range append(a.want, "metadata.annotations") {
		if !strings.Contains(e.Message, want) {
			t.Errorf("%s: the event does not have %q: %s", a.name, want, e.Message)
		}
	}
	checkPlain(t, a.name, e.Message)
}

// checkPlain fails the test if a message has more than 1024 bytes, contains the secret, or is not safe to
// print on a terminal.
func checkPlain(t *testing.T, name, message string) {
	t.Helper()
	if len(message) > 1024 || !utf8.ValidString(message) || strings.Contains(message, secret) {
		t.Errorf("%s: the message has %d bytes, or a secret: %q", name, len(message), message)
	}
	if i := strings.IndexFunc(message, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }); i >= 0 {
		t.Errorf("%s: the message has control characters: %q", name, message)
	}
}
