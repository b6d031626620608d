package network

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptrace"
	"strings"
	"time"

	"github.com/daeace23/prober/internal/certificates"
	"github.com/daeace23/prober/probe"
)

// maxPhases is the maximum number of traced phases of an attempt, because gRPC dials until the deadline.
const maxPhases = 16

// phase is a traced part of an attempt.
type phase struct {
	name   string
	detail string
	keyed  bool // it may overlap others, and detail identifies it: the address of a connect
	open   bool
	err    error
	start  time.Duration // since epoch
	took   time.Duration
}

// phases has the phases of one attempt, in the order in which they began.
type phases struct {
	all     []phase
	few     [4]phase // saves an allocation
	dropped int
	over    bool // they were emitted, and late hooks must not change them
}

// begin begins a phase. key is "" for a phase that does not overlap others.
func (p *phases) begin(name, key string, now time.Duration) {
	if p.all == nil {
		p.all = p.few[:0]
	}
	if len(p.all) == maxPhases {
		p.dropped++
		return
	}
	p.all = append(p.all, phase{name: name, detail: key, keyed: key != "", start: now, open: true})
}

// current returns the last unfinished phase with a key. "" means phases without a key. It returns nil if
// there is none, or after the phases were emitted.
func (p *phases) current(key string) *phase {
	if p.over { // Emit reads the phases without the lock
		return nil
	}
	for i := len(p.all) - 1; i >= 0; i-- {
		if f := &p.all[i]; f.open && f.keyed == (key != "") && (key == "" || f.detail == key) {
			return f
		}
	}
	return nil
}

// nameConnects sets the address of the connects without an address. A connect of the last dial gets its
// address from Emit.
func (p *phases) nameConnects(address string) {
	for i := range p.all {
		if f := &p.all[i]; f.name == StepDial.phase() && f.detail == "" {
			f.detail = address
		}
	}
}

func (f *phase) end(now time.Duration) { f.open, f.took = false, now-f.start }

// phase returns the name of the step in traces.
func (s Step) phase() string {
	switch s {
	case StepDial:
		return "connect"
	case StepHTTP2:
		return "settings"
	case StepHTTP:
		return "first byte"
	case StepGRPC:
		return "call"
	default:
		return string(s)
	}
}

// tracesLocked reports whether phases are recorded.
func (p *Progress) tracesLocked() bool { return p.Traced && !p.phases.over }

// phaseLocked ends the current phase, and begins the phase of a step.
func (p *Progress) phaseLocked(at Step, now time.Time) {
	if !p.tracesLocked() {
		return
	}
	since := now.Sub(epoch)
	if f := p.phases.current(""); f != nil {
		if at == StepDial && f.name == at.phase() { // the phase already exists, and begins now
			f.start = since
			return
		}
		f.end(since)
	}
	if at != StepDone {
		p.phases.begin(at.phase(), "", since)
	}
}

// FirstByte records that the response has epoch. Only the first call has an effect.
func (p *Progress) FirstByte() {
	p.responds.Store(true)
	if !p.Traced {
		return
	}
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.phases.current(""); f != nil && f.name == StepHTTP.phase() {
		p.phaseLocked(StepBody, now)
	}
}

// Done records that the answer is complete.
func (p *Progress) Done() {
	if !p.Traced {
		return
	}
	now := time.Since(epoch)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.phases.over {
		return
	}
	for i := range p.phases.all {
		if f := &p.phases.all[i]; f.open {
			f.end(now)
		}
	}
}

// Handshook records the result of a TLS handshake. The step ends with [Progress.Enter], or here if err is not
// nil.
func (p *Progress) Handshook(s *tls.ConnectionState, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.showLocked(certificates.ShownIn(s, err))
	if p.at == StepTLS && err != nil && !isEnd(err) {
		p.broken = Reason(err)
	}
	if !p.tracesLocked() {
		return
	}
	if err != nil {
		p.failedLocked(StepTLS, "", err)
		return
	}
	p.version, p.protocol = s.Version, s.NegotiatedProtocol
}

// maxShown is the maximum number of handshakes of an attempt that are reported.
const maxShown = 4

// showLocked records the certificates of a handshake.
func (p *Progress) showLocked(s certificates.Shown) {
	if len(s.Sent) == 0 || p.reported || len(p.shown) == maxShown {
		return
	}
	if p.shown == nil {
		p.shown = p.one[:0]
	}
	p.shown = append(p.shown, s)
}

