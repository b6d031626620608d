package oracle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Observation is one observation of a side.
type Observation struct {
	At   time.Duration // since the start of the scenario
	Text string

	update string // kind and container ID of an update; "" for other observations
}

// String returns the time and the text.
func (o Observation) String() string { return fmt.Sprintf("%-14v %s", o.At, o.Text) }

// Record has the observations of one run. [Oracle.Run] returns it sorted by time and text.
type Record struct {
	start time.Time
	masks []mask // read-only
	// synced has the status of the pod after each OpSync. Only the play uses it during the run.
	synced []*v1.PodStatus

	mu           sync.Mutex
	closed       bool
	observations []Observation
	spans        []span
}

// span is one attempt.
type span struct {
	pod        int
	container  string
	kind       string
	begin, end time.Duration
}

// mask is a time interval in which the probes of some kinds of a pod are not recorded.
type mask struct {
	pod      int
	kinds    []string
	from, to time.Duration
}

func newRecord(s *Scenario) *Record {
	return &Record{start: time.Now(), masks: s.masks()}
}

var kinds = []string{"liveness", "readiness", "startup"}

// masks returns the intervals from the ops with an Until to the Until.
func (s *Scenario) masks() (masks []mask) {
	for _, op := range s.Ops {
		if op.Until == 0 {
			continue
		}
		for pod := range s.Pods {
			m := mask{pod: pod, from: time.Duration(op.At), to: time.Duration(op.Until)}
			for _, kind := range kinds {
				if op.stops(pod, kind) {
					m.kinds = append(m.kinds, kind)
				}
			}
			masks = append(masks, m)
		}
	}
	return masks
}

// masked reports whether the probes of a kind of a pod are masked now, and whether they are masked at any
// time.
func (r *Record) masked(pod int, kind string) (now, ever bool) {
	at := r.now()
	for _, m := range r.masks {
		if m.pod == pod && slices.Contains(m.kinds, kind) {
			ever = true
			now = now || m.from <= at && at <= m.to
		}
	}
	return now, ever
}

// maskedKey is like masked, for a key of a kind and a container ID.
func (r *Record) maskedKey(key string) (now, ever bool) {
	kind, id, _ := strings.Cut(key, " ")
	pod, _, _ := strings.Cut(strings.TrimPrefix(id, idScheme), "-")
	return r.masked(podIndex(pod), kind)
}

func (r *Record) now() time.Duration { return time.Since(r.start) }

func (r *Record) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addLocked(format, args...)
}

func (r *Record) addLocked(format string, args ...any) {
	if !r.closed {
		r.observations = append(r.observations, Observation{At: r.now(), Text: fmt.Sprintf(format, args...)})
	}
}

// attempt records the start of an attempt. The returned function records its end.
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

func (r *Record) event(ref *v1.ObjectReference, eventType, reason, message string) {
	kind, _, _ := strings.Cut(strings.ToLower(message), " ")
	if now, _ := r.masked(podIndex(ref.Name), kind); now {
		return
	}
	if len(message) > 200 {
		message = fmt.Sprintf("%s… (%d bytes)", message[:200], len(message))
	}
	r.add("event on %s %s %s/%s %s %s at %s: %s %s %q", ref.APIVersion, ref.Kind, ref.Namespace, ref.Name, ref.UID,
		ref.FieldPath, ref.ResourceVersion, eventType, reason, message)
}

// update records an update that a prompt reader gets.
func (r *Record) update(key, text string) {
	if now, _ := r.maskedKey(key); now {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addLocked("update %s: %s", key, text)
	if !r.closed {
		r.observations[len(r.observations)-1].update = key
	}
}

// lastUpdates records the last update of every key that a slow reader gets.
func (r *Record) lastUpdates(updates map[string]string) {
	for key, text := range updates {
		if _, ever := r.maskedKey(key); !ever {
			r.add("last update %s: %s", key, text)
		}
	}
}

// cached records a changed result in a cache. It returns false if the probe is masked now.
func (r *Record) cached(key, value string) bool {
	if now, _ := r.maskedKey(key); now {
		return false
	}
	r.add("cache %s: %s", key, value)
	return true
}

// close ends the recording.
func (r *Record) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.mergeUpdatesLocked()
	slices.SortStableFunc(r.observations, func(a, b Observation) int {
		return cmp.Or(cmp.Compare(a.At, b.At), strings.Compare(a.Text, b.Text))
	})
}

// mergeUpdatesLocked keeps only the last of several updates of one key at one instant, because ours sends
// only the newest.
func (r *Record) mergeUpdatesLocked() {
	type instant struct {
		at     time.Duration
		update string
	}
	last := make(map[instant]int)
	for i, o := range r.observations {
		last[instant{o.At, o.update}] = i
	}
	kept := r.observations[:0]
	for i, o := range r.observations {
		if o.update == "" || last[instant{o.At, o.update}] == i {
			kept = append(kept, o)
		}
	}
	r.observations = kept
}

// Divergence is the first difference between two records.
type Divergence struct {
	Before  []Observation // the last equal ones
	Kubelet []Observation // the following ones of the kubelet
	Ours    []Observation // the following ones of our side
	// Published means that our side diverges only with published statuses.
	Published bool
}

// Compare returns the first difference between two records, or nil if they are equal.
func Compare(kubelet, ours *Record) *Divergence {
	a, b := kubelet.observations, ours.observations
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	if i == len(a) && i == len(b) {
		return nil
	}
	return &Divergence{Before: a[max(0, i-6):i], Kubelet: a[i:min(len(a), i+4)], Ours: b[i:min(len(b), i+4)]}
}

// String formats the difference and the observations around it.
func (d *Divergence) String() string {
	var b strings.Builder
	if d.Published {
		b.WriteString("  only with published statuses:\n")
	}
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
