package history

import (
	"math"
	"slices"
	"time"
	"unique"

	"github.com/daeace23/prober/agent/history/record"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/probe"
)

const (
	// MaxPhases is the limit of phases that are kept of a probe in an hour. Those that come first are kept.
	MaxPhases    = 8
	maxPhaseName = 32 // bytes
	growBuckets  = 4  // by which a histogram grows
	keptBuckets  = 32 // for which memory is kept from hour to hour
)

// durations has the durations of the ticks of a probe in an hour. A value takes 400 bytes for three phases, and at
// most 3 KiB.
type durations struct {
	whole  histogram
	phases []phase
}

// phase has the durations of a part of the ticks.
type phase struct {
	name string
	histogram
}

// add adds a tick, with the phases of its last attempt.
func (d *durations) add(t *worker.Tick) {
	d.whole.add(record.BucketOf(t.Duration()))
	if t.Trace == nil {
		return
	}
	var sums [MaxPhases]time.Duration // a phase may occur several times in an attempt, for example after a redirect
	var occurs [MaxPhases]bool
	for i := range t.Trace.Events {
		switch e := &t.Trace.Events[i]; e.Type {
		case probe.TraceRetry:
			clear(sums[:])
			clear(occurs[:])
		case probe.TracePhase, probe.TraceCall:
			if at := d.phase(e.Name); at >= 0 {
				sums[at] += e.Duration
				occurs[at] = true
			}
		}
	}
	for i := range d.phases {
		if occurs[i] {
			d.phases[i].add(record.BucketOf(sums[i]))
		}
	}
}

// phase returns the index of a phase, which it adds if there is none; -1 if there are too many.
func (d *durations) phase(name string) int {
	name = clip.Bytes(name, maxPhaseName)
	for i := range d.phases {
		if d.phases[i].name == name {
			return i
		}
	}
	if len(d.phases) == MaxPhases || name == "" {
		return -1
	}
	// Without room for more, as most handlers always have the same phases.
	d.phases = slices.Insert(slices.Clip(d.phases), len(d.phases), phase{name: unique.Make(name).Value()})
	return len(d.phases) - 1
}

// merge adds the durations in o.
func (d *durations) merge(o *durations) {
	d.whole.merge(&o.whole)
	for i := range o.phases {
		if at := d.phase(o.phases[i].name); at >= 0 {
			d.phases[at].merge(&o.phases[i].histogram)
		}
	}
}

// clear begins another hour. It forgets the phases that did not occur, and keeps memory for the others.
func (d *durations) clear() {
	d.whole.clear()
	d.phases = slices.DeleteFunc(d.phases, func(p phase) bool { return len(p.counts) == 0 })
	for i := range d.phases {
		d.phases[i].clear()
	}
}

// tracks returns the percentiles of the durations; nil if there are none.
func (d *durations) tracks() (all []record.Track) {
	all = d.whole.appendTrack(all, "")
	for i := range d.phases {
		all = d.phases[i].appendTrack(all, d.phases[i].name)
	}
	return all
}

// histogram counts durations by bucket. After 65,535 of one bucket it counts one in two, in four and so on.
type histogram struct {
	counts []uint16
	first  record.Bucket // the bucket of the first count
	halved uint8         // how often the counts were halved
	passed uint32        // ticks since one was counted
}

// add adds a duration. It allocates only for a bucket outside of the present range.
func (h *histogram) add(b record.Bucket) {
	if h.passed++; h.passed < 1<<h.halved {
		return
	}
	h.passed = 0
	h.put(b, 1)
}

// put adds n to the count of a bucket.
func (h *histogram) put(b record.Bucket, n uint16) {
	if b < h.first || int(b) >= int(h.first)+len(h.counts) {
		h.widen(b)
	}
	at := b - h.first
	for h.counts[at] > math.MaxUint16-n {
		h.halve()
		n = max(n/2, 1)
	}
	h.counts[at] += n
}

// widen extends the range to a bucket.
func (h *histogram) widen(b record.Bucket) {
	if len(h.counts) == 0 {
		h.first = b
	}
	had, first := len(h.counts), min(b, h.first)
	size := max(int(b)+1, int(h.first)+had) - int(first)
	counts, before := h.counts, int(h.first-first)
	if size > cap(counts) {
		counts = make([]uint16, (size+growBuckets-1)/growBuckets*growBuckets)
	}
	counts = counts[:size]
	copy(counts[before:], h.counts[:had])
	clear(counts[:before])
	clear(counts[before+had:])
	h.first, h.counts = first, counts
}

func (h *histogram) halve() {
	for i, n := range h.counts {
		h.counts[i] = n/2 + n&1 // a rare duration remains
	}
	h.halved++
}

// merge adds the durations in o, as o counts them.
func (h *histogram) merge(o *histogram) {
	for h.halved < o.halved {
		h.halve()
	}
	for i, n := range o.counts {
		if n >>= h.halved - o.halved; n > 0 {
			h.put(o.first+record.Bucket(i), n)
		}
	}
}

func (h *histogram) clear() {
	counts := h.counts[:0]
	if cap(counts) > keptBuckets {
		counts = nil
	}
	*h = histogram{counts: counts}
}

// appendTrack appends the percentiles of the durations, unless there are none.
func (h *histogram) appendTrack(all []record.Track, name string) []record.Track {
	t := record.Track{Name: name}
	for _, n := range h.counts {
		t.Ticks += uint64(n)
	}
	if t.Ticks == 0 {
		return all
	}
	percents := record.Percents(name)
	t.At = make([]record.Bucket, 0, len(percents))
	sum := uint64(0)
	for i, n := range h.counts {
		sum += uint64(n)
		for len(t.At) < len(percents) && sum*100 >= t.Ticks*uint64(percents[len(t.At)]) {
			t.At = append(t.At, h.first+record.Bucket(i))
		}
	}
	t.Ticks <<= h.halved
	return append(all, t)
}
