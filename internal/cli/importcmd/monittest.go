package importcmd

import (
	"cmp"
	"net"
	"strconv"
	"strings"
	"time"
)

// connection is a test of a server.
type connection struct {
	at                 position
	host, socket       string
	port               int
	kind, protocol     string
	request, content   string
	method             string
	status             func(int) bool
	headers            []pair
	steps              []fields
	timeout, latency   time.Duration
	certificate        time.Duration
	verify, tls        bool
	user, password     string
	ping               bool
	count, size        int
	failures           int
	config             fields
	unknown, retry     string
	statusAt, loginsAt position
}

// test reads a test, after if.
func (c *monitCheck) test(r *monitReader) {
	at := r.at()
	x := &connection{at: at, timeout: 5 * time.Second}
	var words []string
	switch {
	case r.take("failed"):
		c.connection(r, x)
	default:
		for !r.ended() && !r.peek().is("then") && len(words) < 20 {
			t := r.next()
			if t.is("for") && !r.ended() {
				x.cycles(r, r.next().text)
				continue
			}
			words = append(words, strings.ToLower(t.text))
		}
	}
	for !r.ended() && !r.take("then") {
		x.unknown = cmp.Or(x.unknown, r.next().text)
	}
	if x.times(c, at); len(words) > 0 {
		c.other(at, words, x.failures)
	} else {
		c.server(x)
	}
	if !r.ended() {
		c.action(r)
	}
}

// times reports a share of cycles.
func (x *connection) times(c *monitCheck, at position) {
	if x.failures < 0 {
		x.failures = -x.failures
		c.p.differs(at, "the failures must be in a row")
	}
}

// cycles reads "3 cycles", "3 times 5 cycles" and the like. A share of cycles is negative.
func (x *connection) cycles(r *monitReader, number string) {
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 {
		x.unknown = number
		return
	}
	x.failures = min(n, 1000)
	if r.take("times", "time") {
		x.failures = -x.failures
		r.next()
	}
	r.take("cycles", "cycle")
}

// other is a test that is not of a server.
func (c *monitCheck) other(at position, words []string, failures int) {
	text := strings.Join(words, " ")
	switch {
	case c.kind == "program" && (text == "status != 0" || text == "status not 0" || text == "status != 0 then"):
		c.program(at, failures)
	case c.kind == "network" && text == "link down":
		c.link(at, failures)
	case c.host(at, words, failures):
	default:
		c.p.noEqual(at, "%s: %.60s: see docs/migration/monit.md", c.kind, text)
	}
}

// connection reads a test of a server, after failed.
func (c *monitCheck) connection(r *monitReader, x *connection) {
	for !r.ended() && !r.peek().is("then") && x.unknown == "" {
		at, t := r.at(), r.next()
		switch word := strings.ToLower(t.text); {
		case t.quoted:
			x.unknown = t.text
		case x.place(r, word) || x.protocols(c, r, at, word) || x.limits(r, word):
		case word == "link":
			x.kind = "link"
		case word == "for":
			x.cycles(r, r.next().text)
		default:
			if _, err := strconv.Atoi(word); err == nil {
				x.cycles(r, word)
				continue
			}
			x.unknown = t.text
		}
	}
}

// place reads where the server is.
func (x *connection) place(r *monitReader, word string) bool {
	switch word {
	case "host":
		x.host = r.next().text
	case "port":
		x.port, _ = strconv.Atoi(r.value()) // server reports 0
	case "unixsocket", "unix":
		x.socket = r.next().text
	case "address":
		x.config = x.config.set("sourceIpAddress", r.next().text)
	case "ipv4":
		x.config = x.config.set("preferredIpProtocol", "ip4").set("ipProtocolFallback", false)
	case "ipv6":
		x.config = x.config.set("preferredIpProtocol", "ip6").set("ipProtocolFallback", false)
	case "type":
		x.kind = strings.ToLower(r.next().text)
		r.take("sslv2", "sslv3", "sslauto", "tlsv1", "tlsv11", "tlsv12", "tlsv13", "auto")
	case "ping", "icmp", "ping4", "ping6":
		x.ping = true
		if r.take("type") {
			r.next()
		}
	case "count":
		x.count, _ = strconv.Atoi(r.value())
	case "size":
		x.size, _ = strconv.Atoi(r.value())
	default:
		return false
	}
	return true
}

