package agent

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/agent/hostwatch"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// troubled returns a tick that failed because of trouble on the host.
func troubled(reason probe.Reason, attempts int, err error) *worker.Tick {
	return &worker.Tick{Attempts: attempts, Err: fmt.Errorf("attempt: %w", &probe.Error{Reason: reason, Err: err})}
}

// lockedText is a writer whose text can be read concurrently.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Attempts that fail because of trouble on the host are reported in an event, in the log and in /readyz, at
// most once a minute.
func TestHostTroubleIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedText
		a, err := New(t.Context(), Config{Source: NewMemory().Open, Listen: "127.0.0.1:0", Stderr: &log})
		if err != nil {
			t.Fatal(err)
		}
		defer a.close()
		handler := a.router()
		readyz := func() string {
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, httptest.NewRequest("GET", "/readyz?verbose", nil))
			return answer.Body.String()
		}
		logged := func() int {
			synctest.Wait()
			return strings.Count(log.String(), "because of trouble of this host")
		}
		probes := a.host.Observe(worker.Info{})
		probes.Tick(&worker.Tick{Attempts: 1})
		probes.Tick(troubled(probe.ReasonDNS, 1, errors.New("no such host")))
		if len(a.events.List()) != 0 || strings.Contains(readyz(), "host") {
			t.Fatalf("without trouble: %+v\n%s", a.events.List(), readyz())
		}
		probes.Tick(troubled(probe.ReasonHostResources, 1, syscall.EMFILE))
		if got := logged(); got != 1 || !strings.Contains(log.String(), `reason=host_resources attempts=1 error="attempt: too many open files"`) {
			t.Errorf("%d lines in\n%s", got, &log)
		}
		for range 100 { // for fifty seconds
			time.Sleep(500 * time.Millisecond)
			probes.Tick(troubled(probe.ReasonHostResources, 3, syscall.EADDRNOTAVAIL))
		}
		want := "[!]host out of resources: 301 attempts failed in the last minute: attempt: cannot assign requested address\n"
		if got := readyz(); !strings.Contains(got, want) {
			t.Errorf("got %s\nwant %s", got, want)
		}
		if got := logged(); got != 1 {
			t.Errorf("%d lines within a minute", got)
		}
		time.Sleep(10*time.Second + time.Millisecond)
		if got := logged(); got != 2 || !strings.Contains(log.String(), "attempts=300") {
			t.Errorf("%d lines after a minute in\n%s", got, &log)
		}
		time.Sleep(hostwatch.Window)
		if got := readyz(); strings.Contains(got, "host") {
			t.Errorf("a minute after the last: %s", got)
		}
		probes.Tick(troubled(probe.ReasonHostStall, 1, errors.New("late")))
		if got := readyz(); !strings.Contains(got, "[!]host stalled: 1 attempts failed in the last minute") {
			t.Errorf("after a stall: %s", got)
		}
		probes.Tick(troubled(probe.ReasonHostNetwork, 1, syscall.ENETUNREACH))
		if got := readyz(); !strings.Contains(got, "[!]host without a network: 1 attempts failed in the last minute: attempt: network is unreachable") {
			t.Errorf("without a network: %s", got)
		}
		events := a.events.List()
		if len(events) != 3 {
			t.Fatalf("got %+v, want one event for each reason", events)
		}
		for i, want := range []struct {
			reason string
			count  int32
		}{{"HostResources", 301}, {"HostStall", 1}, {"HostNetwork", 1}} {
			e := events[i]
			if e.Reason != want.reason || e.Count != want.count || e.Type != v1.EventTypeWarning || e.InvolvedObject.Kind != "Node" || e.InvolvedObject.Name == "" {
				t.Errorf("got %+v, want %+v", e, want)
			}
		}
	})
}