// Report reports the certificates of the handshakes to the observer of the attempt with ctx. It must be called
// once, in the goroutine of the attempt. Later handshakes are ignored.
func (p *Progress) Report(ctx context.Context) {
	p.mu.Lock()
	p.reported = true
	p.mu.Unlock()
	for i := range p.shown {
		certificates.Report(ctx, p.shown[i])
	}
}

// failedLocked ends a phase with err, which may be nil, if it is the current one with its key.
func (p *Progress) failedLocked(at Step, key string, err error) {
	if f := p.phases.current(key); f != nil && f.name == at.phase() {
		f.err = err
		f.end(time.Since(epoch))
	}
}

// Emit emits the phases of an attempt that has ended, unfinished phases last. It must be called once. Unless
// detailed is set, it formats no details, for example for an attempt that has succeeded.
func (p *Progress) Emit(t probe.Tracer, detailed bool) {
	if t == nil || !p.Traced {
		return
	}
	p.mu.Lock()
	p.phases.over = true         // no other goroutine uses phases, version and protocol after this
	to, status := p.to, p.status // copied, because a dial may still begin
	p.mu.Unlock()
	for i := range p.phases.all {
		if f := &p.phases.all[i]; !f.open {
			t(p.event(f, to, detailed))
		}
	}
	for i := range p.phases.all {
		if f := &p.phases.all[i]; f.open {
			f.took = time.Since(epoch) - f.start
			if f.name == StepBody.phase() && status == 0 {
				f.name = "headers" // without this phase, headers end with the first byte
			}
			e := p.event(f, to, detailed)
			e.Detail = strings.TrimSpace(e.Detail + " " + notFinished)
			t(e)
		}
	}
	if p.phases.dropped > 0 {
		t(probe.TraceEvent{Type: probe.TraceLog, Name: "host", Detail: "further phases are dropped"})
	}
}

func (p *Progress) event(f *phase, to Endpoint, detailed bool) probe.TraceEvent {
	e := probe.TraceEvent{Type: probe.TracePhase, Name: f.name, Duration: max(1, f.took)}
	if !detailed {
		return e
	}
	switch e.Detail = f.detail; {
	case f.name == StepTLS.phase() && f.err == nil && !f.open:
		e.Detail = strings.TrimSpace(tls.VersionName(p.version) + " " + p.protocol)
	case f.name == StepDial.phase() && e.Detail == "":
		_, e.Detail = to.Dialed()
	}
	dns, isDNS := errors.AsType[*net.DNSError](f.err)
	switch {
	case f.err == nil:
	case isEnd(f.err) && !(isDNS && dns.IsTimeout): // a look-up has its own time limit
		e.Detail = strings.TrimSpace(e.Detail + " " + notFinished)
	default:
		e.Detail = strings.TrimPrefix(e.Detail+": "+Reason(f.err), ": ")
	}
	return e
}

// notFinished is the detail of a phase that was unfinished at the end of the attempt.
const notFinished = "not finished"

// hookLocked begins a phase that is a part of the dial. It replaces the phase of the whole dial.
func (p *Progress) hookLocked(at Step, key string, now time.Time) {
	if !p.tracesLocked() {
		return
	}
	all := p.phases.all
	if n := len(all) - 1; n >= 0 && all[n].open && !all[n].keyed && all[n].name == StepDial.phase() {
		p.phases.all = all[:n]
	}
	p.phases.begin(at.phase(), key, now.Sub(epoch))
}

// hook begins a step that is a part of the dial.
func (p *Progress) hook(at Step, key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.at, p.since = at, now
	p.hookLocked(at, key, now)
}

// hooked ends a phase that is a part of the dial.
func (p *Progress) hooked(at Step, key string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failedLocked(at, key, err)
}

// resolved records the addresses of a name.
func (p *Progress) resolved(i httptrace.DNSDoneInfo) {
	p.mu.Lock()
	if f := p.phases.current(""); f != nil && f.name == StepDNS.phase() && i.Err == nil {
		words := make([]string, len(i.Addrs))
		for n, a := range i.Addrs {
			words[n] = a.String()
		}
		f.detail = strings.Join(words, " ")
	}
	p.mu.Unlock()
	p.hooked(StepDNS, "", i.Err)
}
