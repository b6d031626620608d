package network

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptrace"
	"strings"
	"time"

	"github.com/daeace23/prober/probe"
)

// maxPhases is how many phases of an attempt are traced: gRPC dials until the deadline.
const maxPhases = 16

// phase is a part of an attempt, as it is traced.
type phase struct {
	name   string
	detail string
	keyed  bool // it may overlap others, and detail tells it from them: the address of a connect
	open   bool
	err    error
	start  time.Duration // since begun
	took   time.Duration
}

// phases are those of one attempt, in the order of their beginnings.
type phases struct {
	all     []phase
	few     [4]phase // spares an allocation
	dropped int
	over    bool // they were emitted: hooks that come late change nothing
}

// begin begins a phase, with "" as the key of one that overlaps no other.
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

// current returns the last phase with a key, or without one, that has not ended; nil if there is none,
// or if they were emitted.
func (p *phases) current(key string) *phase {
	if p.over { // Emit works on them without the lock
		return nil
	}
	for i := len(p.all) - 1; i >= 0; i-- {
		if f := &p.all[i]; f.open && f.keyed == (key != "") && (key == "" || f.detail == key) {
			return f
		}
	}
	return nil
}

// nameConnects sets the address of the connects that have none yet. The one of the last dial gets its address
// when it is emitted.
func (p *phases) nameConnects(address string) {
	for i := range p.all {
		if f := &p.all[i]; f.name == StepDial.phase() && f.detail == "" {
			f.detail = address
		}
	}
}

func (f *phase) end(now time.Duration) { f.open, f.took = false, now-f.start }

// phase returns the name of a step in traces.
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

// tracesLocked reports whether phases are noted.
func (p *Progress) tracesLocked() bool { return p.Traced && !p.phases.over }

// phaseLocked ends the present phase, and begins that of a step.
func (p *Progress) phaseLocked(at Step, now time.Time) {
	if !p.tracesLocked() {
		return
	}
	since := now.Sub(begun)
	if f := p.phases.current(""); f != nil {
		if at == StepDial && f.name == at.phase() { // it was expected, and begins now
			f.start = since
			return
		}
		f.end(since)
	}
	if at != StepDone {
		p.phases.begin(at.phase(), "", since)
	}
}

// FirstByte notes that the response has begun. Only the first call has an effect.
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

// Done notes that the answer is complete.
func (p *Progress) Done() {
	if !p.Traced {
		return
	}
	now := time.Since(begun)
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

// Handshook notes the result of a TLS handshake. Its step ends with [Progress.Enter], or here if err
// is not nil.
func (p *Progress) Handshook(s *tls.ConnectionState, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
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

// failedLocked ends a phase with err, which may be nil, if it is the present one of its key.
func (p *Progress) failedLocked(at Step, key string, err error) {
	if f := p.phases.current(key); f != nil && f.name == at.phase() {
		f.err = err
		f.end(time.Since(begun))
	}
}

// Emit emits the phases of an attempt that has ended, and last those that have not ended. It is called
// once. Without detailed it formats nothing, as for an attempt that has succeeded.
func (p *Progress) Emit(t probe.Tracer, detailed bool) {
	if t == nil || !p.Traced {
		return
	}
	p.mu.Lock()
	p.phases.over = true         // from here on, nothing else reads or writes phases, version and protocol
	to, status := p.to, p.status // a dial may still begin
	p.mu.Unlock()
	for i := range p.phases.all {
		if f := &p.phases.all[i]; !f.open {
			t(p.event(f, to, detailed))
		}
	}
	for i := range p.phases.all {
		if f := &p.phases.all[i]; f.open {
			f.took = time.Since(begun) - f.start
			if f.name == StepBody.phase() && status == 0 {
				f.name = "headers" // which end at the same time as the first byte, otherwise
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
	case isEnd(f.err) && !(isDNS && dns.IsTimeout): // a look-up has a time limit of its own
		e.Detail = strings.TrimSpace(e.Detail + " " + notFinished)
	default:
		e.Detail = strings.TrimPrefix(e.Detail+": "+Reason(f.err), ": ")
	}
	return e
}

// notFinished is the detail of a phase that the end of the attempt has ended.
const notFinished = "not finished"

// hookLocked begins a phase that is a part of the dial, instead of the phase of the dial as a whole.
func (p *Progress) hookLocked(at Step, key string, now time.Time) {
	if !p.tracesLocked() {
		return
	}
	all := p.phases.all
	if n := len(all) - 1; n >= 0 && all[n].open && !all[n].keyed && all[n].name == StepDial.phase() {
		p.phases.all = all[:n]
	}
	p.phases.begin(at.phase(), key, now.Sub(begun))
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

// resolved notes the addresses that a name has.
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
