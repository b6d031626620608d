package events_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/agent/events"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/probe"
)

// foldedLog returns an event log, and a function that ends it and returns its lines without times.
func foldedLog(t *testing.T) (l *events.Log, lines func() string) {
	var out bytes.Buffer
	handler := slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "namespace" || a.Key == "pod" || a.Key == "object" || a.Key == "reason" {
			return slog.Attr{}
		}
		return a
	}})
	l = events.New(events.Config{Logger: slog.New(handler), Tell: func(v1.Event) {}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.FollowFolds(ctx)
	}()
	return l, func() string {
		cancel()
		<-done
		return out.String()
	}
}

func unhealthy(l *events.Log, pod types.UID, message string) {
	l.Event(manager.ContainerReference("default", "shop", pod, "web", false), "Warning", "Unhealthy", message)
}

func TestFoldIntervalDoubles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, lines := foldedLog(t)
		time.Sleep(time.Second) // ticks of the fold and of the probe must not coincide
		for range 8 * 60 / 10 {
			unhealthy(l, "1", "no")
			time.Sleep(10 * time.Second)
		}
		want := `level=WARN msg=event message=no
level=WARN msg="event repeated" message=no times=6 in=1m5s
level=WARN msg="event repeated" message=no times=12 in=2m0s
level=WARN msg="event repeated" message=no times=24 in=4m0s
level=WARN msg="event repeated" message=no times=5 in=55s
`
		if got := lines(); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}

// TestFoldsIgnoreDurationsAndPorts has messages of the same kind at each attempt, and of other kinds.
func TestFoldsIgnoreDurationsAndPorts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, lines := foldedLog(t)
		for _, message := range []string{
			"Readiness probe errored: the agent did not run for 279ms of an attempt with a timeout of 1s: late",
			"Readiness probe errored: the agent did not run for 1.06s of an attempt with a timeout of 1s: late",
			"Readiness probe failed: read tcp 10.0.0.1:41230->10.0.0.2:80: reset",
			"Readiness probe failed: read tcp 10.0.0.1:53242->10.0.0.2:80: reset",
			"Readiness probe failed: read tcp 10.0.0.1:53242->10.0.0.2:81: reset",
			"Readiness probe failed: HTTP probe failed with statuscode: 503",
			"Readiness probe failed: HTTP probe failed with statuscode: 500",
		} {
			unhealthy(l, "1", message)
		}
		got := lines()
		if events, repeated := strings.Count(got, "msg=event "), strings.Count(got, `msg="event repeated"`); events != 5 || repeated != 2 {
			t.Errorf("%d lines for new kinds and %d for repeated ones:\n%s", events, repeated, got)
		}
	})
}

func TestChangedEndsFolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, lines := foldedLog(t)
		for range 3 {
			unhealthy(l, "1", "Readiness no")
			unhealthy(l, "2", "Readiness no")
			time.Sleep(time.Second)
		}
		unhealthy(l, "1", "Readiness something else")
		l.Changed("1", "we", probe.Readiness, true) // another container
		l.Changed("1", "web", probe.Readiness, false)
		unhealthy(l, "1", "Readiness no")
		l.Changed("1", "web", probe.Startup, true) // another probe
		l.Changed("1", "web", probe.Readiness, true)
		unhealthy(l, "1", "Readiness no")
		want := `level=WARN msg=event message="Readiness no"
level=WARN msg=event message="Readiness no"
level=WARN msg=event message="Readiness something else"
level=WARN msg="event repeated" message="Readiness no" times=2 in=3s
level=WARN msg="event repeated" message="Readiness no" times=1 in=0s
level=WARN msg=event message="Readiness no"
level=WARN msg="event repeated" message="Readiness no" times=2 in=3s
`
		if got := lines(); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}

func TestFoldsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, lines := foldedLog(t)
		for i := range events.Max + 1 {
			unhealthy(l, "1", fmt.Sprint(i))
		}
		unhealthy(l, "1", "0")                    // folded
		unhealthy(l, "1", fmt.Sprint(events.Max)) // logged, as there are too many folds
		time.Sleep(4 * time.Minute)               // all folds end
		unhealthy(l, "1", "1")                    // logged
		got := lines()
		for want, n := range map[string]int{
			"level=WARN msg=event ": events.Max + 3, `msg="event repeated" message=0 times=1 `: 1, "\n": events.Max + 4,
		} {
			if got := strings.Count(got, want); got != n {
				t.Errorf("%d times %q, want %d", got, want, n)
			}
		}
	})
}
