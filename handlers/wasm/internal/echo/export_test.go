package echo

import (
	"context"
	"net/netip"
)

// Packet is a packet that a [Script] receives.
type Packet struct {
	From, To netip.Addr
	HopLimit int
	Data     []byte
}

// Script is a scripted socket. Receive returns the next packet after a request was sent.
type Script struct {
	Fixed   uint16 // the identifier that the system sets; 0 means none
	Receive func(sent []byte) (Packet, error)
	Expired chan struct{}
	Closed  bool

	sent []byte
}

func (s *Script) id() (uint16, bool) { return s.Fixed, s.Fixed != 0 }

func (s *Script) send(message []byte) error {
	s.sent = message
	return nil
}

func (s *Script) receive(buf []byte) (packet, error) {
	p, err := s.Receive(s.sent)
	return packet{len: copy(buf, p.Data), from: p.From, to: p.To, hopLimit: p.HopLimit}, err
}

func (s *Script) expire() { close(s.Expired) }

// Close implements io.Closer.
func (s *Script) Close() error {
	s.Closed = true
	return nil
}

// DoWith is [Do] over s.
func DoWith(ctx context.Context, r Request, s *Script) (Reply, error) {
	return do(ctx, &r, func(*Request) (socket, error) { return s, nil })
}

// Answers reports whether data from the address from answers a request with the given destination,
// numbers and payload.
func Answers(to, from netip.Addr, id, seq uint16, payload, data []byte) (bool, error) {
	q := request{to: to, id: id, seq: seq, payload: payload}
	return q.answeredBy(packet{len: len(data), from: from}, data)
}
