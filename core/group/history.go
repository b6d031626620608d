package group

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

const (
	historyLength = 20  // maximum number of ticks of one probe
	historyOutput = 256 // maximum bytes of output of a tick that is not the last
	// fewTraces is the number of failures with long traces that fit into the share of a probe. The traces
	// of all successes together take as much as one of these failures.
	fewTraces = 4
)

// TickStatus describes a past tick.
type TickStatus struct {
	Result   probe.Result
	Output   string
	Error    string // like Output, at most [probe.MaxOutput] bytes
	Attempts int
	Time     time.Time
	Duration time.Duration
	Metrics  []probe.Metric // of the last tick only; read-only
	// Details is the JSON object of the outcome. It is only kept for the last tick, and only with a
	// history.
	Details string
}

// history is the budget that the records of all probes share.
type history struct {
	budget int64
	probes atomic.Int64
}

// share returns the number of bytes that one probe may use for past ticks.
func (h *history) share() int { return int(h.budget / max(h.probes.Load(), 1)) }

// record has the past ticks of one probe. They are encoded into a reused buffer, so a tick that resembles
// the previous one allocates nothing.
type record struct {
	mu   sync.Mutex
	last []byte // the last tick; empty before the first
	rest *rest  // rarely used fields; nil if unused
}

// rest has the rarely used fields of a record.
type rest struct {
	past     []byte // ticks before the last, oldest first
	ticks    int    // number of ticks in past
	metrics  []probe.Metric
	details  string
	lastTick lastTick // only with a history
}

// Tick implements [worker.ProbeObserver].
func (e *entry[K]) Tick(t *worker.Tick) {
	if e.noHistory { // does not read e.home, which is in no CPU cache
		e.record.add(t, nil)
	} else {
		e.record.add(t, &e.home.group.memory)
	}
}

// Skipped implements [worker.ProbeObserver].
func (e *entry[K]) Skipped(reason worker.SkipReason, _ int) {
	if !e.noHistory {
		e.record.skip(reason)
	}
}

// Close implements [worker.ProbeObserver].
func (e *entry[K]) Close() {}

// add makes t the last tick. h is nil if no other ticks are kept.
func (r *record) add(t *worker.Tick, h *history) {
	result, output, text := t.Outcome.Result, t.Outcome.Output, ""
	if t.Err != nil {
		result, text = probe.Unknown, probe.Cut(t.Err.Error())
	}
	details := t.Outcome.Details
	if h == nil {
		output, text, details = truncate(output), truncate(text), ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if h != nil && len(r.last) > 0 {
		r.keepLocked(h.share())
	}
	r.last = appendTick(r.last[:0], t, result, output, text)
	if h != nil {
		r.last = appendExtra(r.last, t)
		r.restLocked().lastTick = lastTick{containerID: t.ContainerID}
	}
	if r.rest != nil || len(t.Outcome.Metrics) > 0 || details != "" {
		rest := r.restLocked()
		rest.metrics, rest.details = t.Outcome.Metrics, details
	}
}

func (r *record) restLocked() *rest {
	if r.rest == nil {
		r.rest = new(rest)
	}
	return r.rest
}

// keepLocked appends the last tick to the past, and keeps the past within share bytes. It removes the
// oldest successes first, and then the oldest ticks.
func (r *record) keepLocked(share int) {
	rest := r.restLocked()
	rest.past = appendShort(rest.past, r.last, share)
	rest.ticks++
	for rest.ticks > 0 && (len(rest.past) > share || rest.ticks >= historyLength) {
		from, to := rest.oldest()
		rest.past = append(rest.past[:from], rest.past[to:]...)
		rest.ticks--
	}
}

// oldest returns the position of the next tick to remove.
func (r *rest) oldest() (from, to int) {
	for at := 0; at < len(r.past); {
		e := encodedTick(r.past[at:])
		if e.succeeded() {
			return at, at + e.size()
		}
		at += e.size()
	}
	return 0, encodedTick(r.past).size()
}

// ticks returns the last tick, nil if there was none, and the history, newest first.
func (r *record) ticks(h *history) (last *TickStatus, kept []TickStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last = r.latestLocked()
	if last == nil || h.budget == 0 {
		return last, nil
	}
	newest := *last
	newest.Output, newest.Details = truncate(newest.Output), ""
	return last, append([]TickStatus{newest}, r.pastLocked()...)
}

// latest returns the last tick, nil if there was none.
func (r *record) latest() *TickStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.latestLocked()
}

