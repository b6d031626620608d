package socket

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin/plugintest/internal/cert"
	"github.com/daeace23/prober/plugin/plugintest/internal/field"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer/httpmatch"
)

// Protocol is the protocol of host.net.
type Protocol struct{}

var _ peer.Protocol = Protocol{}

// servers are the servers of a case.
type servers struct {
	list       []Server
	everywhere peer.Behaviour // of servers at all addresses; "" for none
}

var _ peer.Peers = (*servers)(nil)

// Field implements [peer.Protocol].
func (Protocol) Field() string { return "net" }

// Everywhere implements [peer.Protocol].
func (Protocol) Everywhere(b peer.Behaviour) peer.Peers { return &servers{everywhere: b} }

// Names implements [peer.Peers].
func (*servers) Names(*peer.Hosts) {}

// Grants implements [peer.Peers]: each unix socket is granted by its path.
func (s *servers) Grants() (grants []string) {
	for i := range s.list {
		if dial := s.list[i].Dial; strings.HasPrefix(dial, "unix:///") {
			grants = append(grants, dial)
		}
	}
	return grants
}

// Decode implements [peer.Protocol].
func (Protocol) Decode(r *field.Reader, n *yamlpos.Node, path string) peer.Peers {
	s := &servers{}
	r.Items(n, path, func(n *yamlpos.Node, path string) {
		one := Server{Line: n.Line}
		decodeServer(r, n, path, &one)
		s.list = append(s.list, one)
	})
	return s
}

func decodeServer(r *field.Reader, n *yamlpos.Node, path string, s *Server) {
	r.Mapping(n, path, yamlpos.Fields{
		"dial": func(n *yamlpos.Node, path string) {
			s.Dial, _ = r.Text(n, path)
			if !validURL(s.Dial) {
				r.Errorf(n, path, "%.80q must be tcp://host:port, udp://, tls:// or unix:///path", s.Dial)
			}
			if isTLS(s.Dial) && s.TLS == nil {
				s.TLS = cert.Valid()
			}
		},
		"behaviour": peer.DecodeBehaviour(r, &s.Behaviour, peer.Behaviours...),
		"latency":   r.Duration(&s.Latency),
		"tls":       cert.Decode(r, &s.TLS),
		"script": func(n *yamlpos.Node, path string) {
			r.Items(n, path, func(n *yamlpos.Node, path string) {
				step := Step{Line: n.Line}
				decodeStep(r, n, path, &step)
				s.Script = append(s.Script, step)
			})
		},
	}, "dial")
	if s.Behaviour != "" && s.Script != nil {
		r.Errorf(n, path, "a peer has a behaviour or a script, not both")
	}
	checkEnd(r, s.Script, yamlpos.Join(path, "script"))
}

// checkEnd adds an error if a script sends after it has ended the connection. Two ends are valid,
// since a recorded plugin may read again after an end.
func checkEnd(r *field.Reader, script []Step, path string) {
	ended := false
	for i, s := range script {
		if ended && s.Send != nil {
			r.Errorf(&yamlpos.Node{Line: s.Line}, fmt.Sprintf("%s[%d]", path, i), "the peer has ended the connection before")
		}
		ended = ended || s.Close || s.Reset
	}
}

// validURL reports whether a text is the URL of a server.
func validURL(text string) bool {
	scheme, rest, _ := strings.Cut(text, "://")
	if scheme == "unix" {
		return strings.HasPrefix(rest, "/")
	}
	at := strings.LastIndexByte(rest, ':')
	port, err := strconv.Atoi(rest[at+1:])
	return (scheme == "tcp" || scheme == "udp" || scheme == "tls") && at > 0 && err == nil && port > 0 && port < 1<<16
}

func decodeStep(r *field.Reader, n *yamlpos.Node, path string, s *Step) {
	empty := func(n *yamlpos.Node, path string) { r.Mapping(n, path, nil) }
	r.One(n, path, yamlpos.Fields{
		"recv":      func(n *yamlpos.Node, path string) { s.Recv = new(Recv); decodeRecv(r, n, path, s.Recv) },
		"send":      func(n *yamlpos.Node, path string) { s.Send = new(Send); decodeSend(r, n, path, s.Send) },
		"handshake": func(n *yamlpos.Node, path string) { s.Handshake = true; empty(n, path) },
		"close":     func(n *yamlpos.Node, path string) { s.Close = true; empty(n, path) },
		"reset":     func(n *yamlpos.Node, path string) { s.Reset = true; empty(n, path) },
		"wait":      r.Duration(&s.Wait),
	})
}

func decodeRecv(r *field.Reader, n *yamlpos.Node, path string, to *Recv) {
	if n.Kind == yamlpos.Scalar && n.Value == "any" {
		to.Any = true
		return
	}
	r.One(n, path, yamlpos.Fields{
		"hex":  r.Hex(&to.Exact),
		"text": r.RawText(&to.Exact),
		"prefix": func(n *yamlpos.Node, path string) {
			if n.Kind == yamlpos.Scalar {
				r.RawText(&to.Prefix)(n, path)
				return
			}
			r.Bytes(n, path, &to.Prefix)
		},
		"regex": field.Parsed(r, &to.Regex, anchored),
		"http": func(n *yamlpos.Node, path string) {
			to.HTTP = new(httpmatch.Match)
			httpmatch.Decode(r, n, path, to.HTTP)
		},
		"any": func(*yamlpos.Node, string) { to.Any = true },
	})
}

// anchored returns a regular expression that matches at the beginning.
func anchored(text string) (*regexp.Regexp, error) {
	if _, err := regexp.Compile(text); err != nil {
		return nil, err
	}
	return regexp.Compile(`\A(?s:` + text + `)`)
}

func decodeSend(r *field.Reader, n *yamlpos.Node, path string, to *Send) {
	r.Mapping(n, path, yamlpos.Fields{
		"hex": r.Hex(&to.Data), "text": r.RawText(&to.Data), "every": r.Duration(&to.Every),
	})
	if n.Kind == yamlpos.Mapping && len(to.Data) == 0 {
		r.Errorf(n, path, "must have one of hex, text")
	}
}
