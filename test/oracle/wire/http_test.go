package wire

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// get is an HTTP probe.
type get struct {
	path    string
	headers []string // pairs of name and value
	host    string
	scheme  v1.URIScheme
	podIP   string // 127.0.0.1 if empty
	port    intstr.IntOrString
	ports   []v1.ContainerPort // the number 0 stands for the server's port
}

func (g get) ask(port int) question {
	if g.port == (intstr.IntOrString{}) {
		g.port = intstr.FromInt(port)
	}
	a := &v1.HTTPGetAction{Path: g.path, Port: g.port, Host: g.host, Scheme: g.scheme}
	for i := 0; i < len(g.headers); i += 2 {
		a.HTTPHeaders = append(a.HTTPHeaders, v1.HTTPHeader{Name: g.headers[i], Value: g.headers[i+1]})
	}
	if g.podIP == "" {
		g.podIP = "127.0.0.1"
	}
	return question{action: v1.ProbeHandler{HTTPGet: a}, podIP: g.podIP, ports: servedPorts(g.ports, port)}
}

// servedPorts returns ports with the number 0 replaced by port.
func servedPorts(ports []v1.ContainerPort, port int) []v1.ContainerPort {
	ports = slices.Clone(ports)
	for i := range ports {
		if ports[i].ContainerPort == 0 {
			ports[i].ContainerPort = int32(port)
		}
	}
	return ports
}

var root = get{path: "/"}

// The beginnings of responses.
const (
	ok    = "HTTP/1.1 200 OK\r\n"
	body2 = "Content-Length: 2\r\n\r\nok"
	whole = ok + body2
	limit = 10 << 10 // so many bytes of the body are read
)

func TestHTTPStatuses(t *testing.T) {
	var table []situation
	add := func(name, text string) {
		table = append(table, situation{name: name, server: answers(text), probe: root})
	}
	for code := 100; code < 1000; code++ {
		add(fmt.Sprintf("status %d", code), fmt.Sprintf("HTTP/1.1 %d Any Reason\r\n%s", code, body2))
	}
	for _, line := range []string{
		"HTTP/1.1 200", "HTTP/1.1 200 ", "HTTP/1.1  200 OK", "HTTP/1.1 200  OK", "HTTP/1.1\t200 OK", "HTTP/1.1 200\tOK", " HTTP/1.1 200 OK", "\tHTTP/1.1 200 OK",
		"HTTP/1.0 200 OK", "HTTP/0.9 200 OK", "HTTP/1.2 200 OK", "HTTP/1.9 200 OK", "HTTP/2.0 200 OK", "HTTP/2 200 OK", "HTTP/3.0 200 OK", "HTTP/9.9 200 OK", "HTTP/10.1 200 OK", "HTTP/1.10 200 OK",
		"HTTP/1 200 OK", "HTTP/1. 200 OK", "HTTP/.1 200 OK", "HTTP/ 200 OK", "HTTP 200 OK", "http/1.1 200 OK", "Http/1.1 200 OK", "HTTPS/1.1 200 OK", "HTTP/-1.1 200 OK", "HTTP/+1.1 200 OK", "HTTP/1.1a 200 OK", "HTTP/01.1 200 OK",
		"HTTP/1.1 0 OK", "HTTP/1.1 00 OK", "HTTP/1.1 000 OK", "HTTP/1.1 001 OK", "HTTP/1.1 020 OK", "HTTP/1.1 099 OK", "HTTP/1.1 20 OK", "HTTP/1.1 2 OK", "HTTP/1.1 2000 OK", "HTTP/1.1 1000 OK", "HTTP/1.1 0200 OK",
		"HTTP/1.1 -20 OK", "HTTP/1.1 +20 OK", "HTTP/1.1 -200 OK", "HTTP/1.1 2.0 OK", "HTTP/1.1 2e2 OK", "HTTP/1.1 0x1 OK", "HTTP/1.1 abc OK", "HTTP/1.1 20a OK", "HTTP/1.1 2 0 OK", "HTTP/1.1 ２００ OK", "HTTP/1.1 200OK", "HTTP/1.1 OK", "HTTP/1.1", "HTTP/1.1 ",
		"ICY 200 OK", "RTSP/1.0 200 OK", "SIP/2.0 200 OK", "220 smtp.example.com ESMTP", "+OK ready", "-ERR", "* OK IMAP4", "SSH-2.0-OpenSSH_9.6", "<html>", "{}", "{\"status\":\"ok\"}", "OK", "200", "200 OK", "\x00", "\x00\x00\x00\x00", "\xff\xfe", "GET / HTTP/1.1",
		"HTTP/1.1 200 " + strings.Repeat("x", 1000), "HTTP/1.1 200 " + strings.Repeat("x", 4095), "HTTP/1.1 200 " + strings.Repeat("x", 4096), "HTTP/1.1 200 " + strings.Repeat("x", 70000),
		"HTTP/1.1 200 \x00", "HTTP/1.1 200 \xff\xfe", "HTTP/1.1 200 \x7f\x01\x02", "HTTP/1.1 200 große Güte", "HTTP/1.1 200 OK\x00OK", "HTTP/1.1 200 a: b", "HTTP/1.1 500 200", "HTTP/1.1 200 500",
		"", "HTTP/1.1 200 OK\r", "HTTP/1.1 200 OK\v", "\ufeffHTTP/1.1 200 OK", "HTTP/1.1/1.1 200 OK", "HTTP//1.1 200 OK", "HTTP/1,1 200 OK", "HTTP/a.b 200 OK",
	} {
		for _, ending := range []string{"\r\n", "\n"} {
			name := line
			if len(name) > 60 {
				name = fmt.Sprintf("%s of %d", name[:20], len(line))
			}
			add(fmt.Sprintf("line %q with ending %q", name, ending), line+ending+"Content-Length: 2"+ending+ending+"ok")
			add(fmt.Sprintf("line %q alone with ending %q", name, ending), line+ending)
		}
		add(fmt.Sprintf("line %.60q of %d without an ending", line, len(line)), line)
		add(fmt.Sprintf("line %.60q of %d as a 500", line, len(line)), strings.Replace(line, "200", "500", 1)+"\r\n\r\n")
	}
	add("line that is a bare CR", "HTTP/1.1 200 OK\rContent-Length: 2\r\rok")
	add("line of 1 MB", "HTTP/1.1 200 "+strings.Repeat("x", 1<<20)+"\r\n\r\n")
	add("line of 11 MB", "HTTP/1.1 200 "+strings.Repeat("x", 11<<20)+"\r\n\r\n")
	add("line of 11 MB without a status", strings.Repeat("x", 11<<20))
	add("empty line before the status", "\r\n"+whole)
	add("empty lines before the status", "\r\n\r\n"+whole)
	add("answer of HTTP/0.9", "<html>ok</html>")
	add("nothing", "")
	judgeAll(t, table)
}

