package plugintest

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// maxKept is what a probe may keep at most, keys and values.
const maxKept = 64 << 10

func (r *reader) host(n *yaml.Node, path string, c *Case) {
	r.mapping(n, path, map[string]read{
		"net": func(n *yaml.Node, path string) {
			r.items(n, path, func(n *yaml.Node, path string) {
				p := Peer{Line: n.Line}
				r.peer(n, path, &p)
				c.Peers = append(c.Peers, p)
			})
		},
		"http": func(n *yaml.Node, path string) {
			r.items(n, path, func(n *yaml.Node, path string) {
				x := Exchange{Line: n.Line}
				r.exchange(n, path, &x)
				c.Web = append(c.Web, x)
			})
		},
		"dns": func(n *yaml.Node, path string) {
			r.items(n, path, func(n *yaml.Node, path string) {
				record := Record{Line: n.Line}
				r.record(n, path, &record)
				c.Zone = append(c.Zone, record)
			})
		},
		"kv": func(n *yaml.Node, path string) {
			c.KV = make(map[string][]byte)
			size := 0
			r.entries(n, path, func(key, value *yaml.Node, at string) {
				text, _ := r.scalar(value, at)
				if size += len(key.Value) + len(text); size > maxKept {
					r.failf(key, at, "the plugin keeps %d bytes then; no probe keeps more than %d", size, maxKept)
				}
				c.KV[key.Value] = []byte(text)
			})
		},
		"names": func(n *yaml.Node, path string) {
			r.entries(n, path, func(key, value *yaml.Node, at string) {
				c.Names[key.Value] = nil
				r.items(value, at, func(n *yaml.Node, path string) {
					var addr netip.Addr
					parsed(r, &addr, netip.ParseAddr)(n, path)
					c.Names[key.Value] = append(c.Names[key.Value], addr)
				})
			})
		},
	})
}

func (r *reader) peer(n *yaml.Node, path string, p *Peer) {
	r.mapping(n, path, map[string]read{
		"dial": func(n *yaml.Node, path string) {
			p.Dial, _ = r.scalar(n, path)
			if !validURL(p.Dial) {
				r.failf(n, path, "%.80q: want tcp://host:port, udp://, tls:// or unix:///path", p.Dial)
			}
			if strings.HasPrefix(p.Dial, "tls:") && p.TLS == nil {
				p.TLS = newTLS()
			}
		},
		"behaviour": r.behaviour(&p.Behaviour, Refuse, Timeout, ResetNow, HalfOpen, Garbage),
		"latency":   r.duration(&p.Latency),
		"tls":       r.tls(&p.TLS),
		"script": func(n *yaml.Node, path string) {
			r.items(n, path, func(n *yaml.Node, path string) {
				s := Step{Line: n.Line}
				r.step(n, path, &s)
				p.Script = append(p.Script, s)
			})
		},
	}, "dial")
	if p.Behaviour != "" && p.Script != nil {
		r.failf(n, path, "a peer has a behaviour or a script, not both")
	}
	r.sentAfterEnd(p.Script, join(path, "script"))
}

// sentAfterEnd finds what a script sends and nobody can receive any more. An end may be there
// twice: whoever reads again after one records another.
func (r *reader) sentAfterEnd(script []Step, path string) {
	ended := false
	for i, s := range script {
		if ended && s.Send != nil {
			r.failf(&yaml.Node{Line: s.Line}, fmt.Sprintf("%s[%d]", path, i), "the peer has ended the connection before")
		}
		ended = ended || s.Close || s.Reset
	}
}

// newTLS is a certificate that is fine.
func newTLS() *TLS { return &TLS{NotBefore: -day, NotAfter: 90 * day} }