func (r *record) latestLocked() *TickStatus {
	if len(r.last) == 0 {
		return nil
	}
	last := new(encodedTick(r.last).status())
	if r.rest != nil {
		last.Metrics = r.rest.metrics
		last.Details = r.rest.details
	}
	return last
}

// pastLocked returns the ticks before the last, newest first.
func (r *record) pastLocked() []TickStatus {
	if r.rest == nil {
		return nil
	}
	all := make([]TickStatus, r.rest.ticks)
	at := 0
	for i := len(all) - 1; i >= 0; i-- {
		e := encodedTick(r.rest.past[at:])
		all[i] = e.status()
		at += e.size()
	}
	return all
}

// encodedTick begins with an encoded tick: start and duration in nanoseconds, lengths of output, error and
// extra, attempts, result, output, error, and extra. With a history, extra is the output of [appendFold]
// and [appendTrace].
type encodedTick []byte

const tickHeader = 8 + 8 + 4 + 4 + 4 + 1 + 1

func appendTick(b []byte, t *worker.Tick, result probe.Result, output, text string) []byte {
	b = slices.Grow(b, tickHeader+len(output)+len(text))
	b = binary.LittleEndian.AppendUint64(b, uint64(t.Start.UnixNano()))
	b = binary.LittleEndian.AppendUint64(b, uint64(t.Duration()))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(output)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = append(b, byte(t.Attempts), byte(result))
	b = append(b, output...)
	return append(b, text...)
}

// appendExtra appends the extra of t. b must contain the encoded tick alone.
func appendExtra(b []byte, t *worker.Tick) []byte {
	begin := len(b)
	b = appendTrace(appendFold(b, t), t)
	binary.LittleEndian.PutUint32(b[24:], uint32(len(b)-begin))
	return b
}

// appendShort appends a tick with truncated texts. It drops the trace if that takes too much of share
// bytes.
func appendShort(b []byte, e encodedTick, share int) []byte {
	output, text := e.output(), e.error()
	output, text = output[:min(len(output), historyOutput)], text[:min(len(text), historyOutput)]
	more := e.extra()
	if part := share / fewTraces; e.succeeded() && len(more) > part/historyLength || len(more) > part {
		more = more[:min(len(more), foldSize)]
	}
	at := len(b)
	b = append(b, e[:tickHeader]...)
	binary.LittleEndian.PutUint32(b[at+16:], uint32(len(output)))
	binary.LittleEndian.PutUint32(b[at+20:], uint32(len(text)))
	binary.LittleEndian.PutUint32(b[at+24:], uint32(len(more)))
	b = append(b, output...)
	b = append(b, text...)
	return append(b, more...)
}

func (e encodedTick) length(at int) int    { return int(binary.LittleEndian.Uint32(e[at:])) }
func (e encodedTick) errorAt() int         { return tickHeader + e.length(16) }
func (e encodedTick) extraAt() int         { return e.errorAt() + e.length(20) }
func (e encodedTick) size() int            { return e.extraAt() + e.length(24) }
func (e encodedTick) result() probe.Result { return probe.Result(e[29]) }
func (e encodedTick) output() []byte       { return e[tickHeader:e.errorAt()] }
func (e encodedTick) error() []byte        { return e[e.errorAt():e.extraAt()] }
func (e encodedTick) extra() []byte        { return e[e.extraAt():e.size()] }
func (e encodedTick) succeeded() bool      { return e.result() == probe.Success && len(e.error()) == 0 }

func (e encodedTick) status() TickStatus {
	return TickStatus{
		Result: e.result(), Output: string(e.output()), Error: string(e.error()), Attempts: int(e[28]),
		Time: time.Unix(0, int64(binary.LittleEndian.Uint64(e))), Duration: time.Duration(binary.LittleEndian.Uint64(e[8:])),
	}
}

// truncate returns the beginning of s. It copies a long s, because a slice would keep all of s in memory.
func truncate(s string) string {
	if len(s) > historyOutput {
		return strings.Clone(s[:historyOutput])
	}
	return s
}
