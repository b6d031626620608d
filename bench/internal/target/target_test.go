package target_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/daeace23/prober/bench/internal/child"
	"github.com/daeace23/prober/bench/internal/target"
)

func TestMain(m *testing.M) {
	child.Main(map[string]child.Job{target.Job: target.Serve})
	os.Exit(m.Run())
}

// TestLagsOfRequests makes ten requests to two addresses. One address misses the second half.
func TestLagsOfRequests(t *testing.T) {
	s, err := target.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	const period = 100 * time.Millisecond
	if err := s.Watch(2, period, 10); err != nil {
		t.Fatal(err)
	}
	ticks := time.NewTicker(period)
	defer ticks.Stop()
	for i := range 10 {
		<-ticks.C
		get(t, target.Address(0), s.HTTP)
		if i < 5 {
			get(t, target.Address(1), s.HTTP)
		}
	}
	lags, err := s.Lags()
	if err != nil {
		t.Fatal(err)
	}
	// The window excludes the last period. On a busy machine more requests are late.
	if lags.Ticks < 16 || lags.Lost < 3 || lags.Lost > 8 || lags.P50 < 0 {
		t.Errorf("%+v", lags)
	}
	if again, err := s.Lags(); err != nil || again.Ticks != 0 {
		t.Errorf("after the end of the watch: %+v, %v", again, err)
	}
}

func get(t *testing.T, address string, port int) {
	t.Helper()
	answer, err := http.Get(fmt.Sprintf("http://%s:%d/healthz", address, port))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "ok" || answer.StatusCode != http.StatusOK {
		t.Errorf("%s, %q, %v", answer.Status, text, err)
	}
}
