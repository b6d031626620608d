// Package echo sends ICMP echo requests and waits for their replies.
//
// Read echo.go first, one request; then message.go, which packets belong to it. socket.go has the
// sockets: those for everybody, where the kernel allows them, else raw ones.
package echo

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/daeace23/prober/handlers/netns"
)

// Request is one echo request.
type Request struct {
	Addr         netip.Addr
	Source       netip.Addr // the address to send from; the zero Addr lets the system choose
	Payload      int        // bytes after the header of ICMP
	HopLimit     int        // 0 means that of the system
	DontFragment bool
}

// Reply is the reply to a [Request].
type Reply struct {
	Local      netip.Addr // to which it came; the zero Addr if the system does not tell
	Payload    int
	HopLimit   int // as it came; 0 if the system does not tell
	Setup, RTT time.Duration
}

// NotPermittedError is the error of a request for which the system gives no socket to this user.
type NotPermittedError struct{ Datagram, Raw error }

// Error says what to change.
func (e *NotPermittedError) Error() string {
	return fmt.Sprintf("this user may not send echo requests: %v; %v (needs a group in net.ipv4.ping_group_range, or CAP_NET_RAW)", e.Datagram, e.Raw)
}

// noReplyError is the error of a request whose context has ended. It unwraps to that of the context.
type noReplyError struct{ ended error }

func (e *noReplyError) Error() string { return "no reply in time" }

func (e *noReplyError) Unwrap() error { return e.ended }

// socket sends to one address, and receives packets of ICMP.
type socket interface {
	// id returns the identifier of its requests, if it sets that itself.
	id() (id uint16, fixed bool)
	send(message []byte) error
	// receive waits for a packet. An error that is a [*RefusedError] is a message of ICMP.
	receive(buf []byte) (packet, error)
	// expire ends receive with os.ErrDeadlineExceeded.
	expire()
	Close() error
}

// Do sends one request in the network namespace of ctx, and waits for its reply until ctx ends. An error
// may be a [*RefusedError] or a [*NotPermittedError].
func Do(ctx context.Context, r Request) (Reply, error) {
	return do(ctx, &r, func(r *Request) (socket, error) { return open(netns.From(ctx), r) })
}

func do(ctx context.Context, r *Request, open func(*Request) (socket, error)) (Reply, error) {
	start := time.Now()
	if err := ctx.Err(); err != nil {
		return Reply{}, &noReplyError{err}
	}
	s, err := open(r)
	if err != nil {
		return Reply{}, err
	}
	defer func() { _ = s.Close() }()
	defer context.AfterFunc(ctx, s.expire)()
	sent := newRequest(r, s)
	message := sent.message()
	reply := Reply{Setup: time.Since(start), Payload: r.Payload}
	for try := 1; ; try++ {
		begun := time.Now()
		if err := s.send(message); err != nil {
			return Reply{}, err
		}
		came, err := sent.await(ctx, s)
		if refused, ok := errors.AsType[*RefusedError](err); ok && refused.tooBig() && !r.DontFragment && try < maxTries {
			continue // over IPv6 the kernel has learned from the message, and sends pieces now
		}
		reply.RTT, reply.Local, reply.HopLimit = time.Since(begun), came.to, came.hopLimit
		return reply, err
	}
}

// maxTries is how often a request is sent: each link of its path may be smaller than those before.
const maxTries = 4

// newRequest returns a request with random numbers and a random payload.
func newRequest(r *Request, s socket) *request {
	var numbers [4]byte
	sent := &request{to: r.Addr, payload: make([]byte, r.Payload)}
	_, _ = rand.Read(numbers[:]) // it never fails
	_, _ = rand.Read(sent.payload)
	sent.id, sent.seq = binary.BigEndian.Uint16(numbers[:]), binary.BigEndian.Uint16(numbers[2:])
	if id, fixed := s.id(); fixed {
		sent.id = id
	}
	return sent
}

// room is how many bytes of a packet are read at least: a message about an error may be longer than
// the request.
const room = 1500

// await reads packets until one is the answer. A flood of others neither delays the end of ctx nor
// takes memory: there is one buffer.
func (q *request) await(ctx context.Context, s socket) (packet, error) {
	buf := make([]byte, max(room, headerLen+len(q.payload)+1))
	for {
		p, err := s.receive(buf)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) || err == nil && ctx.Err() != nil:
			return packet{}, &noReplyError{ctx.Err()}
		case err != nil:
			return packet{}, err
		}
		if done, err := q.answeredBy(p, buf[:p.len]); done {
			return p, err
		}
	}
}
