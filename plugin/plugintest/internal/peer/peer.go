// Package peer simulates the network of a test case: the servers that a plugin talks to.
//
//   - A [Protocol] is a kind of peers. It decodes their field in test files.
//   - [Peers] are the contents of that field in one case, as decoded or recorded.
//   - A [Player] plays them for one attempt. It holds the state, such as which peers were used.
//
// Each folder is one protocol with one field below host: socket has net, web has http, and dns and
// icmp have dns and icmp. testfile/host.go lists them. [Network] brings the players of an attempt together.
//
// A protocol that plugins reach by a dial implements only [Protocol], [Peers] and [Player]: guests
// dial it through [Network], and for processes package loopback serves the result of Dial at its
// sockets. A protocol with a host function of its own, such as [HTTPPlayer] and [EchoPlayer], also
// needs code in plugintest/guest.go, network.go and, as a server, in loopback/web.go.
package peer

import (
	"context"
	"errors"
	"net"
	"net/http"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin/plugintest/internal/capture"
	"github.com/daeace23/prober/plugin/plugintest/internal/cert"
	"github.com/daeace23/prober/plugin/plugintest/internal/field"
)

// Protocol is one kind of peers, which has its own field below host in test files.
type Protocol interface {
	// Field returns the name of that field.
	Field() string
	// Decode reads that field.
	Decode(r *field.Reader, n *yamlpos.Node, path string) Peers
	// Record returns peers for the recorded connections that use this protocol, and the other
	// connections.
	Record(a *capture.Attempt, conns []*capture.Summary) (Peers, []*capture.Summary)
	// Everywhere returns peers that show b at every address, or no peers if b is "".
	Everywhere(b Behaviour) Peers
}

// Peers are the peers of one protocol in one case. Only Redact changes them after they are
// decoded or recorded.
type Peers interface {
	// Doc returns the value to write into the field in a session, which may be a *yaml.Node. Nil
	// leaves the field out.
	Doc() (any, error)
	// Redact replaces each string that may contain a secret by the result of text.
	Redact(text func(string) string)
	// Names adds the addresses that peers give to names, as DNS records do.
	Names(h *Hosts)
	// Grants returns the grants that the peers need beside [plugin.WidestGrants]: unix sockets,
	// such as unix:///run/db.sock, are granted one by one.
	//
	// [plugin.WidestGrants]: https://pkg.go.dev/github.com/daeace23/prober/plugin#WidestGrants
	Grants() []string
	// Play returns the player of one attempt, in which no peer has been used.
	Play(n *Network) Player
}

// Commander is implemented by [Peers] some of which may be processes.
type Commander interface {
	// Commands reports whether a peer is a process.
	Commands() bool
}

// Player plays the peers of one protocol for one attempt. It is safe for concurrent use.
type Player interface {
	// Dial connects to the peer at addr. ok is false if the protocol has no peer there. network
	// is "tcp", "udp" or "unix".
	Dial(ctx context.Context, network, addr string) (conn net.Conn, ok bool, err error)
	// Unused returns a failure for each peer that the plugin did not use as the case foresees.
	Unused() []string
	// States returns the state of each peer, for an attempt that hung.
	States() []string

	// The methods below serve processes, whose peers are sockets on loopback.

	// At returns the behaviour of the first peer at addr, "" if that has no fault. ok is false if
	// the protocol has no peer there.
	At(network, addr string) (b Behaviour, ok bool)
	// MarkUsed marks the peers at addr as used. It is called for behaviours with which no
	// connection reaches the peer, such as [Refuse].
	MarkUsed(network, addr string)
	// Unservable returns the reason why sockets on loopback cannot play these peers, so that a
	// process skips the case. It returns "" if they can. guided says that the process asks where
	// to dial and which certificate authority to trust.
	Unservable(guided bool) string
}

// HTTPPlayer is the player that also answers HTTP requests.
type HTTPPlayer interface {
	Player
	// RoundTrip answers a request to the server at addr.
	RoundTrip(req *http.Request, addr string) (*http.Response, error)
	// Certificate returns the certificate of the server at addr, nil if it has no TLS.
	Certificate(addr string) *cert.Spec
	// HandshakeFailed marks the exchange whose certificate was shown at addr as used.
	HandshakeFailed(addr string)
}

// EchoPlayer is the player that also replies to ICMP echo requests.
type EchoPlayer interface {
	Player
	Echo(ctx context.Context, r wasm.EchoRequest) (wasm.EchoReply, error)
}

// TLSConn is a connection of [Player.Dial] on which TLS may be started.
type TLSConn interface {
	net.Conn
	// Ready reports whether a Read returns at once: see handlers/wasm.
	Ready() bool
	// Server returns the server at the other end.
	Server() Server
	// StartsTLS reports whether data is the beginning of a handshake and not what the peer
	// expects to receive. A peer that starts with TLS returns true for no data.
	StartsTLS(data []byte) bool
	// HandshakeDone tells the peer that the handshake has succeeded.
	HandshakeDone()
}

// Server is the other end of a [TLSConn].
type Server struct {
	URL       string
	Behaviour Behaviour
	TLS       *cert.Spec // nil for a peer without TLS
}

// Behaviour is the fault of a peer.
type Behaviour string

// The behaviours. A peer without one follows its script or its replies.
const (
	Refuse   Behaviour = "refuse"    // the connection is refused
	Timeout  Behaviour = "timeout"   // a black hole: the connection is never made
	Reset    Behaviour = "reset"     // the connection is made, and reset at once
	HalfOpen Behaviour = "half-open" // the connection is made, and nothing is ever received
	Garbage  Behaviour = "garbage"   // everything is answered with random bytes
)

// Behaviours are the behaviours that every protocol has.
var Behaviours = []Behaviour{Refuse, Timeout, Reset, HalfOpen, Garbage}

// DecodeBehaviour returns a function that reads one of the known behaviours.
func DecodeBehaviour(r *field.Reader, to *Behaviour, known ...Behaviour) field.Read {
	return yamlpos.OneOf(&r.Decoder, to, known...)
}

// Closed returns b if it keeps connections from being made, "" otherwise.
func (b Behaviour) Closed() Behaviour {
	if b == Refuse || b == Timeout {
		return b
	}
	return ""
}

// Reasons that Unservable returns.
const (
	OpenOrNot     = "a port of loopback is either open or not"
	DialsByItself = " is not at the target, and this process dials by itself"
	OwnTLS        = "this process does not know whom to trust, and makes its TLS by itself"
)

// BehaviourOf returns the behaviour that explains why a dial or a request failed with err, "" for
// nil.
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
