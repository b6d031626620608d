// Package peer simulates the network of a test case. Read this file first: [Protocol] is all
// that a kind of peers has to implement, and network.go brings the protocols of a case together.
// Each folder below is one protocol; testfile/host.go lists them.
package peer

import (
	"context"
	"errors"
	"net"
	"net/http"

	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin/plugintest/internal/capture"
	"github.com/daeace23/prober/plugin/plugintest/internal/cert"
	"github.com/daeace23/prober/plugin/plugintest/internal/field"
)

// Protocol is one kind of peers. It has a field of its own below host in test files.
type Protocol interface {
	// Field returns the name of that field.
	Field() string
	// Decode reads that field.
	Decode(r *field.Reader, n *yamlpos.Node, path string) Peers
	// Record describes the connections that are of this protocol, and returns the others.
	Record(a *capture.Attempt, conns []*capture.Summary) (Peers, []*capture.Summary)
	// Everywhere returns a peer at every address that behaves so, or no peers for "".
	Everywhere(b Behaviour) Peers
}

// Peers are those of one protocol in one case. Nothing changes them once they are decoded or
// recorded, but Redact.
type Peers interface {
	// Doc returns the value of the field in a session, which may be a *yaml.Node; nil to leave it
	// out.
	Doc() (any, error)
	// Redact replaces each text that may hold a secret.
	Redact(text func(string) string)
	// Names gives hosts the addresses that peers have for them.
	Names(h *Hosts)
	// Grants returns the grants that a plugin needs for its peers and that no pattern gives.
	Grants() []string
	// Play returns the peers as they are for one attempt.
	Play(n *Network) Player
}

// Player plays the peers of one protocol for one attempt. It is safe for concurrent use.
type Player interface {
	// Dial connects to the peer at an address; false if the protocol has none there. network is
	// "tcp", "udp" or "unix".
	Dial(ctx context.Context, network, addr string) (conn net.Conn, ok bool, err error)
	// Unused returns a failure for each peer that the plugin did not use as the case foresees.
	Unused() []string
	// States returns what each peer is doing, for an attempt that hung.
	States() []string

	// At returns how the peer at an address behaves; false if the protocol has none there.
	At(network, addr string) (Behaviour, bool)
	// MarkUsed marks the peers at an address as used, where a socket cannot notice its use.
	MarkUsed(network, addr string)
	// Unservable returns why no socket can play the peers for a process, or "". A guided process
	// asks where to dial, and whose certificates to trust.
	Unservable(guided bool) string
}

// HTTPPlayer is the player that also answers requests of HTTP.
type HTTPPlayer interface {
	Player
	// RoundTrip answers a request to the server at addr.
	RoundTrip(req *http.Request, addr string) (*http.Response, error)
	// Certificate returns what the server at addr shows; nil if it has no TLS.
	Certificate(addr string) *cert.Spec
	// HandshakeFailed marks the exchange as used whose certificate was shown at addr.
	HandshakeFailed(addr string)
}

// TLSConn is a connection that [Player.Dial] returns and that may become one of TLS.
type TLSConn interface {
	net.Conn
	// Ready reports whether a Read returns at once: see handlers/wasm.
	Ready() bool
	// Server returns who is at the other end.
	Server() Server
	// StartsTLS reports whether data begins a handshake, rather than what the peer waits for. A
	// peer that starts with TLS starts it without data.
	StartsTLS(data []byte) bool
	// HandshakeDone tells the peer that a handshake was made.
	HandshakeDone()
}

// Server is the other end of a [TLSConn].
type Server struct {
	URL       string
	Behaviour Behaviour
	TLS       *cert.Spec // nil for a peer without TLS
}

// Behaviour is a fault that a peer has.
type Behaviour string

// The behaviours. A peer without one does what its case says.
const (
	Refuse   Behaviour = "refuse"    // nobody listens
	Timeout  Behaviour = "timeout"   // a black hole: the connection is never made
	Reset    Behaviour = "reset"     // the connection is made, and reset at once
	HalfOpen Behaviour = "half-open" // the connection is made, and nothing ever comes back
	Garbage  Behaviour = "garbage"   // random bytes answer everything
)

// Behaviours are those of every protocol.
var Behaviours = []Behaviour{Refuse, Timeout, Reset, HalfOpen, Garbage}

// DecodeBehaviour reads one of the known behaviours.
func DecodeBehaviour(r *field.Reader, to *Behaviour, known ...Behaviour) field.Read {
	return yamlpos.OneOf(&r.Decoder, to, known...)
}

// Closed returns b if no connection is made to a peer that behaves so, or "".
func (b Behaviour) Closed() Behaviour {
	if b == Refuse || b == Timeout {
		return b
	}
	return ""
}

// Reasons why a process cannot be shown a peer.
const (
	OpenOrNot     = "a port of loopback is either open or not"
	DialsByItself = " is not at the target, and this process dials by itself"
	OwnTLS        = "this process does not know whom to trust, and makes its TLS by itself"
)

// BehaviourOf returns how a peer behaves where a dial or a request fails with err.
func BehaviourOf(err error) Behaviour {
	var timeout interface{ Timeout() bool }
	switch {
	case err == nil:
		return ""
	case capture.IsReset(err):
		return Reset
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.Canceled), errors.Is(err, net.ErrClosed):
		return Timeout
	default:
		return Refuse
	}
}
