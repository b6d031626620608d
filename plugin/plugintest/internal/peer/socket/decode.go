package socket

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin/plugintest/internal/cert"
	"github.com/daeace23/prober/plugin/plugintest/internal/expr"
	"github.com/daeace23/prober/plugin/plugintest/internal/field"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer/httpmatch"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer/program"
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

// Commands implements [peer.Commander].
func (s *servers) Commands() bool {
	return slices.ContainsFunc(s.list, func(one Server) bool { return one.Program != nil })
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
		"peer":      func(n *yamlpos.Node, path string) { decodeProgram(r, n, path, s) },
		"script":    func(n *yamlpos.Node, path string) { decodeScript(r, n, path, s) },
	}, "dial")
	if s.Behaviour != "" && s.Script != nil {
		r.Errorf(n, path, "a peer has a behaviour or a script, not both")
	}
	if s.Program != nil {
		checkProgram(r, n, path, s)
	}
	checkEnd(r, s.Script, yamlpos.Join(path, "script"))
	checkHandshakes(r, s, yamlpos.Join(path, "script"))
}

// checkHandshakes adds an error if a script waits for a handshake that its peer cannot make.
func checkHandshakes(r *field.Reader, s *Server, path string) {
	for i, step := range s.Script {
		if step.Handshake && s.TLS == nil {
			r.Errorf(&yamlpos.Node{Line: step.Line}, fmt.Sprintf("%s[%d].handshake", path, i), "the peer makes no TLS: add tls: {} to it, beside script")
		}
	}
}

// decodeProgram reads the command that plays a server.
func decodeProgram(r *field.Reader, n *yamlpos.Node, path string, s *Server) {
	s.Program = &program.Command{Dir: filepath.Dir(r.File)}
	r.Mapping(n, path, yamlpos.Fields{
		"command": func(n *yamlpos.Node, path string) {
			if n.Kind == yamlpos.Scalar {
				r.Append(&s.Program.Args)(n, path)
				return
			}
			r.Items(n, path, r.Append(&s.Program.Args))
		},
		"listens": r.Bool(&s.Program.Listens),
	}, "command")
	if len(s.Program.Args) > 0 && s.Program.Args[0] == "" {
		r.Errorf(n, path+".command", "must not be empty")
	}
	if r.NoCommands {
		r.Errorf(n, path, "a session cannot start a command")
	}
}

