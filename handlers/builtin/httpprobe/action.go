package httpprobe

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/daeace23/prober/handlers/builtin/internal/action"
	"github.com/daeace23/prober/handlers/builtin/internal/network"
	"github.com/daeace23/prober/internal/httpget"
	"github.com/daeace23/prober/probe"
)

// Action is the configuration of one probe. The zero value requests "/" from the target of the request.
type Action struct {
	// Scheme is HTTP or HTTPS, in upper or lower case. Empty means HTTP.
	Scheme string
	// Host is a name, or an IP address without brackets. Empty means the host of
	// [probe.Request.Target], or the pod's IP.
	Host string
	// Port is from 1 to 65535. 0 means PortName, or if that is empty the port of
	// [probe.Request.Target].
	Port int
	// PortName is the name of a port of [probe.Request.Container]. With [probe.CompatPortNumbers] it may be a
	// decimal number.
	PortName string
	// Path may have a query, and need not begin with a slash. A host in it is ignored.
	Path string
	// Header has the headers of the request. Host replaces the host of the URL. Accept and
	// User-Agent have defaults. With the value "" they are not sent.
	Header http.Header
	// UnencryptedHTTP2 sends HTTP/2 without TLS. The scheme must be HTTP.
	UnencryptedHTTP2 bool
	// Reuse keeps the connection of an attempt for the next one, which takes much less processor
	// time. The probe then does not test whether the target accepts new connections: it still
	// succeeds if the listener is closed or its queue is full. A proxy or a Service chooses a backend
	// once per connection, and a name is resolved once per connection.
	//
	// The connection is kept after a Success or a Warning with a complete response, over HTTP/1.1,
	// without TLS or with TLS to an IP address. It costs a descriptor and a timer per probe. It is
	// closed when another endpoint is probed, when it was not used for two periods (90 s if
	// [probe.Request] has none), and by [probe.Release]. If the server has closed it, the attempt uses
	// a fresh one.
	//
	// All other attempts make fresh connections, as without Reuse: overlapping attempts, attempts
	// with an unusual request or response or over HTTP/2, attempts on systems other than Linux, and
	// attempts whose connections from [Config.DialContext] do not implement [syscall.Conn].
	Reuse bool
}

// Bind returns the handler of one probe. Its errors name the invalid field.
func (h *Handler) Bind(a Action) (probe.Handler, error) {
	port, err := action.NumberOrName(a.Port, a.PortName)
	if err != nil {
		return nil, err
	}
	return h.bind(a, network.Place{Host: a.Host, Port: port})
}

// bind binds the handler to an action at a place.
func (h *Handler) bind(a Action, place network.Place) (probe.Handler, error) {
	base, err := httpget.URL(a.Scheme, "host:1", a.Path) // a placeholder: each attempt sets its host
	if err != nil {
		return nil, err
	}
	b := &bound{Handler: h, place: place, base: base, https: base.Scheme == "https", http2: a.UnencryptedHTTP2}
	if len(a.Header) > 0 {
		b.own = httpget.Header(a.Header, h.userAgent)
	}
	if b.http2 {
		if b.https {
			return nil, fmt.Errorf("protocol: HTTP2 is for scheme HTTP, not %s", a.Scheme)
		}
		return b, nil
	}
	if b.lines, b.plain = h.linesOf(base, b.own); b.plain {
		b.base = nil
		if a.Reuse {
			return &reusing{bound: b}, nil
		}
	}
	return b, nil
}

// Prepare binds the handler to config, the JSON of a v1.HTTPGetAction. It also accepts the key
// "connection": "fresh", the default, or "reuse" for [Action.Reuse].
func (h *Handler) Prepare(config []byte, target probe.Target) (probe.Handler, error) {
	a, port, err := decode(config)
	if err != nil {
		return nil, err
	}
	if a.UnencryptedHTTP2 && a.Host != "" { // a rule of the Kubernetes API
		return nil, errors.New("host: must be empty when protocol is HTTP2")
	}
	a.UnencryptedHTTP2 = a.UnencryptedHTTP2 && !h.ignoreProtocol
	b, err := h.bind(a, network.Place{Host: a.Host, Port: port, Target: target})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// decode returns the action of a config, and its port. The types have the names of the Kubernetes API,
// because errors show them.
func decode(config []byte) (a Action, port action.Port, err error) {
	type HTTPHeader struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	type HTTPGetAction struct {
		Path        string       `json:"path"`
		Port        action.Port  `json:"port"`
		Host        string       `json:"host"`
		Scheme      string       `json:"scheme"`
		HTTPHeaders []HTTPHeader `json:"httpHeaders"`
		Protocol    *string      `json:"protocol"`
		Connection  *string      `json:"connection"`
	}
	var get HTTPGetAction
	if err := action.Decode(config, &get); err != nil {
		return a, port, err
	}
	a = Action{Scheme: get.Scheme, Host: get.Host, Path: get.Path, Header: make(http.Header, len(get.HTTPHeaders))}
	for _, h := range get.HTTPHeaders { // keeps the order of the values of a name
		a.Header.Add(h.Name, h.Value)
	}
	if a.UnencryptedHTTP2, err = isHTTP2(get.Protocol); err == nil {
		a.Reuse, err = isReuse(get.Connection)
	}
	return a, get.Port, err
}

// isReuse reports whether the connection of an action is kept. The Kubernetes API has no such field.
func isReuse(connection *string) (bool, error) {
	switch {
	case connection == nil, *connection == "fresh":
		return false, nil
	case *connection == "reuse":
		return true, nil
	default:
		return false, fmt.Errorf("connection: unknown connection %q; known: fresh, reuse", *connection)
	}
}

// isHTTP2 reports whether the protocol of an action is HTTP/2 without TLS. Kubernetes has the field since
// 1.37.
func isHTTP2(protocol *string) (bool, error) {
	switch {
	case protocol == nil, *protocol == "HTTP1":
		return false, nil
	case *protocol == "HTTP2":
		return true, nil
	default:
		return false, fmt.Errorf("protocol: unknown protocol %q; known: HTTP1, HTTP2", *protocol)
	}
}
