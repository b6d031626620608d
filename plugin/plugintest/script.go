package plugintest

import (
	"bytes"
	"fmt"
	"regexp"
	"time"
)

// Behaviour is what a peer does instead of following a script.
type Behaviour string

// The behaviours. A peer without one accepts connections and follows its script.
const (
	Refuse   Behaviour = "refuse"    // nobody listens
	Timeout  Behaviour = "timeout"   // the connection is never made: a black hole
	ResetNow Behaviour = "reset"     // the connection is made, and reset at once
	HalfOpen Behaviour = "half-open" // the connection is made, and nothing ever comes back
	Garbage  Behaviour = "garbage"   // random bytes answer whatever comes
)

// Peer is one server that a guest may connect to. Of several with the same URL each
// serves one connection, and the last one all further ones too.
type Peer struct {
	Dial      string // "tcp://host:port", "udp://…", "tls://…" or "unix:///path"
	Line      int
	Behaviour Behaviour
	Latency   time.Duration // of the connection, and of each thing sent
	TLS       *TLS          // what it shows in a handshake; nil for a peer that speaks no TLS
	Script    []Step

	note string // of a recorder
}

// TLS is what a peer shows in a handshake, which is played as well: scripts see what
// is inside.
type TLS struct {
	Names     []string      // of the certificate; empty for the host that is dialled
	NotBefore time.Duration // from now on; most often below 0
	NotAfter  time.Duration // from now on; below 0 it has expired
	Error     string        // the handshake fails with it
}

// Step is one step of a script: exactly one of its fields is set.
type Step struct {
	Line      int
	Recv      *Recv
	Send      *Send
	Handshake bool // waits for the handshake of TLS
	Close     bool
	Reset     bool
	Wait      time.Duration
}

// String says what the step waits for.
func (s *Step) String() string {
	if s.Recv != nil {
		return s.Recv.String()
	}
	return "a handshake of TLS"
}

// Recv waits for what the guest sends, in however many pieces: exactly one of its
// fields is set.
type Recv struct {
	Exact  []byte         // these bytes
	Prefix []byte         // whatever begins with them
	Regex  *regexp.Regexp // what matches, from the beginning on
	HTTP   *Match         // a request of HTTP/1 that means the same
	Any    bool           // something
}

// Send sends to the guest, byte by byte if Every is not 0.
type Send struct {
	Data  []byte
	Every time.Duration
}

// match holds what has come against r. It reports how many bytes r takes, whether
// that is all of it, and an error if it can not match any more.
func (r *Recv) match(data []byte) (n int, done bool, err error) {
	switch {
	case r.Any:
		return len(data), len(data) > 0, nil
	case r.HTTP != nil:
		return r.HTTP.matchBytes(data)
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
		return 0, false, fmt.Errorf("got %s, want %s", quote(data), quote(want))
	}
	return len(want), len(data) >= len(want), nil
}

const maxQuoted = 200

// quote spells bytes for people: as text where they are text.
func quote(data []byte) string {
	more := ""
	if len(data) > maxQuoted {
		data, more = data[:maxQuoted], "…"
	}
	for _, b := range data {
		if b < ' ' && b != '\n' && b != '\r' && b != '\t' || b > '~' {
			return fmt.Sprintf("hex %x%s", data, more)
		}
	}
	return fmt.Sprintf("%q%s", data, more)
}

func (r *Recv) String() string {
	switch {
	case r.Any:
		return "anything"
	case r.Regex != nil:
		return "what matches " + r.Regex.String()
	case r.HTTP != nil:
		return "the request " + r.HTTP.String()
	case r.Exact != nil:
		return quote(r.Exact)
	default:
		return "what begins with " + quote(r.Prefix)
	}
}
