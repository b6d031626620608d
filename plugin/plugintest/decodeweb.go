package plugintest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/net/dns/dnsmessage"
)

func (r *reader) exchange(n *yaml.Node, path string, x *Exchange) {
	x.Reply.Status = http.StatusOK
	replied := false
	r.mapping(n, path, map[string]read{
		"match":     func(n *yaml.Node, path string) { r.match(n, path, &x.Match) },
		"behaviour": r.behaviour(&x.Behaviour, Refuse, Timeout, ResetNow, HalfOpen, Garbage),
		"tls":       r.tls(&x.TLS),
		"reply": func(n *yaml.Node, path string) {
			r.reply(n, path, &x.Reply)
			replied = x.Reply.Latency == 0 || len(n.Content) > 2
		},
	}, "match")
	if x.Behaviour != "" && replied {
		r.failf(n, path, "an exchange has a behaviour or a reply, of which it may have the latency, not both")
	}
}

func (r *reader) match(n *yaml.Node, path string, m *Match) {
	r.mapping(n, path, map[string]read{
		"method": r.pattern(&m.Method),
		"url": func(n *yaml.Node, path string) {
			r.pattern(&m.URL)(n, path)
			if text := m.URL.Source; m.URL.regex == nil && !strings.HasPrefix(text, "/") && !strings.Contains(text, "://") {
				r.failf(n, path, "%.80q: want /path, http://host/path or /a regular expression/", text)
			}
		},
		"headers": func(n *yaml.Node, path string) {
			m.Headers = make(map[string]Text)
			r.entries(n, path, func(key, value *yaml.Node, at string) {
				var t Text
				r.pattern(&t)(value, at)
				m.Headers[key.Value] = t
			})
		},
		"body": func(n *yaml.Node, path string) { m.Body = new(Body); r.body(n, path, m.Body) },
	})
}

// body reads what a body has to be: a text, {hex: …} or {json: …}.
func (r *reader) body(n *yaml.Node, path string, to *Body) {
	if n.Kind == yaml.ScalarNode {
		r.pattern(&to.Text)(n, path)
		return
	}
	r.one(n, path, map[string]read{"text": r.pattern(&to.Text), "hex": r.data(&to.Data, fromHex), "json": r.json(&to.JSON)})
}

// json reads a value of any kind as JSON.
func (r *reader) json(to *[]byte) read {
	return func(n *yaml.Node, path string) {
		var value any
		err := n.Decode(&value)
		if err == nil {
			*to, err = json.Marshal(value)
		}
		if err != nil {
			r.failf(n, path, "%w", err)
		}
	}
}

func (r *reader) reply(n *yaml.Node, path string, to *Reply) {
	r.mapping(n, path, map[string]read{
		"status": func(n *yaml.Node, path string) {
			r.number(&to.Status)(n, path)
			if to.Status < 100 || to.Status > 999 {
				r.failf(n, path, "want a status from 100 to 999")
			}
		},
		"headers": func(n *yaml.Node, path string) {
			to.Headers = make(http.Header)
			r.entries(n, path, func(key, value *yaml.Node, at string) {
				var values []string
				if value.Kind == yaml.SequenceNode {
					r.items(value, at, r.appended(&values))
				} else {
					r.appended(&values)(value, at)
				}
				to.Headers[http.CanonicalHeaderKey(key.Value)] = values
			})
		},
		"body": func(n *yaml.Node, path string) {
			if n.Kind == yaml.ScalarNode {
				text, _ := r.scalar(n, path)
				to.Body = []byte(text)
				return
			}
			r.one(n, path, map[string]read{"text": r.data(&to.Body, asBytes), "hex": r.data(&to.Body, fromHex), "json": r.json(&to.Body)})
		},
		"latency": r.duration(&to.Latency),
		"every":   r.duration(&to.Every),
		"end":     r.behaviour(&to.End, ResetNow, HalfOpen),
	})
}

func (r *reader) record(n *yaml.Node, path string, to *Record) {
	to.Type = dnsmessage.TypeA
	var answers *yaml.Node
	r.mapping(n, path, map[string]read{
		"name":      r.domain(&to.Name),
		"type":      r.recordType(&to.Type),
		"rcode":     parsed(r, &to.RCode, oneOf(rcodes)),
		"server":    r.server(&to.Server),
		"answers":   func(n *yaml.Node, _ string) { answers = n },
		"latency":   r.duration(&to.Latency),
		"behaviour": r.behaviour(&to.Behaviour, Refuse, Timeout, ResetNow, HalfOpen, Garbage, Truncate),
	}, "name")
	if answers == nil {
		return
	}
	if to.Behaviour != "" && to.Behaviour != Truncate {
		r.failf(answers, join(path, "answers"), "a record has a behaviour or answers, not both")
	}
	r.items(answers, join(path, "answers"), func(n *yaml.Node, path string) { r.answer(n, path, to) })
}

// answer reads one answer, which may be the data alone.
func (r *reader) answer(n *yaml.Node, path string, to *Record) {
	name, t, ttl, data := to.Name, to.Type, defaultTTL, ""
	if n.Kind == yaml.ScalarNode {
		data = n.Value
	} else {
		r.mapping(n, path, map[string]read{
			"name": r.domain(&name), "type": r.recordType(&t), "ttl": r.number(&ttl), "data": r.text(&data),
		}, "data")
	}
	body, err := resource(t, data)
	if err != nil {
		r.failf(n, join(path, "data"), "%w", err)
		return
	}
	owner, _ := domain(name) // it was read as one before
	head := dnsmessage.ResourceHeader{Name: owner, Type: t, Class: dnsmessage.ClassINET, TTL: uint32(ttl)}
	to.Answers = append(to.Answers, dnsmessage.Resource{Header: head, Body: body})
}

func (r *reader) domain(to *string) read {
	return parsed(r, to, func(text string) (string, error) {
		_, err := domain(text)
		return text, err
	})
}

func (r *reader) recordType(to *dnsmessage.Type) read { return parsed(r, to, oneOf(recordTypes)) }

func (r *reader) server(to *string) read {
	return parsed(r, to, func(text string) (string, error) {
		if text == "target" || validURL("udp://"+text) {
			_, _, err := net.SplitHostPort(text)
			if text == "target" {
				err = nil
			}
			return text, err
		}
		return text, fmt.Errorf("%.80q: want target, or host:port", text)
	})
}

// oneOf reads one of the names.
func oneOf[T any](known map[string]T) func(string) (T, error) {
	return func(text string) (T, error) {
		value, ok := known[text]
		if !ok {
			return value, fmt.Errorf("unknown value %.80q; known: %s", text, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		return value, nil
	}
}
