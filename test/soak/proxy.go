//go:build linux

package main

import (
	"io"
	"net"
	"time"
)

// fault is what the proxy does to a connection.
type fault uint8

const (
	pass      fault = iota
	delayed         // relayed after a third of a second
	dripping        // the answer is sent in small parts
	resets          // reset at once
	hangs           // read, but never answered
	halfClose       // closed for writing at once, but still read
	cutsOff         // closed in the middle of the answer
)

// The faults for each protocol. A gRPC client may connect again when a connection ends, so one attempt
// could make several connections. Therefore its connections are not closed.
var (
	httpFaults  = []fault{resets, hangs, halfClose, cutsOff}
	redisFaults = []fault{resets, hangs, halfClose, cutsOff}
	grpcFaults  = []fault{hangs}
)

// For each probe, goodConns connections succeed, then badConns connections fail in one way, and so on.
const (
	goodConns = 7
	badConns  = 5
)

// proxy relays connections to a target, or simulates a broken network. The number of a probe's connections
// decides, so the log says which result each attempt must have.
type proxy struct {
	target net.Addr
	faults []fault
	seen   map[uint32]int // connections by probe; used by serve alone
}

func newProxy(target net.Addr, faults []fault) *proxy {
	return &proxy{target, faults, make(map[uint32]int)}
}

// plan returns the fault and the verdict for connection n of a probe.
func (p *proxy) plan(key uint32, n int) (fault, verdict) {
	turn, h := n%(goodConns+badConns), hash(int(key), n/(goodConns+badConns))
	if turn >= goodConns {
		return p.faults[h%uint64(len(p.faults))], fails
	}
	switch h >> 8 % 8 {
	case 0:
		return delayed, succeeds
	case 1:
		return dripping, succeeds
	}
	return pass, succeeds
}

func (p *proxy) serve(l *loggedListener) {
	for {
		conn, key, err := l.accept()
		if err != nil {
			return
		}
		n := p.seen[key]
		p.seen[key]++
		f, v := p.plan(key, n)
		l.server.record(key, v)
		go func() {
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(time.Minute))
			if err := p.handle(conn.(*net.TCPConn), f); err != nil {
				l.server.record(0, inTrouble)
			}
		}()
	}
}

// handle serves one connection. It returns an error if it cannot connect to the target.
func (p *proxy) handle(conn *net.TCPConn, f fault) error {
	switch f {
	case resets:
		reset(conn)
		return nil
	case hangs:
		discard(conn)
		return nil
	case halfClose:
		_ = conn.CloseWrite()
		discard(conn)
		return nil
	case delayed:
		time.Sleep(time.Second / 3)
	}
	to, err := net.DialTimeout("tcp", p.target.String(), 5*time.Second)
	if err != nil {
		return err
	}
	defer to.Close()
	_ = to.SetDeadline(time.Now().Add(time.Minute))
	go func() {
		_, _ = io.Copy(to, conn)
		_ = to.(*net.TCPConn).CloseWrite()
	}()
	switch f {
	case cutsOff:
		_, _ = io.CopyN(conn, to, 11)
	case dripping:
		for {
			time.Sleep(20 * time.Millisecond)
			if _, err := io.CopyN(conn, to, 8); err != nil {
				return nil
			}
		}
	default:
		_, _ = io.Copy(conn, to)
	}
	return nil
}
