package wire

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// connect is a TCP probe.
type connect struct {
	host, podIP string
	port        intstr.IntOrString
	ports       []v1.ContainerPort
}

func (c connect) ask(port int) question {
	if c.port == (intstr.IntOrString{}) {
		c.port = intstr.FromInt(port)
	}
	if c.podIP == "" {
		c.podIP = "127.0.0.1"
	}
	return question{action: v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: c.port, Host: c.host}}, podIP: c.podIP, ports: servedPorts(c.ports, port)}
}

func TestTCP(t *testing.T) {
	var table []situation
	add := func(name string, s server, p asker) { table = append(table, situation{name, s, p, ""}) }
	add("accepted", begins(), connect{})
	add("accepted, and closed at once", begins(abandon), connect{})
	table = append(table, situation{"accepted, and reset at once", begins(reset), connect{}, "reset at once"})
	add("accepted, and held", begins(open), connect{})
	add("accepted, and a banner", begins("220 smtp ESMTP\r\n"), connect{})
	add("accepted, and endless bytes", begins(endless("x")), connect{})
	add("accepted by TLS", begins().secured(certified()), connect{})
	add("accepted by IPv6", server{address: "::1", scripts: []script{{}}}, connect{podIP: "::1"})
	add("accepted by a mapped address", begins(), connect{podIP: "::ffff:127.0.0.1"})
	add("accepted by a name", begins(), connect{host: "localhost"})
	add("accepted by a name, with IPv6 only", server{address: "::1", scripts: []script{{}}}, connect{host: "localhost"})
	add("accepted by 0.0.0.0", begins(), connect{podIP: "0.0.0.0"})
	add("accepted by ::", server{address: "::1", scripts: []script{{}}}, connect{podIP: "::"})
	add("accepted by another address of loopback", server{address: "127.9.9.9", scripts: []script{{}}}, connect{podIP: "127.9.9.9"})
	add("backlog that is full", server{full: true, scripts: []script{{}}}, timed{connect{}})
	add("nobody at a name", server{}, connect{host: "localhost", port: intstr.FromInt(9)})
	for _, ip := range []string{"127.0.0.1", "::1", "0.0.0.0", "::", "127.9.9.9", "::ffff:127.0.0.1"} {
		add("refused by "+ip, server{}, connect{podIP: ip, port: intstr.FromInt(9)})
	}
	for _, ip := range unreachable {
		add("unreachable "+ip, server{}, timed{connect{podIP: ip, port: intstr.FromInt(9)}})
	}
	for _, host := range []string{
		"", " ", "a b", "a/b", "[::1]", "127.1", "0", "2130706433", "0x7f.0.0.1", "127.0.0.1.", "127.000.000.001", "::1%lo", "127.0.0.1%lo", "fe80::1%lo", "fe80::1%none", "127.0.0.1:80", ":", "::1:", "a:b", "localhost.", "LOCALHOST", "does-not-exist.invalid", "..", ".", "-", "ü.invalid", "a\x00b", "a\nb", strings.Repeat("a", 64) + ".invalid", strings.Repeat("a", 300), "256.256.256.256", "1.2.3", "1.2.3.4.5", ":::", "12345::", "g::1", "%", "@", "*",
	} {
		add(fmt.Sprintf("host %.80q of %d", host, len(host)), server{}, timed{connect{host: host, port: intstr.FromInt(9)}})
		add(fmt.Sprintf("pod IP %.80q of %d", host, len(host)), server{}, timed{connect{podIP: host, port: intstr.FromInt(9)}})
	}
	judgeAll(t, table)
}

func TestTCPPorts(t *testing.T) {
	var table []situation
	ports := []v1.ContainerPort{{Name: "web"}, {Name: "bad", ContainerPort: 70000}, {Name: "9", ContainerPort: 9}, {Name: "udp", Protocol: v1.ProtocolUDP}, {Name: "web", ContainerPort: 9}}
	for _, port := range []intstr.IntOrString{
		intstr.FromString("web"), intstr.FromString("udp"), intstr.FromString("bad"), intstr.FromString("9"), intstr.FromString("none"), intstr.FromString("65536"), intstr.FromString("0"), intstr.FromString("-9"), intstr.FromString(" 9"), intstr.FromString("http"), intstr.FromString("99999999999999999999"),
		intstr.FromInt(-1), intstr.FromInt(65536), intstr.FromInt(-2147483648), intstr.FromInt(2147483647), intstr.FromInt(9),
	} {
		table = append(table, situation{fmt.Sprintf("port %q of type %d", port.String(), port.Type), begins(), connect{port: port, ports: ports}, ""})
	}
	judgeAll(t, table)
}

// TestTCPSelfConnect probes a closed ephemeral port. The kernel may choose the same port for the client,
// which then connects to itself. net.Dialer detects this, closes the connection and tries again, so a closed
// port is not a success. Many attempts at one port make it likely.
func TestTCPSelfConnect(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2000 {
		q := connect{port: intstr.FromInt(port)}.ask(0)
		q.timeout = time.Second
		if a := compat.ask(q); a.result != "failure" {
			t.Fatalf("a closed port is %v", a)
		}
	}
}
