package wire

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestHTTPRequests compares the requests that the server receives.
func TestHTTPRequests(t *testing.T) {
	var table []situation
	add := func(name string, p get) { table = append(table, situation{name, answers(whole), p, ""}) }
	for _, path := range []string{
		"", "/", "a", "/a", "a/b", "/a/b/", "//", "//a", "//example.com/a", "///a", "/a//b", "/./a", "/../a", "/a/..", ".", "..", "./a", "../a", "*", "/*",
		"?", "?a", "/?", "/?a=b&c=d", "/a?b?c", "/a?b#c", "/a#b", "#", "#a", "/#a?b", "/a?b=ü", "/a?b=%zz", "/a?b= c", "/a?\"<>`{}|\\^", "/a?%", "/a?+", "/a?b=c;d", "/a?b=\x7f", "/a?a=b=c&&", "/?%41%2f%2F",
		"/%41", "/%2f", "/%2F", "/a%2fb", "/%zz", "/%", "/%2", "/%00", "/%0a", "/%0d%0a", "/%20", "/ ", "/a b", "a b", " a", "a ", "/a\tb", "/a\nb", "/a\rb", "/\x00", "/\x01", "/\x7f", "/a+b", "/ü", "/%c3%bc", "/日本", "/\u2028", "/😀", "/a%C3%BC", "/ü%41", "/ü?ü#ü",
		"/a;b", "/a:b", "a:b", "a:b/c", "/a@b", "@", "/a&b", "/a=b", "/a$b", "/a!b", "/a'b", "/(a)", "/a,b", "/~a", "/a_b-c.d", "/\"", "/<a>", "/[a]", "/{a}", "/a|b", "/a\\b", "\\a", "/a^b", "/`", ":", ":a", "/:", "a?:b",
		"http://example.com", "http://example.com/", "http://example.com/a?b", "http://example.com:81/a", "https://example.com/a", "HTTP://example.com/a", "http:///a", "http:a", "http:/a", "http://", "http://user:pass@example.com/a", "http://[::1]/a", "http://[::1/a", "http://a b/", "http://%zz/", "http://a:b/", "user:pass@example.com/a", "ftp://example.com/a", "file:///etc/passwd", "mailto:a@b", "urn:a:b", "data:a", "javascript:a", "a://b", "1://b", "://b", "x:", "x:y?z", "x:/y", "http:a?b#c", "http:?a", "http:#a", "http:%zz",
		"/" + strings.Repeat("a", 1000), "/" + strings.Repeat("a", 10000), "/" + strings.Repeat("a/", 20000), "/a HTTP/1.1\r\nX: y\r\n\r\n", "/ HTTP/1.1", "/a%0d%0aX:y", "/a\r\nX: y", "/%e4%zz", "%41", "%2f", "%2fa", "%", "/a%", "a%20b", "/./%2e/", "/?a#b#c", "/a??b", "/a?/b/../c", "//a/b?c", "//user@a/b", "//a:1/b", "//[::1]:1/b", "//a b/c", "//%zz/c", "//:1/c",
	} {
		name := path
		if len(name) > 80 {
			name = fmt.Sprintf("%s of %d", name[:10], len(path))
		}
		add(fmt.Sprintf("path %q", name), get{path: path})
	}
	for _, h := range [][]string{
		{"X", "y"}, {"x", "y"}, {"X", ""}, {"X", " "}, {"X", " y "}, {"X", "\ty\t"}, {"X", "a\tb"}, {"X", "a  b"}, {"X", "y", "X", "z"}, {"X", "y", "x", "z"}, {"x-a-b", "y"}, {"X_A", "y"}, {"x.a", "y"}, {"X", "ü"}, {"X", "日本"}, {"X", "\x00"}, {"X", "\r\nY: z"}, {"X", "\n"}, {"X", "\r"}, {"X", "a\nb"}, {"X", "\x7f"}, {"X", "\x01"}, {"X", "\u0080"}, {"X", "\"y\""}, {"X", "a,b"}, {"X", "a:b"},
		{"", "y"}, {" ", "y"}, {"X Y", "z"}, {" X", "y"}, {"X ", "y"}, {"X:", "y"}, {":X", "y"}, {":path", "/y"}, {":authority", "y"}, {"X\n", "y"}, {"X\r\nY", "z"}, {"Ü", "y"}, {"X(", "y"}, {"X/", "y"}, {"X@", "y"}, {"X,", "y"}, {"X\x00", "y"}, {"X\x7f", "y"}, {"!#$%&'*+-.^_`|~", "y"}, {"0", "1"}, {"X", "y", "bad name", "z"}, {"-", "y"}, {"--a", "y"}, {"a-", "y"}, {"aB-cD", "y"}, {"ETag", "y"}, {"WWW-Authenticate", "y"}, {"dnt", "1"},
		{"Host", "example.com"}, {"host", "example.com"}, {"HOST", "example.com"}, {"Host", ""}, {"Host", " "}, {"Host", "example.com:80"}, {"Host", "a b"}, {"Host", "ü.com"}, {"Host", "[::1]"}, {"Host", "[fe80::1%25eth0]"}, {"Host", "[fe80::1%eth0]:1"}, {"Host", "a", "Host", "b"}, {"Host", "", "Host", "b"}, {"Host", "a/b"}, {"Host", "user@a"}, {"Host", "a\r\nX: y"}, {"Host", "a\nb"}, {"Host", "a?b"}, {"Host", "a,b"}, {"Host", "http://a"}, {"Host", "A.Example.COM"}, {"Host", "a."}, {"Host", "1.2.3.4"}, {"Host", ":80"}, {"Host", "a\x00b"}, {"Host", "a:b:c"}, {"Host", "xn--abc"}, {"Host", "a", "host", "b"}, {"Host", "日本.jp"}, {"Host", "a;b"}, {"Host", "-"}, {"Host", "*"}, {"Host", "%41"},
		{"Accept", "text/html"}, {"accept", "text/html"}, {"Accept", ""}, {"Accept", " "}, {"Accept", "", "Accept", "a/b"}, {"Accept", "a/b", "Accept", ""}, {"Accept", "a/b", "accept", "c/d"},
		{"User-Agent", "me"}, {"user-agent", "me"}, {"USER-AGENT", "me"}, {"User-Agent", ""}, {"User-Agent", " "}, {"User-Agent", "a", "User-Agent", "b"}, {"User-Agent", "", "User-Agent", "b"}, {"User-Agent", "a\nb"}, {"User-Agent", "ü"}, {"User-Agent", " a "}, {"User-Agent", "a\x00"}, {"User-Agent", "a\r\nX: y"}, {"User-Agent", "\r\n"},
		{"Connection", "close"}, {"Connection", "keep-alive"}, {"connection", "Keep-Alive"}, {"Connection", ""}, {"Connection", "upgrade", "Upgrade", "websocket"}, {"Connection", "close", "Connection", "x"}, {"Connection", "x, close"}, {"Upgrade", "h2c"}, {"Keep-Alive", "timeout=5"}, {"Proxy-Connection", "close"},
		{"Content-Length", "0"}, {"Content-Length", "2"}, {"content-length", "2"}, {"Content-Length", "x"}, {"Content-Length", ""}, {"Content-Type", "text/plain"}, {"Transfer-Encoding", "chunked"}, {"transfer-encoding", "gzip"}, {"Transfer-Encoding", ""}, {"Trailer", "X"}, {"trailer", "Content-Length"}, {"TE", "trailers"}, {"Expect", "100-continue"}, {"expect", "100-Continue"}, {"Expect", "x"},
		{"Accept-Encoding", "gzip"}, {"accept-encoding", ""}, {"Accept-Encoding", "identity"}, {"Range", "bytes=0-1"}, {"Authorization", "Bearer x"}, {"Cookie", "a=b"}, {"Cookie", "a=b", "Cookie", "c=d"}, {"Referer", "x"}, {"Origin", "null"}, {"If-None-Match", "x"}, {"Date", "x"}, {"Cache-Control", "no-cache"}, {"Pragma", "no-cache"}, {"X-Forwarded-For", "1.2.3.4"}, {"Sec-Fetch-Mode", "x"}, {"HTTP2-Settings", "AAMAAABk"}, {"Max-Forwards", "1"},
		{"B", "1", "A", "2", "c", "3", "User-Agent", "z", "Zeta", "4", "Accept", "t/t", "Host", "h"}, {"Z", "1", "A", "2", "M", "3"}, {"a", "1", "B", "2", "A", "3", "b", "4"}, {"X", strings.Repeat("y", 10000)}, {strings.Repeat("X", 10000), "y"}, {"X-Empty", "", "X-Full", "y"},
	} {
		name := fmt.Sprintf("%q", h)
		if len(name) > 200 {
			name = fmt.Sprintf("%s of %d", name[:20], len(name))
		}
		add("headers "+name, get{path: "/a", headers: h})
	}
	var thousand []string
	for i := range 1000 {
		thousand = append(thousand, fmt.Sprintf("X-%d", i), fmt.Sprint(i))
	}
	add("1,000 headers", get{path: "/", headers: thousand})
	for _, host := range []string{
		"127.0.0.1", "localhost", "LOCALHOST", "localhost.", "127.1", "127.0.0.2", "::ffff:127.0.0.1", "0.0.0.0", "0", "127.0.0.1.", "2130706433", "0x7f.0.0.1", "127.000.000.001", "::", "0:0:0:0:0:0:0:1", "::1%lo", "[::1]", "[127.0.0.1]",
		"a b", "a/b", "a?b", "a#b", "a@b", "user:pass@127.0.0.1", "a:b", "127.0.0.1:80", "%41", "%zz", "127.0.0.1%zone", "fe80::1%25lo", "ü", "日本", "a\nb", "a\x00b", "a\\b", "<a>", "a\"b", "[", "]", "a[b", "-", "_", "*", ".", "..", " ", "a,b", "a;b", "a=b", "a&b", "a'b", "(a)", "a+b", "a!b", "a$b", "~", "{a}", "a|b", "a^b", "`",
	} {
		table = append(table, situation{fmt.Sprintf("host %q", host), answers(whole), get{path: "/a", host: host}, ""},
			situation{fmt.Sprintf("pod IP %q", host), answers(whole), get{path: "/a", podIP: host}, ""})
	}
	for _, name := range []string{"does-not-exist.invalid", strings.Repeat("a", 64) + ".invalid", strings.Repeat("a.", 200) + "invalid"} {
		table = append(table, situation{fmt.Sprintf("host %.50q", name), server{}, get{path: "/", host: name, port: intstr.FromInt(80)}, ""})
	}
	table = append(table, situation{"IPv6", server{address: "::1", scripts: []script{{request, whole}}}, get{path: "/a", podIP: "::1"}, ""},
		situation{"IPv6 in full", server{address: "::1", scripts: []script{{request, whole}}}, get{path: "/a", podIP: "0:0:0:0:0:0:0:1"}, ""},
		situation{"IPv6 in upper case", server{scripts: []script{{request, whole}}}, get{path: "/a", podIP: "::FFFF:127.0.0.1"}, ""},
		situation{"IPv6 as a host", server{address: "::1", scripts: []script{{request, whole}}}, get{path: "/a", host: "::1"}, ""},
		situation{"IPv6 with a Host header", server{address: "::1", scripts: []script{{request, whole}}}, get{path: "/a", podIP: "::1", headers: []string{"Host", "x"}}, ""},
		situation{"IPv6 with a redirect", server{address: "::1", scripts: []script{{request, to(302, "http://[::1]:{port}/b")}, {request, whole}}}, get{path: "/a", podIP: "::1"}, ""},
		situation{"IPv6 that refuses", server{}, get{path: "/a", podIP: "::1", port: intstr.FromInt(9)}, ""},
		situation{"a name whose IPv6 address refuses", answers(whole), get{path: "/a", host: "localhost"}, ""},
		situation{"a name whose IPv4 address refuses", server{address: "::1", scripts: []script{{request, whole}}}, get{path: "/a", host: "localhost"}, ""},
		situation{"a name that refuses", server{}, get{path: "/a", host: "localhost", port: intstr.FromInt(9)}, ""},
		situation{"a reset of a name", begins(reset), get{path: "/a", host: "localhost"}, "early close"},
	)
	for _, scheme := range []v1.URIScheme{"", "HTTP", "http", "hTTp"} {
		add(fmt.Sprintf("scheme %q", scheme), get{path: "/", scheme: scheme})
	}
	judgeAll(t, table)
}