func (r *reader) tls(to **TLS) read {
	return func(n *yaml.Node, path string) {
		t := newTLS()
		*to = t
		r.mapping(n, path, map[string]read{
			"names":     func(n *yaml.Node, path string) { r.items(n, path, r.appended(&t.Names)) },
			"notBefore": parsed(r, &t.NotBefore, time.ParseDuration),
			"notAfter":  parsed(r, &t.NotAfter, time.ParseDuration),
			"error":     r.text(&t.Error),
		})
	}
}

func (r *reader) behaviour(to *Behaviour, known ...Behaviour) read {
	return func(n *yaml.Node, path string) {
		var names []string
		for _, b := range known {
			names = append(names, string(b))
		}
		r.constant(names...)(n, path)
		*to = Behaviour(n.Value)
	}
}

func validURL(text string) bool {
	scheme, rest, _ := strings.Cut(text, "://")
	if scheme == "unix" {
		return strings.HasPrefix(rest, "/")
	}
	at := strings.LastIndexByte(rest, ':')
	port, err := strconv.Atoi(rest[at+1:])
	return (scheme == "tcp" || scheme == "udp" || scheme == "tls") && at > 0 && err == nil && port > 0 && port < 1<<16
}

func (r *reader) step(n *yaml.Node, path string, s *Step) {
	empty := func(n *yaml.Node, path string) { r.mapping(n, path, nil) }
	r.one(n, path, map[string]read{
		"recv":      func(n *yaml.Node, path string) { s.Recv = new(Recv); r.recv(n, path, s.Recv) },
		"send":      func(n *yaml.Node, path string) { s.Send = new(Send); r.send(n, path, s.Send) },
		"handshake": func(n *yaml.Node, path string) { s.Handshake = true; empty(n, path) },
		"close":     func(n *yaml.Node, path string) { s.Close = true; empty(n, path) },
		"reset":     func(n *yaml.Node, path string) { s.Reset = true; empty(n, path) },
		"wait":      r.duration(&s.Wait),
	})
}

// data reads bytes from a text.
func (r *reader) data(to *[]byte, decode func(string) ([]byte, error)) read {
	return func(n *yaml.Node, path string) {
		parsed(r, to, decode)(n, path)
		if len(*to) == 0 && n.Value == "" {
			r.failf(n, path, "must not be empty")
		}
	}
}

// fromStart reads a regular expression that matches at the beginning.
func fromStart(text string) (*regexp.Regexp, error) {
	if _, err := regexp.Compile(text); err != nil {
		return nil, err
	}
	return regexp.Compile(`\A(?s:` + text + `)`)
}

func asBytes(text string) ([]byte, error) { return []byte(text), nil }

func fromHex(text string) ([]byte, error) {
	return hex.DecodeString(strings.Join(strings.Fields(text), ""))
}

func (r *reader) recv(n *yaml.Node, path string, to *Recv) {
	if n.Kind == yaml.ScalarNode && n.Value == "any" {
		to.Any = true
		return
	}
	r.one(n, path, map[string]read{
		"hex":  r.data(&to.Exact, fromHex),
		"text": r.data(&to.Exact, asBytes),
		"prefix": func(n *yaml.Node, path string) {
			if n.Kind == yaml.ScalarNode {
				r.data(&to.Prefix, asBytes)(n, path)
				return
			}
			r.one(n, path, map[string]read{"hex": r.data(&to.Prefix, fromHex), "text": r.data(&to.Prefix, asBytes)})
		},
		"regex": parsed(r, &to.Regex, fromStart),
		"http":  func(n *yaml.Node, path string) { to.HTTP = new(Match); r.match(n, path, to.HTTP) },
		"any":   func(*yaml.Node, string) { to.Any = true },
	})
}

func (r *reader) send(n *yaml.Node, path string, to *Send) {
	r.mapping(n, path, map[string]read{
		"hex": r.data(&to.Data, fromHex), "text": r.data(&to.Data, asBytes), "every": r.duration(&to.Every),
	})
	if n.Kind == yaml.MappingNode && len(to.Data) == 0 {
		r.failf(n, path, "want one of hex, text")
	}
}
