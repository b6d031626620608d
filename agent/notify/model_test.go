package notify_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/agent/notify/format"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/states"
)

// span is a time span in which a probe was in one state.
type span struct {
	from, to time.Time
	state    states.State
}

// model computes the incidents of one probe from its changes alone. Unknown does not end a failure.
type model struct {
	spans []span
}

func (m *model) state() states.State {
	if len(m.spans) == 0 {
		return ok
	}
	return m.spans[len(m.spans)-1].state
}

func (m *model) setState(s states.State, at time.Time) {
	if s == unknown && m.state() == failure || s == m.state() {
		return
	}
	if n := len(m.spans); n > 0 {
		m.spans[n-1].to = at
	}
	m.spans = append(m.spans, span{from: at, state: s})
}

// hadState reports whether the probe was in state s at some time from a to b.
func (m *model) hadState(s states.State, a, b time.Time) bool {
	if s == ok && (len(m.spans) == 0 || a.Before(m.spans[0].from)) {
		return true
	}
	return slices.ContainsFunc(m.spans, func(x span) bool {
		return x.state == s && !x.from.After(b) && (x.to.IsZero() || !x.to.Before(a))
	})
}

// incidents returns the time spans in which the probe was not well.
func (m *model) incidents(end time.Time) (all []span) {
	for _, s := range m.spans {
		if s.to.IsZero() {
			s.to = end
		}
		switch n := len(all); {
		case s.state == ok:
		case n > 0 && all[n-1].to.Equal(s.from):
			all[n-1].to = s.to
		default:
			all = append(all, s)
		}
	}
	return all
}

// behaviours are ways to fail a message: reject it, lose it, or accept it and respond with an error.
var behaviours = map[string]http.HandlerFunc{
	"away": status(503), "wrong": status(500), "busy": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "90")
		w.WriteHeader(http.StatusTooManyRequests)
	},
	"hangs":  func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	"closes": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	"drips": func(w http.ResponseWriter, r *http.Request) { // a status line that never ends
		for c, _, err := http.NewResponseController(w).Hijack(); err == nil; time.Sleep(time.Second) {
			_, err = c.Write([]byte("H"))
		}
	},
	"forbids": status(403),
}

// answerAfter makes the receiver accept messages and respond after a delay.
func (w *world) answerAfter(delay time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delay = delay
}

// heard is a notification about a probe.
type heard struct {
	at time.Time
	format.Probe
}