func TestHTTPInformational(t *testing.T) {
	judgeAll(t, []situation{
		{"continue", answers("HTTP/1.1 100 Continue\r\n\r\n" + whole), root, ""},
		{"continue, with headers", answers("HTTP/1.1 100 Continue\r\nX: y\r\nContent-Length: 5\r\n\r\n" + whole), root, ""},
		{"continue, and later the answer", answers("HTTP/1.1 100 Continue\r\n\r\n", 5*time.Millisecond, whole), root, ""},
		{"continue, and no answer", answers("HTTP/1.1 100 Continue\r\n\r\n"), root, ""},
		{"continue, and a hang", answers("HTTP/1.1 100 Continue\r\n\r\n", hang), root, ""},
		{"continue, and a reset", answers("HTTP/1.1 100 Continue\r\n\r\n", 20*time.Millisecond, reset), root, ""},
		{"continue, and an error", answers("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 500 No\r\n\r\n"), root, ""},
		{"continue, and garbage", answers("HTTP/1.1 100 Continue\r\n\r\ngarbage\r\n\r\n"), root, ""},
		{"continue with a body", answers("HTTP/1.1 100 Continue\r\nContent-Length: 2\r\n\r\nno" + whole), root, ""},
		{"processing", answers("HTTP/1.1 102 Processing\r\n\r\n" + whole), root, ""},
		{"early hints", answers("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + whole), root, ""},
		{"five of them", answers(strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 5) + whole), root, ""},
		{"six of them", answers(strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 6) + whole), root, ""},
		{"a hundred of them", answers(strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 100) + whole), root, ""},
		{"of 1.0", answers("HTTP/1.0 100 Continue\r\n\r\n" + whole), root, ""},
		{"110", answers("HTTP/1.1 110 Odd\r\n\r\n" + whole), root, ""},
		{"199", answers("HTTP/1.1 199 Odd\r\n\r\n" + whole), root, ""},
		{"switching protocols", answers("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"), root, ""},
		{"switching protocols, with bytes", answers("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nfoo"), root, ""},
		{"switching protocols to nothing", answers("HTTP/1.1 101 Switching Protocols\r\n\r\n"), root, ""},
		{"switching protocols to h2c", answers("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", 20*time.Millisecond), root, ""},
		{"switching protocols and an answer", answers("HTTP/1.1 101 Switching Protocols\r\n\r\n" + whole), root, ""},
		{"switching protocols with a length", answers("HTTP/1.1 101 Switching Protocols\r\nContent-Length: 3\r\n\r\nfoo"), root, ""},
		{"100 KB of headers", answers("HTTP/1.1 103 Early Hints\r\nX: " + strings.Repeat("x", 100<<10) + "\r\n\r\n" + whole), root, ""},
		{"11 MB of headers in five", answers(strings.Repeat("HTTP/1.1 103 Early Hints\r\nX: "+strings.Repeat("x", 22<<17)+"\r\n\r\n", 5) + whole), root, ""},
		{"endless", answers(endless("HTTP/1.1 103 Early Hints\r\n\r\n")), root, ""},
	})
}

