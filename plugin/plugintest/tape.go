package plugintest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// tape is what was noted of one connection.
type tape struct {
	recorder      *Recorder
	network, addr string
	web           bool // a hop of HTTP
	begun         time.Time

	mu      sync.Mutex
	latency time.Duration // until it was made
	err     error         // why it was not
	marks   []mark
	size    int
	cut     int // bytes that were left out
	tls     *TLS
}

// mark is one thing that happened.
type mark struct {
	at   time.Time
	what happening
	data []byte
}

type happening int

const (
	sent happening = iota // by the guest
	received
	shaken
	ended
	reset
	unreachable // udp: nobody listens
)

// taped is a connection that is recorded.
type taped struct {
	net.Conn
	tape *tape
}

// securelyTaped is one after a handshake.
type securelyTaped struct {
	taped
	state tls.ConnectionState
}

// ConnectionState returns what the handshake showed.
func (s *securelyTaped) ConnectionState() tls.ConnectionState { return s.state }

// Read implements [net.Conn].
func (t *taped) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	if n > 0 {
		t.tape.mark(received, p[:n])
	}
	switch {
	case err == io.EOF:
		t.tape.mark(ended, nil)
	case isReset(err):
		t.tape.mark(reset, nil)
	case errors.Is(err, syscall.ECONNREFUSED):
		t.tape.mark(unreachable, nil)
	}
	return n, err
}

// Write implements [net.Conn].
func (t *taped) Write(p []byte) (int, error) {
	t.tape.mark(sent, p) // before, since the answer may be quicker than what comes after
	n, err := t.Conn.Write(p)
	t.tape.unsend(len(p) - n)
	return n, err
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func (t *tape) made(conn net.Conn, err error) {
	now := t.recorder.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.latency, t.err = now.Sub(t.begun), err
}

func (t *tape) mark(what happening, data []byte) {
	now := t.recorder.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	room := t.recorder.take(min(len(data), maxTape-t.size))
	if len(data) > 0 && t.cut > 0 {
		room = 0
	}
	t.size += room
	t.cut += len(data) - room
	if len(data) > 0 && room == 0 {
		return
	}
	last := len(t.marks) - 1
	if last >= 0 && t.marks[last].what == what && t.network != "udp" {
		t.marks[last].data = append(t.marks[last].data, data[:room]...)
		return
	}
	t.marks = append(t.marks, mark{now, what, append([]byte(nil), data[:room]...)})
}

// unsend takes back the last n bytes that were noted and could not be sent after all.
func (t *tape) unsend(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n -= min(n, t.cut) // these were never noted
	for i := len(t.marks) - 1; i >= 0 && n > 0; i-- {
		m := &t.marks[i]
		if m.what != sent {
			continue
		}
		k := min(n, len(m.data))
		m.data, t.size, n = m.data[:len(m.data)-k], t.size-k, n-k
		if len(m.data) == 0 {
			t.marks = slices.Delete(t.marks, i, i+1)
		}
	}
}

func (t *tape) shaken(state tls.ConnectionState, err error) {
	now := t.recorder.now()
	shown := newTLS()
	if failed, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		state.PeerCertificates = failed.UnverifiedCertificates
	}
	if len(state.PeerCertificates) > 0 {
		shown = shownBy(state, now)
	}
	if err != nil {
		shown.Error = strings.TrimPrefix(err.Error(), "tls: ")
	}
	t.mark(shaken, nil)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tls = shown
}

// shownBy is what a peer showed in a handshake.
func shownBy(state tls.ConnectionState, now time.Time) *TLS {
	shown := newTLS()
	if len(state.PeerCertificates) == 0 {
		return shown
	}
	cert := state.PeerCertificates[0]
	shown.NotBefore, shown.NotAfter = cert.NotBefore.Sub(now).Round(time.Second), cert.NotAfter.Sub(now).Round(time.Second)
	shown.Names = append(shown.Names, cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		shown.Names = append(shown.Names, ip.String())
	}
	return shown
}

// describe adds to the case what was recorded.
func (t *tape) describe(c *Case) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.web && t.describeWeb(c) || t.describeDNS(c) {
		return
	}
	p := Peer{Dial: t.url(c), Behaviour: behaviourOf(t.err), Latency: rounded(t.latency), TLS: t.tls}
	switch {
	case t.err != nil:
		p.TLS = nil
		p.note = t.err.Error()
		if p.Behaviour == ResetNow {
			p.Behaviour = Refuse
		}
		if p.Behaviour == Timeout {
			p.Latency = 0
		}
	case len(t.marks) > 0 && t.marks[len(t.marks)-1].what == unreachable:
		p.Behaviour = Refuse
	default:
		p.Script = t.script()
	}
	if t.cut > 0 {
		p.note = fmt.Sprintf("of this connection %d more bytes were left out", t.cut)
	}
	if len(t.marks) > 0 && t.marks[0].what == sent && len(t.marks[0].data) > 2 && t.marks[0].data[0] == 0x16 && t.marks[0].data[1] == 3 {
		p.note = "the plugin makes the TLS of this connection itself, which is another each time: it can not be replayed"
	}
	c.Peers = append(c.Peers, p)
}

// url is how a file spells where the connection goes.
func (t *tape) url(c *Case) string {
	scheme := t.network
	if t.tls != nil && len(t.marks) > 0 && t.marks[0].what == shaken {
		scheme = "tls"
	}
	at, err := netip.ParseAddrPort(t.addr)
	if err != nil {
		return scheme + "://" + t.addr
	}
	return scheme + "://" + net.JoinHostPort(nameOf(c, at.Addr().Unmap()), fmt.Sprint(at.Port()))
}

// script is what the peer did. That it took its time is noted where it is more than what
// the way there takes.
func (t *tape) script() []Step {
	var steps []Step
	last := t.begun.Add(t.latency)
	for i, m := range t.marks {
		took := m.at.Sub(last) - t.latency
		last = m.at
		if m.what == received && took >= time.Millisecond {
			steps = append(steps, Step{Wait: rounded(took)})
		}
		switch m.what {
		case sent:
			steps = append(steps, Step{Recv: t.recv(m.data, i)})
		case received:
			steps = append(steps, Step{Send: &Send{Data: m.data}})
		case shaken:
			if i > 0 {
				steps = append(steps, Step{Handshake: true})
			}
		case ended:
			steps = append(steps, Step{Close: true})
		case reset:
			steps = append(steps, Step{Reset: true})
		}
	}
	return steps
}

// recv is what the peer waits for: a request of HTTP by its meaning, and all else by its
// bytes.
func (t *tape) recv(data []byte, i int) *Recv {
	if req, body, rest := requestIn(data); req != nil && rest == 0 && t.network != "udp" {
		m := matchOf(req, body, req.URL.RequestURI())
		return &Recv{HTTP: &m}
	}
	if t.cut > 0 && i == len(t.marks)-1 {
		return &Recv{Prefix: data}
	}
	return &Recv{Exact: data}
}