func TestMessagesMatchModel(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomWorld(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func randomWorld(t *testing.T, random *rand.Rand) {
	w := newWorld(t, ", retention: 48h, maxPerMinute: 60, match: [{labels: 'team!=away'}]"+
		[]string{"", ", groupBy: [pod]", ", groupInterval: 10s", ", groupWait: 0s"}[random.IntN(4)]+
		[]string{"", ", flapDetection: false"}[random.IntN(2)]+
		[]string{"", ", quiet: [{schedule: '30 1,5,9 * * *', duration: 90m}]"}[random.IntN(2)])
	spec := w.conf.Receivers[0]
	models := make(map[string]*model)
	pods := []string{"a", "b", "c", "d", "e", "f"}
	for _, p := range pods {
		models[p] = &model{}
	}
	names := make([]string, 0, len(behaviours))
	for name := range behaviours {
		names = append(names, name)
	}
	slices.Sort(names)
	wait := func(most time.Duration) time.Duration {
		return time.Duration(random.Int64N(int64(most))) + time.Millisecond
	}
	latest, away := make(map[string]states.State), make(map[string]bool) // away: the receiver does not select the pod
	set := func(pod string) {
		if away[pod] {
			models[pod].setState(ok, time.Now())
		} else {
			models[pod].setState(latest[pod], time.Now())
		}
	}
	for _, p := range pods {
		latest[p] = ok
	}
	behaveUntil := time.Now()
	for time.Since(w.start) < 12*time.Hour {
		if time.Now().After(behaveUntil) {
			w.answerWith(nil)
			w.answerAfter([]time.Duration{0, 0, wait(time.Second), wait(9 * time.Second)}[random.IntN(4)])
			if random.IntN(2) == 0 {
				w.answerWith(behaviours[names[random.IntN(len(names))]])
			}
			behaveUntil = time.Now().Add(wait(40 * time.Minute))
		}
		pod := pods[random.IntN(len(pods))]
		switch random.IntN(12) {
		case 0:
			w.removed(pod, "uid-"+pod, true)
			latest[pod] = ok
			set(pod)
			time.Sleep(2 * removalWait) // a probe that returns earlier would keep its incident
		case 1:
			away[pod] = !away[pod]
			w.label(pod, map[bool]string{true: "team=away", false: "team=ops"}[away[pod]])
			set(pod)
		default:
			latest[pod] = anyState(random)
			w.setState(pod, latest[pod])
			set(pod)
		}
		time.Sleep(wait([]time.Duration{2 * time.Second, 20 * time.Second, 10 * time.Minute}[random.IntN(3)]))
	}
	w.answerWith(nil)
	w.answerAfter(0)
	for _, p := range pods {
		w.label(p, "team=ops")
		w.setState(p, failure)
		models[p].setState(failure, time.Now())
	}
	if r, err := w.Test(t.Context(), "ops"); err != nil || !r.Delivered { // as after a refusal
		t.Errorf("%+v, %v", r, err)
	}
	time.Sleep(40 * time.Minute)
	end := time.Now()
	heardOf := checkLetters(t, w, &spec, models)
	for _, p := range pods {
		checkKnown(t, p, models[p], heardOf[p], end, &spec)
	}
	for _, p := range pods {
		w.setState(p, ok)
	}
	time.Sleep(10 * time.Minute)
	if r := w.Status().Items[0]; len(r.Alerts) != 0 || r.Pending+r.Open != 0 {
		t.Errorf("all probes are well, but the state is kept: %+v", r)
	}
	if t.Failed() {
		t.Log(w.log.String())
	}
}

func anyState(random *rand.Rand) states.State {
	return []states.State{ok, ok, failure, failure, unknown}[random.IntN(5)]
}

// removalWait is how long messages may show a removed probe as failing.
const removalWait = 61 * time.Second

// checkLetters checks that each letter is true, has news, and respects the interval and quiet
// hours. It returns the
// notifications by pod.
func checkLetters(t *testing.T, w *world, spec *config.Receiver, models map[string]*model) map[string][]heard {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make(map[string][]heard)
	last := make(map[string]*letter)
	for i := range w.letters {
		l := &w.letters[i]
		at := w.start.Add(l.at)
		if before := last[l.ID]; before != nil {
			if sameNews(before, l) && !l.Repeated {
				t.Errorf("%s: %s was sent twice", l.at, l.summary())
			}
			if l.at-before.at < spec.GroupInterval-time.Second {
				t.Errorf("%s: a message %s after the last one", l.at, l.at-before.at)
			}
		}
		last[l.ID] = l
		if spec.Quiet.Contains(at) && l.Status != format.Test {
			t.Errorf("%s: a message in quiet hours", l.at)
		}
		for _, p := range l.Probes {
			want := map[string]states.State{"failure": failure, "unknown": unknown}[p.State]
			if p.Status != format.Failing {
				want = ok
			}
			if p.Flaps != nil { // its incident goes on until it is steady
				_ = want.UnmarshalText([]byte(p.Flaps.State))
			}
			if m := models[p.Pod]; !m.hadState(want, at.Add(-removalWait), at.Add(100*time.Millisecond)) {
				t.Errorf("%s: %s was reported as %s %s, which is wrong", l.at, p.Pod, p.Status, p.State)
			}
			if before := all[p.Pod]; len(before) > 0 {
				checkOrder(t, l.at, &before[len(before)-1].Probe, &p)
			}
			all[p.Pod] = append(all[p.Pod], heard{at, p})
		}
	}
	return all
}

// checkOrder checks that an incident ends before the next one begins in two consecutive messages about a
// probe.
func checkOrder(t *testing.T, at time.Duration, before, p *format.Probe) {
	switch {
	case before.Status == format.Failing && !p.Since.Equal(before.Since):
		t.Errorf("%s: the end of the incident of %s since %s was not sent", at, p.Pod, before.Since)
	case before.Status != format.Failing && p.Since.Before(before.Ended) && p.Labels == nil: // a label may have changed
		t.Errorf("%s: %s fails since %s, and the incident before ended at %s", at, p.Pod, p.Since, before.Ended)
	}
}

// sameNews reports whether two letters have the same contents about the same incidents.
func sameNews(a, b *letter) bool {
	return a.summary() == b.summary() && slices.EqualFunc(a.Probes, b.Probes, func(x, y format.Probe) bool {
		return x.Since.Equal(y.Since) && x.Ended.Equal(y.Ended) && (x.Flaps == nil) == (y.Flaps == nil)
	})
}

// checkKnown checks that each lasting incident was sent, and that the last message has the present state.
func checkKnown(t *testing.T, pod string, m *model, all []heard, end time.Time, spec *config.Receiver) {
	for _, x := range m.incidents(end) {
		lasted := x.from.Add(spec.GroupWait + 500*time.Millisecond)
		if quiet := spec.Quiet.Until(lasted); !quiet.IsZero() {
			lasted = quiet.Add(500 * time.Millisecond)
		}
		if !x.to.After(lasted) {
			continue
		}
		told := false
		for i, h := range all {
			next := end
			if i+1 < len(all) {
				next = all[i+1].at
			}
			if h.at.Before(x.from) {
				told = told || h.Status == format.Failing && next.After(x.from) // an open incident for the receiver
				continue
			}
			told = told || !h.Since.After(x.to)
		}
		if !told {
			t.Errorf("%s: the incident from %s to %s was not sent", pod, x.from, x.to)
		}
	}
	if len(all) == 0 {
		t.Errorf("%s: nothing was sent", pod)
		return
	}
	if last := all[len(all)-1]; last.Status != format.Failing || last.State != m.state().String() {
		t.Errorf("%s is %s, and the last message said %s %s at %s", pod, m.state(), last.Status, last.State, last.at)
	}
}
