package importcmd

import (
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// plugin returns the action of a probe by a plugin.
func plugin(name string, config fields) fields {
	f := fields{{"name", name}}
	if len(config) > 0 {
		f = f.set("config", config)
	}
	return fields{{"plugin", f}}
}

// pluginAt is like plugin, with a port for targets that have none.
func pluginAt(name string, port int, config fields) fields {
	f := fields{{"name", name}, {"target", fields{{"port", port}}}}
	if len(config) > 0 {
		f = f.set("config", config)
	}
	return fields{{"plugin", f}}
}

func tcp() fields { return fields{{"tcpSocket", fields{}}} }

// execAction returns the action of an exec probe. The arguments are passed as they are: a dollar sign is escaped.
func execAction(args []string) fields {
	escaped := make([]string, len(args))
	for i, a := range args {
		escaped[i] = strings.ReplaceAll(a, "$", "$$")
	}
	return fields{{"exec", fields{{"command", escaped}}}}
}

// localhost is the target of commands that need none.
const localhost = "localhost"

// hostPort returns HOST:PORT.
func hostPort(host string, port int) string {
	return net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(port))
}

// splitHostPort splits HOST, HOST:PORT or [HOST]:PORT. port is without if there is none.
func splitHostPort(text string, without int) (host string, port int) {
	host, number, err := net.SplitHostPort(text)
	if err != nil {
		return strings.Trim(text, "[]"), without
	}
	port, err = strconv.Atoi(number)
	if err != nil || port < 1 || port > 65535 {
		return host, without
	}
	return host, port
}

// pattern returns an expression if Go, and so prober, can compile it. It reports one that cannot be compiled.
func (p *plan) pattern(at position, text string) (string, bool) {
	if _, err := regexp.Compile(text); err != nil {
		p.noEqual(at, "the expression %.80q is not one of Go: %v", text, err)
		return "", false
	}
	return text, true
}

// dnsCheck is a question to a name server, for the plugin dns.
type dnsCheck struct {
	name, class, kind string
	proto             string
	config            fields
}

// action returns the action of a probe.
func (c *dnsCheck) action() fields {
	f := fields{}.with("queryName", c.name).with("queryType", strings.ToUpper(c.kind))
	if class := strings.ToUpper(c.class); class != "" && class != "IN" {
		f = f.with("queryClass", class)
	}
	if strings.EqualFold(c.proto, "tcp") || strings.EqualFold(c.proto, "tcp_tls") {
		f = f.with("transportProtocol", "tcp").with("dnsOverTls", strings.EqualFold(c.proto, "tcp_tls"))
	}
	return pluginAt("dns", map[bool]int{false: 53, true: 853}[f.get("dnsOverTls") == true], f.and(c.config))
}

// answer returns an expression for a record with the given data.
func answer(data string) string {
	text := `\t(\d+ )?` + regexp.QuoteMeta(strings.TrimSuffix(data, "."))
	if _, err := netip.ParseAddr(data); err == nil {
		return `\t` + regexp.QuoteMeta(data) + "$"
	}
	return text + `\.?$`
}

// percent returns a percentage such as 20% as a number within the limits of icmp; 0 for none.
func percent(text string) float64 {
	v, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(text), "%"), 64)
	if err != nil || !(v > 0 && v <= 100) {
		return 0
	}
	return v
}

// parseSeconds returns a number of seconds as a duration; 0 if it is none.
func parseSeconds(text string) time.Duration {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v > 0) {
		return 0
	}
	return units(v, time.Second)
}
