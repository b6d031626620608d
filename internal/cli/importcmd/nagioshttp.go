package importcmd

import (
	"cmp"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// http sets a probe of the plugin httpcheck for check_http and check_curl.
func (c *nagiosArguments) http() {
	scheme, port := "http", 80
	if c.has("S") || c.has("C") {
		scheme, port = "https", 443
		c.config = c.config.set("tlsConfig", fields{}.set("insecureSkipVerify", true).with("serverName", c.serverName()))
	}
	address := cmp.Or(c.flags["I"], c.flags["H"], c.host)
	path := cmp.Or(c.flags["u"], "/")
	if !strings.HasPrefix(path, "/") {
		c.bad = true
		return
	}
	h := &httpCheck{at: c.at, name: c.name, url: scheme + "://" + hostPort(address, c.portOr(port)) + path, body: c.flags["P"], bodyAt: c.at, loginAt: c.at}
	if port == c.portOr(port) {
		h.url = scheme + "://" + bracketed(address) + path
	}
	if vhost := c.flags["H"]; vhost != "" && vhost != address {
		h.headers = append(h.headers, pair{"Host", vhost, c.at})
	}
	c.request(h)
	c.response()
	h.config = append(h.config, c.config...)
	if u, err := url.Parse(h.url); err != nil || u.Hostname() == "" {
		c.bad = true
	}
	if c.bad {
		return
	}
	action, target, ok := c.p.http(h)
	if !ok {
		c.bad = true
		return
	}
	c.set(action, target)
}

// serverName returns the name of the certificate where the address is another one.
func (c *nagiosArguments) serverName() string {
	if c.flags["I"] == "" || net.ParseIP(c.flags["H"]) != nil {
		return ""
	}
	return c.flags["H"]
}

func bracketed(host string) string {
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		return "[" + host + "]"
	}
	return host
}

// request sets the request.
func (c *nagiosArguments) request(h *httpCheck) {
	if user, password, _ := strings.Cut(c.flags["a"], ":"); user != "" {
		h.user, h.password = user, password
	}
	if agent := c.flags["A"]; agent != "" {
		h.headers = append(h.headers, pair{"User-Agent", agent, c.at})
	}
	if header := c.flags["k"]; header != "" {
		name, value, ok := strings.Cut(header, ":")
		c.bad = c.bad || !ok || strings.Contains(value, ";")
		h.headers = append(h.headers, pair{strings.TrimSpace(name), strings.TrimSpace(value), c.at})
	}
	method := c.flags["j"]
	if c.has("P") {
		method = cmp.Or(method, "POST")
		h.headers = append(h.headers, pair{"Content-Type", cmp.Or(c.flags["T"], "application/x-www-form-urlencoded"), c.at})
	}
	if method = strings.ToUpper(method); method != "" && method != "GET" {
		h.config = h.config.set("method", method)
	}
}

// statusLine matches what -e expects, such as "HTTP/1.1 200" or 200.
var statusLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:HTTP/1\.[01] ?)?(\d{3})$`) })

// response sets the checks of the response.
func (c *nagiosArguments) response() {
	switch f := cmp.Or(c.flags["f"], "ok"); {
	case c.has("e"):
		var valid []int
		for text := range strings.SplitSeq(c.flags["e"], ",") {
			m := statusLine().FindStringSubmatch(strings.TrimSpace(text))
			if m == nil {
				c.bad = true
				return
			}
			code, _ := strconv.Atoi(m[1]) // three digits
			valid = append(valid, code)
		}
		c.config = c.config.set("validStatusCodes", valid)
		if f != "follow" {
			c.config = c.config.set("followRedirects", false)
		}
	case f == "ok":
		c.p.differs(c.at, "a status from 400 to 499 is a failure, not a warning")
		c.config = c.config.set("validStatusCodes", []int{200, 201, 202, 203, 204, 205, 206, 300, 301, 302, 303, 304, 307, 308}).set("followRedirects", false)
	case f == "follow":
		c.p.differs(c.at, "a status from 400 to 499 is a failure, not a warning")
	case f == "critical":
		c.config = c.config.set("followRedirects", false)
	default:
		c.bad = true
	}
	var match []string
	for flag, prefix := range map[string]string{"s": "", "r": "(?m)", "R": "(?mi)"} {
		text := c.flags[flag]
		if text == "" {
			continue
		}
		if flag == "s" {
			text = regexp.QuoteMeta(text)
		}
		if _, err := regexp.Compile(prefix + text); err != nil || len(match) > 0 {
			c.bad = true
		}
		match = append(match, prefix+text)
	}
	c.config = c.config.with("failIfBodyNotMatchesRegexp", match).with("latency", c.limits())
	if c.has("C") {
		c.certificate(c.flags["C"])
	}
}