func TestHTTPHeaders(t *testing.T) {
	var table []situation
	add := func(name, headers string) {
		table = append(table, situation{"with " + name, answers(ok + headers + body2), root, ""},
			situation{"only " + name, answers(ok + headers + "\r\nbody"), root, ""},
			situation{"500 with " + name, answers("HTTP/1.1 500 No\r\n" + headers + body2), root, ""})
	}
	for _, line := range []string{
		"X: y", "X:y", "X:  y  ", "X:\ty\t", "X:", "X: ", ":", ": y", " : y", "X : y", "X\t: y", " X: y", "\tX: y", "X", "X y", "X;y", "=",
		"X: y\r\n z", "X: y\r\n\tz", "X:\r\n z", "X: y\r\n ", "X: y\r\n \r\n z", " z", "\tz",
		"X: \x00", "X\x00: y", "X: \x01", "X\x01: y", "X: \x7f", "X\x7f: y", "X: \xff", "X\xff: y", "X: ü", "Ü: x", "X: a\rb", "X\r: y", "X: y\r", "X: \v", "X: \f", "X: a\tb",
		"X y: z", "X(y): z", "X/y: z", "X@y: z", "X[y]: z", "\"X\": y", "X,y: z", "X{: z", "X=y: z", "X?y: z", "X\\y: z", "!#$%&'*+-.^_`|~: z", "0: 1", "-: -",
		"x: y", "X: y\r\nX: z", "X: y\r\nx: z", "Date: never", "Server: x\r\nServer: y", "Connection: close", "Connection: keep-alive", "Connection: Close", "Connection: close, keep-alive", "Connection: upgrade\r\nUpgrade: foo",
		"Keep-Alive: timeout=5", "Proxy-Connection: keep-alive", "Content-Type: text/html; charset=utf-16", "Content-Type:", "Content-Encoding: gzip", "Content-Encoding: br", "Set-Cookie: a=b\r\nSet-Cookie: c=d", "Location: /elsewhere", "Refresh: 0; url=/",
		"Trailer: X", "Trailer: Content-Length", "Upgrade: h2c", "Alt-Svc: h2=\":1\"", "Strict-Transport-Security: max-age=1", "HTTP2-Settings: AAMAAABk", "Transfer-Encoding: ", "TE: trailers", "Pragma: no-cache", "Host: x", "Content-Range: bytes 0-1/2",
	} {
		add(fmt.Sprintf("%q", line), line+"\r\n")
		if strings.ContainsAny(line, "\r :") {
			continue
		}
		add(fmt.Sprintf("%q and a bare LF", line), line+"\n")
	}
	for name, headers := range map[string]string{
		"1,000 headers":         many("X-%d: y\r\n", 1000),
		"10,000 headers":        many("X-%d: y\r\n", 10000),
		"10,000 of one name":    strings.Repeat("X: y\r\n", 10000),
		"a value of 4 KB":       "X: " + strings.Repeat("y", 4096) + "\r\n",
		"a value of 64 KB":      "X: " + strings.Repeat("y", 64<<10) + "\r\n",
		"a value of 1 MB":       "X: " + strings.Repeat("y", 1<<20) + "\r\n",
		"a value of 9 MB":       "X: " + strings.Repeat("y", 9<<20) + "\r\n",
		"a value of 10 MB":      "X: " + strings.Repeat("y", 10<<20) + "\r\n",
		"a value of 11 MB":      "X: " + strings.Repeat("y", 11<<20) + "\r\n",
		"a name of 64 KB":       strings.Repeat("X", 64<<10) + ": y\r\n",
		"a line of 64 KB":       strings.Repeat("X", 64<<10) + "\r\n",
		"11 MB of many":         strings.Repeat("X: "+strings.Repeat("y", 500)+"\r\n", 22<<10),
		"a folded one of 64 KB": "X: y\r\n" + strings.Repeat(" z\r\n", 16<<10),
	} {
		add(name, headers)
	}
	for name, text := range map[string]string{
		"LF only":                     "HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
		"LF in headers":               "HTTP/1.1 200 OK\r\nX: y\nContent-Length: 2\n\r\nok",
		"LF at the end":               ok + "Content-Length: 2\r\n\nok",
		"CR CR LF":                    "HTTP/1.1 200 OK\r\r\nContent-Length: 2\r\r\n\r\r\nok",
		"CR only":                     "HTTP/1.1 200 OK\rContent-Length: 2\r\rok",
		"LF CR":                       "HTTP/1.1 200 OK\n\rContent-Length: 2\n\r\n\rok",
		"no headers":                  ok + "\r\n",
		"no headers, and a body":      ok + "\r\nok",
		"no end of headers":           ok + "X: y\r\n",
		"no end of the last header":   ok + "X: y",
		"NUL after the headers":       ok + "\x00\r\nok",
		"a second answer":             whole + whole,
		"a second answer, a failure":  whole + "HTTP/1.1 500 No\r\n\r\n",
		"garbage after the answer":    whole + "garbage",
		"headers in upper case":       ok + "CONTENT-LENGTH: 2\r\n\r\nok and more",
		"headers in lower case":       ok + "content-length: 2\r\n\r\nok and more",
		"a space at the end of names": ok + "Content-Length : 2\r\n\r\nok and more",
	} {
		table = append(table, situation{name, answers(text), root, ""})
	}
	table = append(table,
		situation{"endless headers", answers(ok, endless("X: "+strings.Repeat("y", 500)+"\r\n")), root, ""},
		situation{"endless header", answers(ok, "X: ", endless("y")), root, ""},
		situation{"endless name", answers(ok, endless("y")), root, ""},
		situation{"endless status line", answers(endless("y")), root, ""},
		situation{"endless lines", answers(endless("\r\n")), root, ""},
		situation{"endless folds", answers(ok, "X: y\r\n", endless(" y\r\n")), root, ""},
		situation{"endless NUL", answers(endless("\x00")), root, ""},
	)
	judgeAll(t, table)
}

