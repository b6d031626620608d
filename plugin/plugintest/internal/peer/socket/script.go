// Package socket has the peers of host.net: servers of TCP, UDP, TLS and unix sockets that
// follow a script. Read script.go first, then message.go and conn.go.
package socket

import (
	"bytes"
	"fmt"
	"regexp"
	"time"

	"github.com/daeace23/prober/plugin/plugintest/internal/cert"
	"github.com/daeace23/prober/plugin/plugintest/internal/expr"
	"github.com/daeace23/prober/plugin/plugintest/internal/field"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer/httpmatch"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer/program"
)

// Server is one server that a plugin may connect to. If several have the same URL, each serves one
// connection, and the last one all further connections.
type Server struct {
	Dial      string // "tcp://host:port", "udp://…", "tls://…" or "unix:///path"
	Line      int
	Behaviour peer.Behaviour
	Latency   time.Duration // of the connection, and of each thing sent
	TLS       *cert.Spec    // its certificate; nil for a server without TLS
	Script    []Step
	Program   *program.Command // that plays the server; nil for none

	note string // a comment in the session
}

// Step is one step of a script: exactly one of its fields is set.
type Step struct {
	Line      int
	Recv      *Recv
	Send      *Send
	Handshake bool // waits for the TLS handshake
	Close     bool
	Reset     bool
	Wait      time.Duration
	Let       []Assignment // computes values, in order
}

// Assignment gives a computed value a name.
type Assignment struct {
	Name    string
	value   *expr.Template // an expression; nil: message
	message *Message
}

// compute returns the value.
func (a *Assignment) compute(env *expr.Env) (expr.Value, error) {
	if a.value != nil {
		return a.value.Value(env)
	}
	data, err := a.message.bytes(env)
	return expr.Value{Bytes: data}, err
}

// String returns a description of the data that the step waits for.
func (s *Step) String() string {
	if s.Recv != nil {
		return s.Recv.String()
	}
	return "a handshake of TLS"
}

// Recv waits for data of the plugin, in any number of pieces. Exactly one of its fields before As is set.
type Recv struct {
	Exact  *Message         // these bytes
	Prefix *Message         // everything that begins with them
	Regex  *regexp.Regexp   // the match, which must start at the first byte; its named groups are captured
	HTTP   *httpmatch.Match // an HTTP/1 request
	Any    bool             // at least one byte
	Length int              // this number of bytes
	Until  []byte           // everything up to these bytes, and them
	Frame  *Frame           // a message with its length

	As string // name for the received bytes, without those of Until; "" for none
}

// Send sends to the plugin, byte by byte if Every is not 0.
type Send struct {
	Data  *Message
	Every time.Duration
}

// received is the result of a step that receives.
type received struct {
	size   int // number of bytes
	values map[string][]byte
}

// match compares the bytes of the plugin with r. done reports whether r is complete. The error is the
// reason for which r cannot match.
func (r *Recv) match(data []byte, env *expr.Env) (got received, done bool, err error) {
	got.values = make(map[string][]byte)
	switch {
	case r.Regex != nil:
		got.size, done = r.matchRegex(data, got.values)
	case r.Frame != nil:
		var body int
		if body, got.size, done, err = r.Frame.match(data); done && r.Frame.Body != "" {
			got.values[r.Frame.Body] = data[body:got.size]
		}
	case r.Until != nil:
		before, _, found := bytes.Cut(data, r.Until)
		if done = found; done && r.As != "" {
			got.values[r.As] = before
		}
		got.size = len(before) + len(r.Until)
		return got, done, err
	default:
		got.size, done, err = r.matchBytes(data, env)
	}
	if done && r.As != "" {
		got.values[r.As] = data[:got.size]
	}
	return got, done, err
}

// matchRegex returns the end of the match, and adds its named groups to values.
func (r *Recv) matchRegex(data []byte, values map[string][]byte) (n int, done bool) {
	at := r.Regex.FindSubmatchIndex(data)
	if at == nil {
		return 0, false
	}
	for i, name := range r.Regex.SubexpNames() {
		if name == "" {
			continue
		}
		values[name] = nil // of a group that took no part in the match
		if at[2*i] >= 0 {
			values[name] = data[at[2*i]:at[2*i+1]]
		}
	}
	return at[1], true
}

// matchBytes matches the kinds of steps that capture only the whole.
func (r *Recv) matchBytes(data []byte, env *expr.Env) (n int, done bool, err error) {
	switch {
	case r.Any:
		return len(data), len(data) > 0, nil
	case r.HTTP != nil:
		return r.HTTP.Consume(data)
	case r.Length > 0:
		return r.Length, len(data) >= r.Length, nil
	}
	message := r.Exact
	if message == nil {
		message = r.Prefix
	}
	want, err := message.bytes(env)
	if err != nil {
		return 0, false, err
	}
	n, done, err = matchStart(want, data)
	if r.Prefix != nil {
		n = len(data)
	}
	return n, done, err
}

func matchStart(want, data []byte) (n int, done bool, err error) {
	common := min(len(want), len(data))
	if !bytes.Equal(want[:common], data[:common]) {
		return 0, false, fmt.Errorf("got %s, want %s", field.Quote(data), field.Quote(want))
	}
	return len(want), len(data) >= len(want), nil
}

func (r *Recv) String() string {
	switch {
	case r.Any:
		return "anything"
	case r.Regex != nil:
		return "what matches " + r.Regex.String()
	case r.HTTP != nil:
		return "a request that matches " + r.HTTP.String()
	case r.Exact != nil:
		return r.Exact.String()
	case r.Length > 0:
		return fmt.Sprintf("%d bytes", r.Length)
	case r.Until != nil:
		return "what ends with " + field.Quote(r.Until)
	case r.Frame != nil:
		return "a message with its length"
	default:
		return "what begins with " + r.Prefix.String()
	}
}

// begins reports whether the script may begin with data.
func (s *Server) begins(data []byte, env *expr.Env) bool {
	if s.Behaviour != "" || s.Program != nil || len(s.Script) == 0 || s.Script[0].Recv == nil {
		return false
	}
	_, _, err := s.Script[0].Recv.match(data, env)
	return err == nil
}