// checkProgram checks the fields of a server that a command plays.
func checkProgram(r *field.Reader, n *yamlpos.Node, path string, s *Server) {
	switch {
	case s.Behaviour != "" || s.Script != nil:
		r.Errorf(n, path, "a peer that is a process has neither a behaviour nor a script")
	case len(s.Program.Args) == 0:
		r.Errorf(n, path+".peer.command", "must have a program")
	case strings.HasPrefix(s.Dial, "udp:") && !s.Program.Listens:
		r.Errorf(n, path+".peer", "standard input and output have no datagrams: a peer of UDP needs listens: true")
	}
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

// decodeScript reads the steps. Each may use the names of the steps before it, and each name must be used.
func decodeScript(r *field.Reader, n *yamlpos.Node, path string, s *Server) {
	d := stepDecoder{Reader: r}
	r.Items(n, path, func(n *yamlpos.Node, path string) {
		step := Step{Line: n.Line}
		d.step(n, path, &step)
		s.Script = append(s.Script, step)
	})
	if d.failed {
		return // an expression that was not read may use the name
	}
	unused := d.scope.Unused()
	for _, name := range slices.Sorted(maps.Keys(unused)) {
		r.Errorf(&yamlpos.Node{Line: unused[name]}, path, "no later step uses %q", name)
	}
}

// stepDecoder reads the steps of one script.
type stepDecoder struct {
	*field.Reader
	scope  expr.Scope
	failed bool // an expression has an error
}

func (d *stepDecoder) step(n *yamlpos.Node, path string, s *Step) {
	empty := func(n *yamlpos.Node, path string) { d.Mapping(n, path, nil) }
	d.One(n, path, yamlpos.Fields{
		"recv":      func(n *yamlpos.Node, path string) { s.Recv = new(Recv); d.recv(n, path, s.Recv) },
		"send":      func(n *yamlpos.Node, path string) { s.Send = new(Send); d.send(n, path, s.Send) },
		"handshake": func(n *yamlpos.Node, path string) { s.Handshake = true; empty(n, path) },
		"close":     func(n *yamlpos.Node, path string) { s.Close = true; empty(n, path) },
		"reset":     func(n *yamlpos.Node, path string) { s.Reset = true; empty(n, path) },
		"wait":      d.Duration(&s.Wait),
		"let":       func(n *yamlpos.Node, path string) { d.let(n, path, s) },
	})
}

// messageFields are the fields of a message: see [messageFields].
func (d *stepDecoder) messageFields(to **Message) yamlpos.Fields {
	all := messageFields(d.Reader, &d.scope, to)
	for name, read := range all {
		all[name] = func(n *yamlpos.Node, path string) {
			read(n, path)
			d.failed = d.failed || *to == nil
		}
	}
	return all
}

// name reads the name for a value.
func (d *stepDecoder) name(n *yamlpos.Node, path string, to *string) {
	text, ok := d.Text(n, path)
	if !ok {
		return
	}
	*to = text
	d.add(n, path, text, expr.Bytes)
}

func (d *stepDecoder) add(n *yamlpos.Node, path, name string, t expr.Type) {
	if err := d.scope.Add(name, t, n.Line); err != nil {
		d.Error(n, path, err)
	}
}

func (d *stepDecoder) recv(n *yamlpos.Node, path string, to *Recv) {
	if n.Kind == yamlpos.Scalar {
		d.Constant("any")(n, path)
		to.Any = true
		return
	}
	kinds := d.messageFields(&to.Exact)
	maps.Copy(kinds, yamlpos.Fields{
		"prefix": func(n *yamlpos.Node, path string) {
			if n.Kind == yamlpos.Scalar {
				d.messageFields(&to.Prefix)["text"](n, path)
				return
			}
			d.One(n, path, d.messageFields(&to.Prefix))
		},
		"regex": func(n *yamlpos.Node, path string) { d.regex(n, path, to) },
		"http": func(n *yamlpos.Node, path string) {
			to.HTTP = new(httpmatch.Match)
			httpmatch.Decode(d.Reader, n, path, to.HTTP)
		},
		"any":    func(*yamlpos.Node, string) { to.Any = true },
		"length": d.Int(&to.Length, 1, maxReceived),
		"until":  d.until(&to.Until),
		"lengthPrefix": func(n *yamlpos.Node, path string) {
			to.Frame = new(Frame)
			decodeFrame(d.Reader, n, path, to.Frame, d.name)
		},
	})
	count := 0
	known := yamlpos.Fields{"as": func(n *yamlpos.Node, path string) { d.name(n, path, &to.As) }}
	for name, read := range kinds {
		known[name] = func(n *yamlpos.Node, path string) { count++; read(n, path) }
	}
	d.Mapping(n, path, known)
	if n.Kind == yamlpos.Mapping && count != 1 {
		d.Errorf(n, path, "must have exactly one of %s", strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	}
}

// until reads the end of a message: a text, {text: …} or {hex: …}.
func (d *stepDecoder) until(to *[]byte) field.Read {
	return func(n *yamlpos.Node, path string) {
		if n.Kind == yamlpos.Scalar {
			d.RawText(to)(n, path)
			return
		}
		d.Bytes(n, path, to)
	}
}

// regex reads a regular expression, and the names of its groups.
func (d *stepDecoder) regex(n *yamlpos.Node, path string, to *Recv) {
	field.Parsed(d.Reader, &to.Regex, anchored)(n, path)
	if to.Regex == nil {
		d.failed = true
		return
	}
	for _, name := range to.Regex.SubexpNames() {
		if name != "" {
			d.add(n, path, name, expr.Bytes)
		}
	}
}

// let reads computed values. Each is an expression, or a message.
func (d *stepDecoder) let(n *yamlpos.Node, path string, s *Step) {
	s.Let = []Assignment{}
	d.Entries(n, path, func(key, value *yamlpos.Node, path string) {
		a, t := Assignment{Name: key.Value}, expr.Bytes
		if value.Kind == yamlpos.Mapping {
			d.One(value, path, d.messageFields(&a.message))
		} else {
			field.Parsed(d.Reader, &a.value, func(text string) (e *expr.Template, err error) {
				e, t, err = expr.Expression(text, &d.scope)
				return e, err
			})(value, path)
		}
		d.failed = d.failed || a.value == nil && a.message == nil
		d.add(key, path, key.Value, t)
		s.Let = append(s.Let, a)
	})
}

func (d *stepDecoder) send(n *yamlpos.Node, path string, to *Send) {
	known := d.messageFields(&to.Data)
	known["every"] = d.Duration(&to.Every)
	d.Mapping(n, path, known)
	if n.Kind == yamlpos.Mapping && (yamlpos.Field(n, "hex") == nil) == (yamlpos.Field(n, "text") == nil) {
		d.Errorf(n, path, "must have one of hex, text")
	}
}

// anchored returns a regular expression that matches at the beginning.
func anchored(text string) (*regexp.Regexp, error) {
	if _, err := regexp.Compile(text); err != nil {
		return nil, err
	}
	return regexp.Compile(`\A(?s:` + text + `)`)
}
