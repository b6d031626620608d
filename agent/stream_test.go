package agent

import (
	"context"
	"fmt"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/agent/events"
	"github.com/daeace23/prober/agent/logs"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/probe"
)

func TestStreamKeepsNewestStateOfEachObject(t *testing.T) {
	h := newHub()
	s := h.attach()
	defer h.detach(s)
	for round := range 10_000 {
		for _, name := range []string{"a", "b", "c"} {
			h.Observe(worker.Info{Subject: results.Subject{PodUID: "u", Container: name}, Kind: probe.Liveness}).Tick(nil)
		}
		h.podChanged(pods.Change{Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Generation: int64(round)}}})
		h.event(v1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e"}, Count: int32(round)})
	}
	n := h.take(s)
	if len(n.probes) != 3 || len(n.pods) != 1 || len(n.events) != 1 {
		t.Errorf("%d probes, %d pods, %d events; want 3, 1, 1", len(n.probes), len(n.pods), len(n.events))
	}
	if n.pods["u"].Pod.Generation != 9999 || n.events[0].Count != 9999 {
		t.Errorf("not the newest: pod %d, event %d", n.pods["u"].Pod.Generation, n.events[0].Count)
	}
	for i := range 3 * events.Max {
		h.event(v1.Event{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}})
	}
	if n := h.take(s); len(n.events) != events.Max {
		t.Errorf("%d events wait, want %d", len(n.events), events.Max)
	}
}

func TestStreamHasNewestCountOfConcurrentEvents(t *testing.T) {
	w := logs.NewWriter(nil, "text")
	defer w.Close()
	h := newHub()
	l, s := events.New(events.Config{Logger: logs.NewLogger(w, "text", 0), Tell: h.event}), h.attach()
	defer h.detach(s)
	about := &v1.ObjectReference{Kind: "Pod", Namespace: "n", Name: "p", UID: types.UID("u")}
	const each, at = 50, 8
	for round := range 100 {
		var busy sync.WaitGroup
		for range at {
			busy.Go(func() {
				for range each {
					l.Event(about, v1.EventTypeWarning, "Unhealthy", "again")
				}
			})
		}
		busy.Wait()
		if n, want := h.take(s), int32((round+1)*at*each); len(n.events) != 1 || n.events[0].Count != want {
			t.Fatalf("got %d events, want one that happened %d times: %+v", len(n.events), want, n.events)
		}
	}
}

// slowReader is a response writer that takes a while for each write.
type slowReader struct {
	*httptest.ResponseRecorder
	each   time.Duration
	writes []time.Time // when each has ended
}

func (s *slowReader) Write(p []byte) (int, error) {
	time.Sleep(s.each)
	s.writes = append(s.writes, time.Now())
	return len(p), nil
}

func (s *slowReader) SetWriteDeadline(time.Time) error { return nil }

// The pause is at most a second, for any number of streams.
func TestStreamPauseIsBoundedForSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := New(t.Context(), Config{Source: NewMemory().Open, Listen: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		defer a.close()
		for range 9 { // whose readers do not read
			defer a.hub.detach(a.hub.attach())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var busy sync.WaitGroup
		busy.Go(func() {
			for ctx.Err() == nil {
				a.hub.pod("u") // there are always changes
				time.Sleep(10 * time.Millisecond)
			}
		})
		const each = 3 * time.Second
		reader := &slowReader{ResponseRecorder: httptest.NewRecorder(), each: each}
		began := time.Now()
		a.serveStream(reader, httptest.NewRequestWithContext(ctx, "GET", "/api/v1/stream", nil))
		busy.Wait()
		var silence time.Duration
		for last := began; len(reader.writes) > 0; reader.writes = reader.writes[1:] {
			silence, last = max(silence, reader.writes[0].Sub(last)), reader.writes[0]
		}
		if limit := maxPause + each + 10*time.Millisecond; silence > limit {
			t.Errorf("silent for %s, want %s at most", silence, limit)
		}
	})
}

func TestPauseAfter(t *testing.T) {
	for _, c := range []struct {
		took    time.Duration
		streams int
		want    time.Duration
	}{
		{0, 1, streamPause},
		{20 * time.Millisecond, 1, 200 * time.Millisecond},
		{20 * time.Millisecond, 3, 600 * time.Millisecond},
		{20 * time.Millisecond, maxStreams, maxPause},
		{time.Minute, maxStreams, maxPause},
	} {
		if got := pauseAfter(c.took, c.streams); got != c.want {
			t.Errorf("%s after %s with %d streams, want %s", got, c.took, c.streams, c.want)
		}
	}
}

func TestStreamsAreBounded(t *testing.T) {
	h := newHub()
	for range maxStreams {
		if h.attach() == nil {
			t.Fatal("too few streams")
		}
	}
	if h.attach() != nil {
		t.Error("one stream too many")
	}
}
