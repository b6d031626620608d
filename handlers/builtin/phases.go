package builtin

import (
	"context"
	"crypto/tls"
	"net/http/httptrace"
	"strings"
	"sync"
	"time"

	"github.com/daeace23/prober/probe"
)

// phases collects the phases of one attempt, which may happen on any goroutine. The tracer is
// called on the goroutine of the attempt. A nil *phases collects nothing.
type phases struct {
	mu     sync.Mutex
	open   []phase
	events []probe.TraceEvent
}

type phase struct {
	name, key string
	start     time.Time
}

// newPhases returns nil without a tracer. Otherwise it returns a ctx with which net and net/http
// report their phases.
func newPhases(ctx context.Context, t probe.Tracer) (context.Context, *phases) {
	if t == nil {
		return ctx, nil
	}
	p := new(phases)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSStart:             func(i httptrace.DNSStartInfo) { p.begin("dns", "") },
		DNSDone:              func(i httptrace.DNSDoneInfo) { p.end("dns", "", addresses(i)) },
		ConnectStart:         func(network, addr string) { p.begin("connect", addr) },
		ConnectDone:          func(network, addr string, err error) { p.end("connect", addr, withError(addr, err)) },
		TLSHandshakeStart:    func() { p.begin("tls", "") },
		TLSHandshakeDone:     func(s tls.ConnectionState, err error) { p.end("tls", "", handshake(s, err)) },
		WroteRequest:         func(httptrace.WroteRequestInfo) { p.begin("first byte", "") },
		GotFirstResponseByte: func() { p.end("first byte", "", "") },
	}), p
}

// begin begins a phase. key distinguishes phases of the same name.
func (p *phases) begin(name, key string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = append(p.open, phase{name, key, time.Now()})
}

// end ends a phase, if it has begun.
func (p *phases) end(name, key, detail string) {
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

func (p *phases) addLocked(o phase, detail string) {
	p.events = append(p.events, probe.TraceEvent{
		Type: probe.TracePhase, Name: o.name, Detail: detail, Duration: time.Since(o.start),
	})
}

// emit emits the phases so far, and last those that have not ended.
func (p *phases) emit(t probe.Tracer) {
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