func many(format string, n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, format, i)
	}
	return text.String()
}

func TestHTTPLengths(t *testing.T) {
	var table []situation
	add := func(name string, steps ...any) {
		table = append(table, situation{name, answers(steps...), root, ""})
	}
	for _, length := range []string{
		"", " ", "0", "1", "2", "02", "002", "3", "5", "+2", "-2", "-0", "-1", "2 ", " 2 ", "\t2\t", "2 2", "2,2", "2, 2", "2,3", "2;2", "2.0", "2e0", "0x2", "two", "2\x00", "\"2\"", "２",
		"9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616", "99999999999999999999", "-9223372036854775808", "00000000000000000000000002", "1_0", "NaN", "2 bytes", ",2", "2,", "2\v", "0,0",
	} {
		add(fmt.Sprintf("length %q", length), ok+"Content-Length: "+length+"\r\n\r\nok")
		add(fmt.Sprintf("length %q of a 404", length), "HTTP/1.1 404 No\r\nContent-Length: "+length+"\r\n\r\nok")
		add(fmt.Sprintf("length %q of a chunked body", length), ok+"Transfer-Encoding: chunked\r\nContent-Length: "+length+"\r\n\r\n2\r\nok\r\n0\r\n\r\n")
		add(fmt.Sprintf("length %q of a 304", length), "HTTP/1.1 304 Not Modified\r\nContent-Length: "+length+"\r\n\r\nok")
		add(fmt.Sprintf("length %q of HTTP/1.0", length), "HTTP/1.0 200 OK\r\nContent-Length: "+length+"\r\n\r\nok")
	}
	for _, two := range [][2]string{{"2", "2"}, {"2", "02"}, {"2", "+2"}, {"2", " 2"}, {"2", "3"}, {"3", "2"}, {"2", ""}, {"", "2"}, {"0", "2"}, {"2", "-2"}, {"x", "x"}, {"", ""}} {
		add(fmt.Sprintf("lengths %q", two), fmt.Sprintf("%sContent-Length: %s\r\nContent-Length: %s\r\n\r\nok", ok, two[0], two[1]))
		add(fmt.Sprintf("lengths %q of a chunked body", two), fmt.Sprintf("%sTransfer-Encoding: chunked\r\nContent-Length: %s\r\nContent-Length: %s\r\n\r\n2\r\nok\r\n0\r\n\r\n", ok, two[0], two[1]))
	}
	add("length three times", ok+strings.Repeat("Content-Length: 2\r\n", 3)+"\r\nok")
	for _, coding := range []string{
		"chunked", "Chunked", "CHUNKED", " chunked ", "\tchunked", "chunked, chunked", "gzip, chunked", "chunked, gzip", "identity", "gzip", "deflate", "chunked;x=y", "chunked,", ",chunked", "xchunked", "chunkedx", "chun ked", "\"chunked\"", "", "chunked\r\nTransfer-Encoding: chunked",
		"identity\r\nTransfer-Encoding: chunked", "chunked\r\nTransfer-Encoding: identity", "\vchunked", "chunked\x00",
	} {
		for name, body := range map[string]string{"chunks": "2\r\nok\r\n0\r\n\r\n", "no chunks": "ok"} {
			add(fmt.Sprintf("coding %q and %s", coding, name), ok+"Transfer-Encoding: "+coding+"\r\n\r\n"+body)
			add(fmt.Sprintf("coding %q of HTTP/1.0 and %s", coding, name), "HTTP/1.0 200 OK\r\nTransfer-Encoding: "+coding+"\r\n\r\n"+body)
			add(fmt.Sprintf("coding %q of a 204 and %s", coding, name), "HTTP/1.1 204 None\r\nTransfer-Encoding: "+coding+"\r\n\r\n"+body)
			add(fmt.Sprintf("coding %q of a 500 and %s", coding, name), "HTTP/1.1 500 No\r\nTransfer-Encoding: "+coding+"\r\n\r\n"+body)
		}
	}
	for _, size := range []int{0, 1, 511, 512, 4095, 4096, 4097, limit - 1, limit, limit + 1, 2 * limit, 64 << 10, 1 << 20} {
		text := strings.Repeat("0123456789abcdef", size/16+1)[:size]
		for _, code := range []string{"200 OK", "300 Many", "404 No"} {
			line := "HTTP/1.1 " + code + "\r\n"
			add(fmt.Sprintf("%s and %d bytes", code, size), line+fmt.Sprintf("Content-Length: %d\r\n\r\n", size)+text)
			add(fmt.Sprintf("%s and %d bytes without a length", code, size), line+"\r\n"+text)
			add(fmt.Sprintf("%s and %d bytes in a chunk", code, size), line+"Transfer-Encoding: chunked\r\n\r\n"+chunk(text)+chunk(""))
			add(fmt.Sprintf("%s and %d bytes, and one is missing", code, size), line+fmt.Sprintf("Content-Length: %d\r\n\r\n", size+1)+text)
			add(fmt.Sprintf("%s and %d bytes, and one is missing until the deadline", code, size), line+fmt.Sprintf("Content-Length: %d\r\n\r\n", size+1)+text, hang)
			add(fmt.Sprintf("%s and %d bytes without a length, open until the deadline", code, size), line+"\r\n"+text, hang)
			add(fmt.Sprintf("%s and %d bytes, one too many", code, size), line+fmt.Sprintf("Content-Length: %d\r\n\r\n", max(0, size-1))+text)
			add(fmt.Sprintf("%s and %d bytes, open until the client closes", code, size), line+fmt.Sprintf("Content-Length: %d\r\n\r\n", size)+text, open)
			add(fmt.Sprintf("%s and %d bytes, and a reset", code, size), line+fmt.Sprintf("Content-Length: %d\r\n\r\n", size)+text, 20*time.Millisecond, reset)
		}
	}
	for name, text := range map[string]string{
		"é over the limit":       strings.Repeat("é", limit),
		"€ over the limit":       strings.Repeat("€", limit),
		"😀 over the limit":       "a" + strings.Repeat("😀", limit),
		"0xff over the limit":    strings.Repeat("\xff", limit+1),
		"0x80 over the limit":    strings.Repeat("\x80", limit+1),
		"NUL":                    "a\x00b",
		"gzip":                   "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\xcb\xcf\x06\x00\x47\xdd\xdc\x79\x02\x00\x00\x00",
		"a BOM":                  "\ufeffok",
		"a terminal's sequences": "\x1b[31mred\x1b[0m\a",
	} {
		for _, code := range []int{200, 300, 500} {
			add(fmt.Sprintf("%d and a body of %s", code, name), fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: %d\r\nContent-Encoding: gzip\r\n\r\n", code, len(text))+text)
		}
	}
	for _, code := range []int{200, 300, 404} {
		line := fmt.Sprintf("HTTP/1.1 %d X\r\n", code)
		add(fmt.Sprintf("%d and an endless body", code), line+"\r\n", endless("x"))
		add(fmt.Sprintf("%d and an endless body of a huge length", code), line+"Content-Length: 9223372036854775807\r\n\r\n", endless("x"))
		add(fmt.Sprintf("%d and endless chunks", code), line+"Transfer-Encoding: chunked\r\n\r\n", endless("1\r\nx\r\n"))
	}
	for _, code := range []int{204, 304, 205, 200, 202, 206} {
		line := fmt.Sprintf("HTTP/1.1 %d X\r\n", code)
		add(fmt.Sprintf("%d with a body and a length", code), line+"Content-Length: 4\r\n\r\nbody")
		add(fmt.Sprintf("%d with a body and no length", code), line+"\r\nbody")
		add(fmt.Sprintf("%d with a length and no body", code), line+"Content-Length: 4\r\n\r\n")
		add(fmt.Sprintf("%d with a length and no body, open", code), line+"Content-Length: 4\r\n\r\n", hang)
		add(fmt.Sprintf("%d without a length, open", code), line+"\r\n", hang)
		add(fmt.Sprintf("%d with chunks", code), line+"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")
		add(fmt.Sprintf("%d with length 0, open", code), line+"Content-Length: 0\r\n\r\n", open)
	}
	judgeAll(t, table)
}

// open keeps the connection open until the client closes it. Unlike after hang, the probe can end earlier.
var open act = func(c *served) error { <-c.closed; return nil }

func chunk(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }

func TestHTTPChunks(t *testing.T) {
	const chunked = "Transfer-Encoding: chunked\r\n\r\n"
	var table []situation
	for name, text := range map[string]string{
		"empty":                          "0\r\n\r\n",
		"two":                            "2\r\nok\r\n3\r\nyes\r\n0\r\n\r\n",
		"upper case":                     "A\r\n0123456789\r\n0\r\n\r\n",
		"lower case":                     "a\r\n0123456789\r\n0\r\n\r\n",
		"zeros before":                   "0000002\r\nok\r\n000\r\n\r\n",
		"zeros before, very many":        strings.Repeat("0", 20) + "2\r\nok\r\n0\r\n\r\n",
		"zeros before, too many":         strings.Repeat("0", 5000) + "2\r\nok\r\n0\r\n\r\n",
		"extension":                      "2;a=b\r\nok\r\n0\r\n\r\n",
		"extension without a value":      "2;a\r\nok\r\n0;b\r\n\r\n",
		"extension that is quoted":       "2;a=\"b;c\"\r\nok\r\n0\r\n\r\n",
		"extension of 4 KB":              "2;a=" + strings.Repeat("b", 4096) + "\r\nok\r\n0\r\n\r\n",
		"extension of 3 KB":              "2;a=" + strings.Repeat("b", 3072) + "\r\nok\r\n0\r\n\r\n",
		"extensions beyond any excess":   strings.Repeat("1;a="+strings.Repeat("b", 2048)+"\r\nx\r\n", 100) + "0\r\n\r\n",
		"extension with a bare CR":       "2;a=\rb\r\nok\r\n0\r\n\r\n",
		"extension with a bare LF":       "2;a=\nb\r\nok\r\n0\r\n\r\n",
		"spaces after the size":          "2  \r\nok\r\n0 \r\n\r\n",
		"tab after the size":             "2\t\r\nok\r\n0\r\n\r\n",
		"space before the size":          " 2\r\nok\r\n0\r\n\r\n",
		"no size":                        "\r\nok\r\n0\r\n\r\n",
		"size that is no number":         "x\r\nok\r\n0\r\n\r\n",
		"size with a sign":               "+2\r\nok\r\n0\r\n\r\n",
		"size that is negative":          "-2\r\nok\r\n0\r\n\r\n",
		"size 0x2":                       "0x2\r\nok\r\n0\r\n\r\n",
		"size of 16 digits":              "ffffffffffffffff\r\nok\r\n0\r\n\r\n",
		"size of 17 digits":              "10000000000000000\r\nok\r\n0\r\n\r\n",
		"size of 63 bits":                "7fffffffffffffff\r\nok\r\n0\r\n\r\n",
		"size of 64 bits":                "8000000000000000\r\nok\r\n0\r\n\r\n",
		"too short":                      "3\r\nok\r\n0\r\n\r\n",
		"too long":                       "1\r\nok\r\n0\r\n\r\n",
		"no end after the data":          "2\r\nok0\r\n\r\n",
		"LF after the size":              "2\nok\r\n0\r\n\r\n",
		"LF after the data":              "2\r\nok\n0\r\n\r\n",
		"LF at the end":                  "2\r\nok\r\n0\n\n",
		"LF everywhere":                  "2\nok\n0\n\n",
		"CR after the size":              "2\rok\r\n0\r\n\r\n",
		"no last chunk":                  "2\r\nok\r\n",
		"no end after the last chunk":    "2\r\nok\r\n0\r\n",
		"last chunk without a line":      "2\r\nok\r\n0",
		"cut in the data":                "5\r\nok",
		"cut in the size":                "5",
		"cut after the size":             "5\r\n",
		"cut after the data":             "2\r\nok",
		"cut in the line after the data": "2\r\nok\r",
		"trailer":                        "2\r\nok\r\n0\r\nX: y\r\n\r\n",
		"trailers":                       "2\r\nok\r\n0\r\nX: y\r\nZ: z\r\n\r\n",
		"trailer that is not finished":   "2\r\nok\r\n0\r\nX: y\r\n",
		"trailer without a colon":        "2\r\nok\r\n0\r\nX y\r\n\r\n",
		"trailer with a space":           "2\r\nok\r\n0\r\nX : y\r\n\r\n",
		"trailer that is folded":         "2\r\nok\r\n0\r\nX: y\r\n z\r\n\r\n",
		"trailer that begins folded":     "2\r\nok\r\n0\r\n X: y\r\n\r\n",
		"trailer with a length":          "2\r\nok\r\n0\r\nContent-Length: 5\r\n\r\n",
		"trailer with NUL":               "2\r\nok\r\n0\r\nX\x00: y\r\n\r\n",
		"trailer with a bare LF":         "2\r\nok\r\n0\r\nX: y\n\n",
		"trailer of 4 KB":                "2\r\nok\r\n0\r\nX: " + strings.Repeat("y", 4096) + "\r\n\r\n",
		"trailer of 64 KB":               "2\r\nok\r\n0\r\nX: " + strings.Repeat("y", 64<<10) + "\r\n\r\n",
		"trailer of 2 MB":                "2\r\nok\r\n0\r\nX: " + strings.Repeat("y", 2<<20) + "\r\n\r\n",
		"trailers, very many":            "2\r\nok\r\n0\r\n" + many("X-%d: y\r\n", 500) + "\r\n",
		"bytes after the end":            "2\r\nok\r\n0\r\n\r\nmore",
		"no chunks":                      "ok",
		"10,000 of one byte":             strings.Repeat("1\r\nx\r\n", 10000) + "0\r\n\r\n",
		"20,000 of one byte":             strings.Repeat("1\r\nx\r\n", 20000) + "0\r\n\r\n",
		"a limit and a broken one":       chunk(strings.Repeat("x", limit)) + "broken",
		"almost a limit, and broken":     chunk(strings.Repeat("x", limit-1)) + "broken",
		"a limit, and cut":               chunk(strings.Repeat("x", limit)),
		"NUL in the size":                "2\x00\r\nok\r\n0\r\n\r\n",
		"nothing":                        "",
	} {
		table = append(table,
			situation{name, answers(ok + chunked + text), root, ""},
			situation{name + " of a 503", answers("HTTP/1.1 503 No\r\n" + chunked + text), root, ""},
			situation{name + " of a 300", answers("HTTP/1.1 300 Many\r\n" + chunked + text), root, ""},
			situation{name + " with a declared trailer", answers(ok + "Trailer: X\r\n" + chunked + text), root, ""})
		if len(text) < 100 {
			table = append(table,
				situation{name + ", slowly", answers(slowly(ok + chunked + text)), root, ""},
				situation{name + ", until the deadline", answers(ok+chunked+text, hang), root, ""})
		}
	}
	judgeAll(t, table)
}

func TestHTTPCuts(t *testing.T) {
	const phase = 30 * time.Millisecond
	responses := map[string]string{
		"a length":  ok + "X: y\r\n" + "Content-Length: 5\r\n\r\nhello",
		"chunks":    "HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n",
		"no length": "HTTP/1.1 100 Continue\r\n\r\n" + "HTTP/1.1 302 Found\r\n\r\nhello",
	}
	var table []situation
	for name, text := range responses {
		for n := range len(text) + 1 {
			table = append(table,
				situation{fmt.Sprintf("closed after %d bytes of %s", n, name), answers(text[:n]), root, ""},
				situation{fmt.Sprintf("reset after %d bytes of %s", n, name), answers(text[:n], phase, reset), root, ""},
				situation{fmt.Sprintf("both directions closed after %d bytes of %s", n, name), answers(text[:n], phase, abandon), root, ""},
				situation{fmt.Sprintf("a pause after %d bytes of %s", n, name), answers(text[:n], phase/10, text[n:]), root, ""},
				situation{fmt.Sprintf("the response in two parts after %d bytes, and open, of %s", n, name), answers(text[:n], phase/10, text[n:], finish, open), root, ""})
			if n%3 == 0 {
				table = append(table, situation{fmt.Sprintf("hang after %d bytes of %s", n, name), answers(text[:n], hang), root, ""})
			}
		}
		table = append(table,
			situation{"slowly, " + name, answers(slowly(text)), root, ""},
			situation{"before the request, " + name, begins(text), root, "early answer"},
			situation{"before the request, and a hang, " + name, begins(text, hang), root, "early answer"},
			situation{"before the request, and a reset, " + name, begins(text, phase, reset), root, "early answer"})
	}
	table = append(table,
		situation{"closed at once", begins(), root, "early close"},
		situation{"abandoned at once", begins(abandon), root, "early close"},
		situation{"reset at once", begins(reset), root, "early close"},
		situation{"reset before the request", begins(phase, reset), root, "early close"},
		situation{"reset after the request", answers(reset), root, ""},
		situation{"abandoned after the request", answers(abandon), root, ""},
		situation{"hang before the request", begins(hang), root, ""},
		situation{"half closed, and a hang", begins(finish, hang), root, "early close"},
		situation{"garbage before the request", begins("garbage\r\n\r\n"), root, "early answer"},
		situation{"banner before the request", begins("220 smtp ESMTP\r\n", hang), root, "early answer"},
		situation{"banner without a line", begins("220", hang), root, "early answer"},
		situation{"one byte, and a hang", answers("H", hang), root, ""},
		situation{"408 before the request", begins("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n"), root, "early answer"},
		situation{"408 before the request, and a hang", begins("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n", hang), root, "early answer"},
		situation{"400 before the request, closed", begins("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"), root, "early answer"},
		situation{"refused", server{}, root, ""},
		situation{"HTTP/2 settings", begins(settings(), hang), root, "early answer"},
		situation{"HTTP/2 settings after the request", answers(settings()), root, ""},
		situation{"HTTP/2 GOAWAY", answers(settings() + goAway(0, 1, "bad preface")), root, ""},
	)
	judgeAll(t, table)
}

// TestHTTPSwitchingProtocolsEndsAtDeadline checks a server that switches protocols. The connection becomes
// the body of the response, and net/http does not close it at the deadline. So the kubelet's probe never
// ends. Our probe must end.
func TestHTTPSwitchingProtocolsEndsAtDeadline(t *testing.T) {
	for _, our := range []side{compat, fixed} {
		s := situation{server: answers("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: foo\r\n\r\nx", hang), probe: root}
		if got := s.playOn(our); got.result != "failure" {
			t.Errorf("%s: %v", our.name, got)
		}
	}
}
