package importcmd

import (
	"net"
	"net/url"
	"strconv"
	"strings"
)

// webSocket returns the action of a probe of a WebSocket with further fields of the plugin websocket, and the address
// of its target. ok is false, and reported, if the URL is not of a WebSocket.
func (p *plan) webSocket(at position, name, address string, headers []pair, config fields) (action fields, target string, ok bool) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "ws" && u.Scheme != "wss" || u.Hostname() == "" || u.User != nil {
		p.noEqual(at, "the URL must begin with ws:// or wss://, and have a host and no user")
		return nil, "", false
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"ws": "80", "wss": "443"}[u.Scheme]
	}
	f := fields{{"url", u.Scheme + "://" + (&url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}).RequestURI()}}
	f = f.with("headers", p.headers(&httpCheck{name: name, headers: headers})).and(config)
	return plugin("websocket", f), net.JoinHostPort(u.Hostname(), port), true
}

// webSocket is a check of a WebSocket. Gatus sends the body and reads one message.
func (c *gatusCheck) webSocket(address string, client *object) bool {
	var headers []pair
	for _, h := range c.o.pairs("headers") {
		h.value = c.expand(h.at, h.value)
		headers = append(headers, h)
	}
	c.o.none("this probe has no such option", "method", "graphql")
	config := fields{}.with("tlsConfig", fields{}.with("insecureSkipVerify", client.boolean("insecure", false)))
	client.none("this probe has no such option", "ignore-redirect", "proxy-url", "oauth2", "identity-aware-proxy-config", "tls", "network", "dns-resolver", "tunnel")
	c.latency()
	c.certificate()
	config = append(config, c.config...)
	steps := c.bodySteps(c.expand(c.o.at("body"), c.o.text("body")))
	config = config.with("exchange", steps)
	action, target, ok := c.p.webSocket(c.o.at("url"), slug(c.name, "endpoint"), address, headers, config)
	if !ok {
		return false
	}
	c.set(action, target)
	c.done("[CONNECTED]")
	return true
}

// webSocket is a check of the handshake of a WebSocket, and of the code with which the server closes it.
func (m *kumaMonitor) webSocket() bool {
	o := m.o
	var protocols []string
	for name := range strings.SplitSeq(o.text("wsSubprotocol"), ",") {
		if name = strings.TrimSpace(name); name != "" {
			protocols = append(protocols, name)
		}
	}
	var codes []int
	for _, n := range o.items("accepted_statuscodes") {
		code, err := strconv.Atoi(n.Value)
		if err != nil || code < 1000 || code > 4999 {
			m.p.noEqual(o.at("accepted_statuscodes"), "%.20q is not a code of a close frame", n.Value)
			continue
		}
		codes = append(codes, code)
	}
	if o.boolean("wsIgnoreSecWebsocketAcceptHeader", false) {
		m.p.noEqual(o.at("wsIgnoreSecWebsocketAcceptHeader"), "the header is always checked")
	}
	config := fields{}.with("subprotocols", protocols).with("validCloseCodes", codes)
	action, target, ok := m.p.webSocket(o.at("url"), slug(m.name, "monitor"), o.text("url"), nil, config)
	if ok {
		m.set(action, target)
	}
	return ok
}
