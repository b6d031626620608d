package network

import (
	"context"
	"crypto/tls"
	"net/http/httptrace"
	"strings"
	"sync"
	"time"

	"github.com/daeace23/prober/probe"
)

// Phases collects the phases of one attempt, which may happen on any goroutine. The tracer is
// called on the goroutine of the attempt. A nil *Phases collects nothing.
type Phases struct {
	mu     sync.Mutex
	open   []phase
	events []probe.TraceEvent
}

type phase struct {
	name, key string
	start     time.Time
}

// NewPhases returns nil without a tracer. Otherwise it returns a ctx with which net and net/http
// report their phases.
func NewPhases(ctx context.Context, t probe.Tracer) (context.Context, *Phases) {
	if t == nil {
		return ctx, nil
	}
	p := new(Phases)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSStart:             func(i httptrace.DNSStartInfo) { p.Begin("dns", "") },
		DNSDone:              func(i httptrace.DNSDoneInfo) { p.End("dns", "", addresses(i)) },
		ConnectStart:         func(network, addr string) { p.Begin("connect", addr) },
		ConnectDone:          func(network, addr string, err error) { p.End("connect", addr, withError(addr, err)) },
		TLSHandshakeStart:    func() { p.Begin("tls", "") },
		TLSHandshakeDone:     func(s tls.ConnectionState, err error) { p.End("tls", "", handshake(s, err)) },
		WroteRequest:         func(httptrace.WroteRequestInfo) { p.Begin("first byte", "") },
		GotFirstResponseByte: func() { p.End("first byte", "", "") },
	}), p
}

// Begin begins a phase. key distinguishes phases of the same name.
func (p *Phases) Begin(name, key string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = append(p.open, phase{name, key, time.Now()})
}

// End ends a phase, if it has begun.
func (p *Phases) End(name, key, detail string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, o := range p.open {
		if o.name == name && o.key == key {
			p.open = append(p.open[:i], p.open[i+1:]...)
			p.addLocked(o, detail)
			return
		}
	}
}

func (p *Phases) addLocked(o phase, detail string) {
	p.events = append(p.events, probe.TraceEvent{
		Type: probe.TracePhase, Name: o.name, Detail: detail, Duration: time.Since(o.start),
	})
}

// Emit emits the phases so far, and last those that have not ended.
func (p *Phases) Emit(t probe.Tracer) {
	if p == nil {
		return
	}
	p.mu.Lock()
	for _, o := range p.open {
		p.addLocked(o, strings.TrimSpace(o.key+" not finished"))
	}
	events := p.events
	p.mu.Unlock()
	for _, e := range events {
		t.Emit(e)
	}
}

func addresses(i httptrace.DNSDoneInfo) string {
	if i.Err != nil {
		return i.Err.Error()
	}
	words := make([]string, len(i.Addrs))
	for n, a := range i.Addrs {
		words[n] = a.String()
	}
	return strings.Join(words, " ")
}

func handshake(s tls.ConnectionState, err error) string {
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(tls.VersionName(s.Version) + " " + s.NegotiatedProtocol)
}

func withError(text string, err error) string {
	if err != nil {
		return text + ": " + err.Error()
	}
	return text
}
