// Package echo sends ICMP echo requests and waits for their replies.
//
// Read echo.go first, which handles one request, then message.go, which recognizes its answers.
// socket.go opens unprivileged datagram sockets if the system permits them, else raw ones.
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
	Payload      int        // bytes after the ICMP header
	HopLimit     int        // 0 means the system's default
	DontFragment bool
}

// Reply is the reply to a [Request].
type Reply struct {
	Local      netip.Addr // destination address of the reply; the zero Addr if unknown
	Payload    int
	HopLimit   int // hop limit of the received reply; 0 if unknown
	Setup, RTT time.Duration
}

// NotPermittedError means that the system permits this user neither kind of socket.
type NotPermittedError struct{ Datagram, Raw error }

// Error also describes how to permit echo requests.
func (e *NotPermittedError) Error() string {
	return fmt.Sprintf("this user may not send echo requests: %v; %v (needs a group in net.ipv4.ping_group_range, or CAP_NET_RAW)", e.Datagram, e.Raw)
}

// noReplyError means that the context of a request has ended. It unwraps to the context's error.
type noReplyError struct{ ended error }

func (e *noReplyError) Error() string { return "no reply in time" }

func (e *noReplyError) Unwrap() error { return e.ended }

// socket sends to one address, and receives ICMP packets.
type socket interface {
	// id returns the identifier of requests, if the socket sets it itself.
	id() (id uint16, fixed bool)
	send(message []byte) error
	// receive waits for a packet. A [*RefusedError] means that an ICMP error was received.
	receive(buf []byte) (packet, error)
	// expire makes receive return os.ErrDeadlineExceeded.
	expire()
	Close() error
}

// Do sends one request in the network namespace of ctx, and waits for the reply until ctx ends. An error
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
			continue // the kernel has learned the MTU from the message, and fragments the next packet
		}
		reply.RTT, reply.Local, reply.HopLimit = time.Since(begun), came.to, came.hopLimit
		return reply, err
	}
}

// maxTries is how often a request is sent. Each further link of the path may have a smaller MTU.
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

// minBuffer is the minimum size of the receive buffer in bytes, because an ICMP error may be longer
// than the request.
const minBuffer = 1500

// await reads packets until it finds the answer. A flood of other packets neither delays the end of ctx
// nor takes memory, because there is one buffer.
func (q *request) await(ctx context.Context, s socket) (packet, error) {
	buf := make([]byte, max(minBuffer, headerLen+len(q.payload)+1))
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
