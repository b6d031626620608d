// Package socket has the peers of host.net: servers of TCP, UDP, TLS and unix sockets that
// follow a script. Read script.go first, then conn.go.
package socket

import (
	"bytes"
	"fmt"
	"regexp"
	"time"

	"github.com/daeace23/prober/plugin/plugintest/internal/cert"
	"github.com/daeace23/prober/plugin/plugintest/internal/field"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer/httpmatch"
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
}

// String returns a description of the data that the step waits for.
func (s *Step) String() string {
	if s.Recv != nil {
		return s.Recv.String()
	}
	return "a handshake of TLS"
}

// Recv waits for data of the plugin, in any number of pieces. Exactly one of its fields is set.
type Recv struct {
	Exact  []byte           // these bytes
	Prefix []byte           // everything that begins with them
	Regex  *regexp.Regexp   // the match, which must start at the first byte
	HTTP   *httpmatch.Match // an HTTP/1 request
	Any    bool             // at least one byte
}

// Send sends to the plugin, byte by byte if Every is not 0.
type Send struct {
	Data  []byte
	Every time.Duration
}

// match compares the received bytes with r. It returns the number of bytes that r consumes and whether
// r is complete, or the reason for which r cannot match.
func (r *Recv) match(data []byte) (n int, done bool, err error) {
	switch {
	case r.Any:
		return len(data), len(data) > 0, nil
	case r.HTTP != nil:
		return r.HTTP.Consume(data)
	case r.Regex != nil:
		if at := r.Regex.FindIndex(data); at != nil {
			return at[1], true, nil
		}
		return 0, false, nil
	case r.Exact != nil:
		n, done, err = matchStart(r.Exact, data)
		return n, done, err
	default:
		_, done, err = matchStart(r.Prefix, data)
		return len(data), done, err
	}
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
		return field.Quote(r.Exact)
	default:
		return "what begins with " + field.Quote(r.Prefix)
	}
}

// begins reports whether the script may begin with data.
func (s *Server) begins(data []byte) bool {
	if s.Behaviour != "" || len(s.Script) == 0 || s.Script[0].Recv == nil {
		return false
	}
	_, _, err := s.Script[0].Recv.match(data)
	return err == nil
}