// protocols reads the requests, and the expected answers.
func (x *connection) protocols(c *monitCheck, r *monitReader, at position, word string) bool {
	switch word {
	case "protocol", "proto":
		x.protocol = strings.ToLower(r.value())
	case "request":
		x.request = r.value()
	case "content":
		if !r.take("=", "==") {
			return false
		}
		x.content = r.next().text
	case "method":
		x.method = strings.ToUpper(r.value())
	case "status":
		x.statusAt = at
		if x.status = statusRule(r); x.status == nil {
			x.unknown = word
		}
	case "hostheader":
		x.headers = append(x.headers, pair{"Host", r.value(), at})
	case "http":
		if !r.take("headers") {
			return false
		}
		for line := range strings.Lines(strings.ReplaceAll(r.next().text, ",", "\n")) {
			name, value, ok := strings.Cut(line, ":")
			if ok {
				x.headers = append(x.headers, pair{strings.TrimSpace(name), strings.Trim(strings.TrimSpace(value), `"`), at})
			}
		}
	case "send":
		x.steps = append(x.steps, fields{{"send", strings.TrimRight(monitString(r.value()), "\r\n")}})
	case "expect":
		if text, ok := c.p.pattern(at, monitString(r.value())); ok {
			x.steps = append(x.steps, fields{{"expect", strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")}})
		}
	case "username":
		x.user, x.loginsAt = r.value(), at
	case "password":
		x.password = r.value()
	default:
		return false
	}
	return true
}

// monitString replaces the escapes of monit's strings for send and expect.
func monitString(text string) string {
	return strings.NewReplacer(`\r`, "\r", `\n`, "\n", `\t`, "\t").Replace(text)
}

// statusRule reads a comparison and a status code; nil if it cannot.
func statusRule(r *monitReader) func(int) bool {
	op := "="
	if t := r.peek(); strings.ContainsAny(t.text, "=<>!") {
		op = r.next().text
	}
	n, _ := strconv.Atoi(r.next().text)
	return map[string]func(int) bool{
		"=": func(c int) bool { return c == n }, "==": func(c int) bool { return c == n }, "!=": func(c int) bool { return c != n },
		"<": func(c int) bool { return c < n }, ">": func(c int) bool { return c > n }, "<=": func(c int) bool { return c <= n }, ">=": func(c int) bool { return c >= n },
	}[op]
}

// limits reads times and options of TLS.
func (x *connection) limits(r *monitReader, word string) bool {
	switch word {
	case "timeout":
		x.timeout = cmp.Or(min(parseSeconds(r.value()), time.Hour), x.timeout)
		r.take("seconds", "second")
	case "retry":
		x.retry = r.value()
	case "responsetime":
		r.take(">", "=", ">=")
		x.latency = min(parseSeconds(r.next().text), time.Hour)
		if !r.take("seconds", "second", "s") {
			x.latency /= 1000
			r.take("milliseconds", "millisecond", "ms")
		}
	case "certificate":
		if !r.take("valid") || !r.take(">", "for", ">=") {
			return false
		}
		days, err := strconv.Atoi(r.next().text)
		if err != nil || days < 1 || days > 10000 {
			return false
		}
		x.certificate = time.Duration(days) * 24 * time.Hour
		r.take("days", "day")
	case "ssl", "tls":
		x.tls = true
		if r.take("options") {
			x.verify = strings.Contains(strings.ReplaceAll(r.next().text, " ", ""), "verify:enable")
		}
	default:
		return false
	}
	return true
}

// server adds a group for a test of a server.
func (c *monitCheck) server(x *connection) {
	x.host = cmp.Or(x.host, c.place)
	if c.kind != "host" && (x.host == c.place || x.host == "") {
		x.host = "127.0.0.1"
	}
	if x.retry != "" {
		c.p.noEqual(x.at, "an attempt is not repeated: a higher failureThreshold and a shorter period do the same")
	}
	switch {
	case x.unknown != "":
		c.p.noEqual(x.at, "the test is not imported: %.40q has no equal", x.unknown)
	case x.kind == "link":
		c.link(x.at, x.failures)
	case x.ping:
		config := x.config.with("count", min(max(x.count, 0), 20)).with("payloadSize", x.size).with("latency", limit("fail", x.latency))
		if x.count == 0 {
			config = config.set("count", 3)
		}
		c.add(x.at, "ping", x.spec(plugin("icmp", config)), x.host)
	case x.kind == "udp" && x.protocol != "ntp3":
		c.p.noEqual(x.at, "the test is not imported: there is no probe for UDP: use a plugin")
	case x.socket != "":
		c.p.noEqual(x.at, "the test is not imported: target.unix of the plugin expect is a unix socket")
	case x.port < 1 || x.port > 65535:
		c.p.noEqual(x.at, "the test is not imported: it has no port")
	default:
		c.port(x)
	}
}

func (x *connection) spec(action fields) spec {
	return spec{action: action, timeout: x.timeout, failureLimit: x.failures}
}

// port adds a group for a test of a port.
func (c *monitCheck) port(x *connection) {
	base, isTLS := strings.CutSuffix(x.protocol, "s")
	switch {
	case x.protocol == "http" || x.protocol == "https" || x.request != "" && x.protocol == "":
		c.http(x)
		return
	case isTLS && (base == "smtp" || base == "imap" || base == "pop" || base == "ftp"):
		x.protocol, x.tls = base, true
	case x.kind == "tcpssl":
		x.tls = true
	}
	if name := monitPlugin(x.protocol); name != "" {
		c.service(x, name)
		return
	}
	steps := x.steps
	switch x.protocol {
	case "", "default", "generic":
	case "ftp", "lmtp":
		steps = append([]fields{{{"expect", "^220[ -]"}}}, steps...)
	default:
		c.p.noEqual(x.at, "the probe connects only: %.20s needs a plugin or a Nagios check", x.protocol)
	}
	if x.user != "" || x.password != "" {
		c.p.noEqual(x.loginsAt, "the probe does not log in")
	}
	config := x.config.with("tls", x.tls).with("queryResponse", steps).with("latency", limit("fail", x.latency)).with("certificateAge", limit("fail", x.certificate))
	if x.tls && !x.verify {
		config = config.set("tlsConfig", fields{{"insecureSkipVerify", true}})
	}
	action := tcp()
	if len(config) > 0 {
		action = plugin("expect", config)
	}
	c.add(x.at, cmp.Or(x.protocol, strconv.Itoa(x.port)), x.spec(action), hostPort(x.host, x.port))
}

// http adds a group for a test of a response.
func (c *monitCheck) http(x *connection) {
	scheme := "http"
	if x.protocol == "https" || x.tls || x.kind == "tcpssl" {
		scheme = "https"
	}
	request := cmp.Or(x.request, "/")
	if !strings.HasPrefix(request, "/") {
		request = "/" + request
	}
	h := &httpCheck{
		at: x.at, name: slug(c.name, "check"), url: scheme + "://" + net.JoinHostPort(strings.Trim(x.host, "[]"), strconv.Itoa(x.port)) + request,
		headers: x.headers, user: x.user, password: x.password, loginAt: x.loginsAt,
	}
	if x.method != "" && x.method != "GET" {
		h.config = h.config.set("method", x.method)
	}
	if x.status == nil {
		x.statusAt, x.status = x.at, func(code int) bool { return code < 400 }
	}
	h.config = append(h.config, x.config...).with("validStatusCodes", c.p.codes(x.statusAt, x.status)).set("followRedirects", false)
	if x.content != "" {
		if text, ok := c.p.pattern(x.at, x.content); ok {
			h.config = h.config.set("failIfBodyNotMatchesRegexp", []string{text})
		}
	}
	if len(x.steps) > 0 {
		c.p.noEqual(x.at, "a probe of HTTP has no send and expect")
	}
	h.config = h.config.with("latency", limit("fail", x.latency)).with("certificateAge", limit("fail", x.certificate))
	if scheme == "https" && !x.verify {
		h.config = h.config.set("tlsConfig", fields{{"insecureSkipVerify", true}})
	}
	if action, target, ok := c.p.http(h); ok {
		c.add(x.at, cmp.Or(x.protocol, "http"), x.spec(action), target)
	}
}