func TestHTTPPorts(t *testing.T) {
	var table []situation
	ports := []v1.ContainerPort{{Name: "web"}, {Name: "Bad", ContainerPort: 70000}, {Name: "9", ContainerPort: 9}, {Name: "udp", Protocol: v1.ProtocolUDP}, {Name: "web", ContainerPort: 9}, {Name: "neg", ContainerPort: -1}}
	for _, port := range []intstr.IntOrString{
		intstr.FromString("web"), intstr.FromString("udp"), intstr.FromString("Web"), intstr.FromString("Bad"), intstr.FromString("neg"), intstr.FromString("9"), intstr.FromString("none"), intstr.FromString(" web"), intstr.FromString("+9"), intstr.FromString("09"), intstr.FromString("9 "), intstr.FromString("0x9"), intstr.FromString("9.0"), intstr.FromString("65536"), intstr.FromString("0"), intstr.FromString("-9"), intstr.FromString("99999999999999999999"), intstr.FromString("９"), intstr.FromString("http"),
		intstr.FromInt(-1), intstr.FromInt(65536), intstr.FromInt(70000), intstr.FromInt(-2147483648), intstr.FromInt(2147483647), intstr.FromInt(9),
	} {
		table = append(table, situation{fmt.Sprintf("port %q of type %d", port.String(), port.Type), answers(whole), get{path: "/", port: port, ports: ports}, ""})
	}
	judgeAll(t, table)
}

func TestHTTPUnreachable(t *testing.T) {
	var table []situation
	for _, host := range unreachable {
		table = append(table, situation{host, server{}, timed{get{path: "/", podIP: host, port: intstr.FromInt(9)}}, ""})
	}
	table = append(table, situation{"full backlog", server{full: true, scripts: []script{{}}}, timed{root}, ""})
	judgeAll(t, table)
}

// unreachable are addresses that do not answer, or that the kernel refuses.
var unreachable = []string{"240.0.0.1", "255.255.255.255", "0.0.0.0", "::", "192.0.2.1", "198.51.100.7", "224.0.0.1", "169.254.1.1", "fe80::1", "2001:db8::1", "ff02::1", "::ffff:240.0.0.1", "100::1"}

// timed is a probe with a short timeout.
type timed struct{ asker }

func (t timed) ask(port int) question {
	q := t.asker.ask(port)
	q.timeout = shortDeadline
	return q
}
