package oracle

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Observation is one thing that a side let be seen.
type Observation struct {
	At   time.Duration // since the start of the scenario
	What string
}

// String returns the observation as it is printed.
func (o Observation) String() string { return fmt.Sprintf("%-14v %s", o.At, o.What) }

// Record is what was seen of one side. Run returns it sorted by time; what happened
// at one instant is in the order of its text.
type Record struct {
	start time.Time

	mu           sync.Mutex
	closed       bool
	observations []Observation
	spans        []span
	cached       map[string]string // what was last seen in the caches
}

// span is one attempt.
type span struct {
	pod        int
	container  string
	kind       string
	begin, end time.Duration
}

func newRecord() *Record {
	return &Record{start: time.Now(), cached: make(map[string]string)}
}

func (r *Record) now() time.Duration { return time.Since(r.start) }

func (r *Record) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addLocked(format, args...)
}

func (r *Record) addLocked(format string, args ...any) {
	if !r.closed {
		r.observations = append(r.observations, Observation{r.now(), fmt.Sprintf(format, args...)})
	}
}

// attempt notes that an attempt begins; what it returns notes the end.
func (r *Record) attempt(command []string, text string, n int) (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addLocked("attempt %d of %s", n+1, text)
	i := len(r.spans)
	r.spans = append(r.spans, span{podIndex(command[0]), command[1], command[2], r.now(), 1<<63 - 1})
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.spans[i].end = r.now()
	}
}

func (r *Record) event(fieldPath, eventType, reason, message string) {
	if len(message) > 200 {
		message = fmt.Sprintf("%s… (%d bytes)", message[:200], len(message))
	}
	r.add("event on %s: %s %s %q", fieldPath, eventType, reason, message)
}

// sample notes what has changed in the caches since the last sample.
func (r *Record) sample(cached map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(cached)) {
		if was := r.cached[key]; was != cached[key] {
			r.addLocked("cache %s: %s", key, cached[key])
		}
	}
	r.cached = cached
}

// close ends the recording.
func (r *Record) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	slices.SortStableFunc(r.observations, func(a, b Observation) int {
		return cmp.Or(cmp.Compare(a.At, b.At), strings.Compare(a.What, b.What))
	})
}

// Divergence is the first difference between two records.
type Divergence struct {
	Before  []Observation // the last that both have
	Kubelet []Observation // what follows on each side
	Ours    []Observation
}

// Compare returns nil when both records say the same.
func Compare(kubelet, ours *Record) *Divergence {
	a, b := kubelet.observations, ours.observations
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	if i == len(a) && i == len(b) {
		return nil
	}
	return &Divergence{a[max(0, i-6):i], a[i:min(len(a), i+4)], b[i:min(len(b), i+4)]}
}

// String shows the difference in its surroundings.
func (d *Divergence) String() string {
	var b strings.Builder
	for _, part := range []struct {
		title        string
		observations []Observation
	}{{"both", d.Before}, {"kubelet", d.Kubelet}, {"ours", d.Ours}} {
		for _, o := range part.observations {
			fmt.Fprintf(&b, "  %-8s %v\n", part.title, o)
		}
		if len(part.observations) == 0 {
			fmt.Fprintf(&b, "  %-8s nothing more\n", part.title)
		}
	}
	return b.String()
}
