package blackbox

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/daeace23/prober/probe"
)

// bind returns the config and the target of a scrape. hostname is the parameter of that name, "" if it is not
// set. A plugin ends by itself after timeout, so that it can report its measurements; 0 sets no timeout.
func (m *Module) bind(target, hostname string, timeout time.Duration) (cfg []byte, to probe.Target, err error) {
	fields := maps.Clone(m.config)
	switch m.handler {
	case httpHandler:
		to, err = m.httpTarget(fields, target, hostname)
	case dnsHandler:
		port := 53
		if m.fields.DNS.DNSOverTLS {
			port = 853
		}
		to, err = hostPort(target, port)
	case icmpHandler:
		to = probe.Target{Host: strings.Trim(target, "[]")}
	case tcpHandler:
		if to, err = hostPort(target, 0); hostname != "" && m.fields.TCP.TLSConfig.ServerName == "" {
			fields["tlsConfig"] = withField(fields["tlsConfig"], "serverName", hostname)
		}
	default:
		to, err = hostPort(withoutScheme(target), map[bool]int{false: 80, true: 443}[m.fields.GRPC.TLS])
		fields["port"] = to.Port
	}
	if err != nil {
		return nil, to, err
	}
	if timeout > 0 && m.handler != grpcHandler {
		fields["timeout"] = max(timeout.Round(time.Millisecond), time.Millisecond).String()
	}
	cfg, err = json.Marshal(fields)
	return cfg, to, err
}

// withoutScheme returns HOST:PORT of a gRPC target, which may be a URL.
func withoutScheme(target string) string {
	for _, scheme := range []string{"http://", "https://"} {
		if rest, ok := strings.CutPrefix(target, scheme); ok {
			rest, _, _ = strings.Cut(rest, "/")
			return rest
		}
	}
	return target
}

// httpTarget returns the target of a URL, and sets the fields of the request that depend on it. The default
// scheme is http.
func (m *Module) httpTarget(fields map[string]any, target, hostname string) (to probe.Target, err error) {
	if !strings.HasPrefix(target, "http://") && !strings.HasPrefix(target, "https://") {
		target = "http://" + target
	}
	u, err := url.Parse(target)
	if err != nil || u.Hostname() == "" {
		return to, fmt.Errorf("target %.200q is not a URL", target)
	}
	to = probe.Target{Host: u.Hostname(), Port: map[string]int{"http": 80, "https": 443}[u.Scheme]}
	if u.Port() != "" {
		if to.Port, err = parsePort(u.Port()); err != nil {
			return to, err
		}
	}
	headers := make(map[string]string)
	if given, ok := fields["headers"].(map[string]string); ok {
		maps.Copy(headers, given)
	}
	own, has := find(headers, "Host")
	switch {
	case has && hostname != "" && own != hostname:
		return to, fmt.Errorf("the module has the header Host: %.200q, and the parameter hostname is %.200q", own, hostname)
	case !has:
		own = hostname
		headers["Host"] = cmp.Or(hostname, u.Host)
	}
	fields["headers"] = headers
	if own != "" && m.fields.HTTP.TLSConfig.ServerName == "" {
		if host, _, err := net.SplitHostPort(own); err == nil {
			own = host
		}
		fields["tlsConfig"] = withField(fields["tlsConfig"], "serverName", own)
	}
	if password, ok := u.User.Password(); ok && fields["basicAuth"] == nil {
		fields["basicAuth"] = map[string]any{"username": u.User.Username(), "password": password}
	}
	fields["url"] = u.Scheme + "://" + u.RequestURI()
	return to, nil
}

// find returns the value of a header. The case of its name is ignored.
func find(headers map[string]string, name string) (value string, ok bool) {
	for n, v := range headers {
		if strings.EqualFold(n, name) {
			return v, true
		}
	}
	return "", false
}

// withField returns a copy of a mapping with a field set. A nil mapping is empty.
func withField(mapping any, name string, value any) map[string]any {
	fields := make(map[string]any)
	if m, ok := mapping.(map[string]any); ok {
		maps.Copy(fields, m)
	}
	fields[name] = value
	return fields
}

// hostPort returns the target of HOST:PORT. port is the default port; 0 makes the port required.
func hostPort(target string, port int) (to probe.Target, err error) {
	host, text, err := net.SplitHostPort(target)
	if err != nil {
		if port == 0 {
			return to, fmt.Errorf("target %.200q: must be HOST:PORT", target)
		}
		return probe.Target{Host: strings.Trim(target, "[]"), Port: port}, nil
	}
	if port, err = parsePort(text); err != nil {
		return to, err
	}
	return probe.Target{Host: host, Port: port}, nil
}

func parsePort(text string) (int, error) {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return 0, fmt.Errorf("port %.20q: must be from 1 to 65535", text)
	}
	return int(port), nil
}
