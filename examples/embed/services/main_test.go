package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// rig is an agent with one service, which answers with a status that the test sets.
type rig struct {
	agent   *agent
	status  atomic.Int32
	starts  atomic.Int32
	refuse  atomic.Bool // the next start returns an error
	updates chan results.Update
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{updates: make(chan results.Update, 100)}
	r.status.Store(http.StatusOK)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(r.status.Load())) }))
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, _ := strconv.Atoi(u.Port())
	if r.agent, err = newAgent(func(u results.Update) { r.updates <- u }); err != nil {
		t.Fatal(err)
	}
	s := &service{name: "checkout", host: u.Hostname(), port: port, restart: func() error {
		r.starts.Add(1)
		if r.refuse.Swap(false) {
			return errors.New("refused")
		}
		r.status.Store(http.StatusOK)
		return nil
	}}
	if err := r.agent.Add(s, probe.Spec{Period: 10 * time.Millisecond, Timeout: 30 * time.Second}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.agent.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r
}

// await reads updates until one has the kind, result and run.
func (r *rig) await(t *testing.T, run string, kind probe.Kind, result results.Result) {
	t.Helper()
	for {
		select {
		case u := <-r.updates:
			if u.ContainerID == run && u.Kind == kind && u.Result == result {
				return
			}
		case <-time.After(time.Minute):
			t.Fatalf("no update: %s %s %s", run, kind, result)
		}
	}
}

func TestFailedServiceIsRestarted(t *testing.T) {
	r := newRig(t)
	r.await(t, "checkout/1", probe.Readiness, results.Success)
	r.status.Store(http.StatusInternalServerError)
	r.await(t, "checkout/2", probe.Readiness, results.Success)
	if n := r.starts.Load(); n != 2 {
		t.Errorf("%d starts, want 2", n)
	}
}

func TestFailedRestartIsTriedAgain(t *testing.T) {
	r := newRig(t)
	r.await(t, "checkout/1", probe.Readiness, results.Success)
	r.refuse.Store(true)
	r.status.Store(http.StatusInternalServerError)
	r.await(t, "checkout/3", probe.Readiness, results.Success)
	if n := r.starts.Load(); n != 3 {
		t.Errorf("%d starts, want 3", n)
	}
}
