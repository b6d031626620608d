package pauses_test

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/pauses"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// fakeProbes records pauses and resumes. A probe called "gone" does not exist.
type fakeProbes struct {
	mu     sync.Mutex
	done   []string
	paused map[manager.Key]bool
}

func (f *fakeProbes) act(name string, key manager.Key) error {
	if key.Container == "gone" {
		return errors.New("no such probe")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = append(f.done, name+" "+key.Container)
	if f.paused == nil {
		f.paused = make(map[manager.Key]bool)
	}
	f.paused[key] = name != "resume"
	return nil
}

func (f *fakeProbes) Pause(key manager.Key) error  { return f.act("pause", key) }
func (f *fakeProbes) Resume(key manager.Key) error { return f.act("resume", key) }

func (f *fakeProbes) Force(key manager.Key, gate worker.Gate) error {
	return f.act(gate.String(), key)
}

func (f *fakeProbes) Latest(key manager.Key) (s manager.ProbeStatus, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.Paused, s.Namespace, s.Pod, s.Container, s.Kind = f.paused[key], "ns", "pod", key.Container, key.Kind
	return s, key.Container != "gone"
}

// take returns the calls since the last take.
func (f *fakeProbes) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	done := f.done
	f.done = nil
	return done
}

func key(container string) manager.Key { return manager.Key{PodUID: "1", Container: container} }

func TestTableEndsPausesAtTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var probes fakeProbes
		var ended []string
		table := pauses.New(&probes, func(k manager.Key, p pauses.Pause) { ended = append(ended, k.Container+" "+p.Reason) })
		defer table.Close()
		pause := func(name string, d time.Duration, reason string) {
			t.Helper()
			if err := table.Pause(key(name), pauses.Pause{For: d, Reason: reason}); err != nil {
				t.Fatal(err)
			}
		}
		pause("late", time.Hour, "x")
		pause("early", time.Minute, "y")
		pause("open", 0, "z")
		pause("resumed", time.Minute, "")
		pause("ended", time.Minute, "")
		pause("longer", time.Minute, "first")
		pause("longer", time.Hour, "second")
		if err := table.Resume(key("resumed")); err != nil {
			t.Fatal(err)
		}
		table.Forget(key("ended"))
		probes.take()
		time.Sleep(time.Minute - time.Millisecond)
		synctest.Wait()
		if done := probes.take(); len(done) > 0 {
			t.Fatalf("before the time: %q", done)
		}
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if diff := cmp.Diff([]string{"resume early"}, probes.take()); diff != "" {
			t.Error(diff)
		}
		if got := table.Of(key("longer")); got.PauseReason != "second" || time.Until(got.PausedUntil).Round(time.Minute) != 59*time.Minute {
			t.Errorf("a pause that was replaced: %+v", got)
		}
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		slices.Sort(ended)
		if diff := cmp.Diff([]string{"early y", "late x", "longer second"}, ended); diff != "" {
			t.Error(diff)
		}
		if got := table.Of(key("open")); got.PauseReason != "z" || !got.PausedUntil.IsZero() {
			t.Errorf("a pause without end: %+v", got)
		}
	})
}

// The end of a pause would resume a probe that its configuration pauses.
func TestTableRefusesTimeOfConfiguredPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		probes := fakeProbes{paused: map[manager.Key]bool{key("off"): true}}
		table := pauses.New(&probes, func(k manager.Key, _ pauses.Pause) {})
		defer table.Close()
		minute := pauses.Pause{For: time.Minute}
		refused := func(when string, p pauses.Pause, want error) {
			t.Helper()
			if err := table.Pause(key("off"), p); !errors.Is(err, want) {
				t.Errorf("%s: error %v, want %v", when, err, want)
			}
		}
		refused("paused by its configuration", minute, pauses.ErrConfigured)
		refused("without a time", pauses.Pause{Reason: "x"}, nil)
		refused("after one without a time", minute, pauses.ErrConfigured)
		if got := table.Of(key("off")); got.PauseReason != "x" {
			t.Errorf("the pause without a time: %+v", got)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if diff := cmp.Diff([]string{"pause off"}, probes.done); diff != "" {
			t.Error(diff)
		}
		probes.paused[key("off")] = false // by its configuration
		refused("after the configuration has resumed it", minute, nil)
		refused("once more", minute, nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		if diff := cmp.Diff([]string{"pause off", "pause off", "pause off", "resume off"}, probes.done); diff != "" {
			t.Error(diff)
		}
	})
}

// A table keeps pauses and forced states in its file, with their ends, for probes that come later too.
func TestTableKeepsPausesOverRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pauses.json")
	log := slog.New(slog.DiscardHandler)
	readiness := func(name string) manager.Key {
		return manager.Key{PodUID: "1", Container: name, Kind: probe.Readiness}
	}
	all := map[string]pauses.Pause{
		"up":      {Force: worker.ForcedUp, For: time.Hour, Reason: "r", By: "b"},
		"down":    {Force: worker.ForcedDown},
		"drained": {Force: worker.Drained, For: time.Hour},
		"paused":  {For: time.Hour, Reason: "p"},
		"short":   {Force: worker.ForcedDown, For: time.Millisecond},
		"resumed": {Force: worker.ForcedDown},
	}
	first := pauses.New(new(fakeProbes), func(manager.Key, pauses.Pause) {})
	first.Open(path, log)
	for name, p := range all {
		if err := first.Pause(readiness(name), p); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Resume(readiness("resumed")); err != nil {
		t.Fatal(err)
	}
	before := make(map[string]api.Pause)
	for name := range all {
		before[name] = first.Of(readiness(name))
	}
	first.Close()
	first.Forget(readiness("up")) // as at the end of the agent
	time.Sleep(2 * time.Millisecond)

	var probes fakeProbes
	second := pauses.New(&probes, func(manager.Key, pauses.Pause) {})
	defer second.Close()
	second.Open(path, log)
	exists := map[string]bool{"up": true, "down": true, "paused": true, "short": true, "resumed": true}
	find := func(n pauses.Name) []manager.Key {
		if n.Namespace != "ns" || n.Pod != "pod" || !exists[n.Container] {
			return nil
		}
		return []manager.Key{{PodUID: "1", Container: n.Container, Kind: n.Kind}}
	}
	second.Restore(find)
	if err := second.Pause(readiness("new"), pauses.Pause{}); err != nil {
		t.Fatal(err)
	}
	exists["drained"] = true
	second.Restore(find)
	second.Restore(find)
	for name, want := range before {
		if name == "short" {
			want = api.Pause{}
		}
		got := second.Of(readiness(name))
		if !got.PausedUntil.Equal(want.PausedUntil) {
			t.Errorf("%s: until %v, want %v", name, got.PausedUntil, want.PausedUntil)
		}
		if got.PausedUntil = want.PausedUntil; got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	done := probes.take()
	slices.Sort(done)
	if diff := cmp.Diff([]string{"drained drained", "forced down down", "forced up up", "pause new", "pause paused"}, done); diff != "" {
		t.Error(diff)
	}
}

func TestTableForcesReadinessOnly(t *testing.T) {
	var probes fakeProbes
	table := pauses.New(&probes, nil)
	defer table.Close()
	if err := table.Pause(key("live"), pauses.Pause{Force: worker.ForcedDown}); !errors.Is(err, pauses.ErrKind) || len(probes.take()) > 0 {
		t.Errorf("error %v", err)
	}
}

func TestReadForce(t *testing.T) {
	for _, c := range []struct {
		query, body string
		want        pauses.Pause
		err         string
	}{
		{query: "state=down&for=2h&reason=x", want: pauses.Pause{Force: worker.ForcedDown, For: 2 * time.Hour, Reason: "x"}},
		{query: "state=up", want: pauses.Pause{Force: worker.ForcedUp}},
		{body: `{"state":"drained","reason":"y"}`, want: pauses.Pause{Force: worker.Drained, Reason: "y"}},
		{err: `state "" must be one of down, drained, up`},
		{query: "state=sideways", err: `state "sideways" must be one of`},
		{query: "state=up&until=x", err: `unknown parameter "until"; known: for, reason, state`},
	} {
		r := httptest.NewRequest(http.MethodPost, "/?"+c.query, strings.NewReader(c.body))
		got, err := pauses.ReadForce(r)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || err == nil && got != c.want {
			t.Errorf("%q %q: got %+v, %v", c.query, c.body, got, err)
		}
	}
}

func TestTableMissingProbeIsError(t *testing.T) {
	table := pauses.New(new(fakeProbes), nil)
	defer table.Close()
	if table.Pause(key("gone"), pauses.Pause{Reason: "x"}) == nil || table.Resume(key("gone")) == nil {
		t.Error("no error")
	}
	if got := table.Of(key("gone")); got.PauseReason != "" {
		t.Errorf("got %+v", got)
	}
}

func TestTableClosedEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var probes fakeProbes
		table := pauses.New(&probes, nil)
		for _, name := range []string{"a", "b"} {
			if name == "b" {
				table.Close()
			}
			if err := table.Pause(key(name), pauses.Pause{For: time.Second}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"pause a", "pause b"}, probes.done); diff != "" {
			t.Error(diff)
		}
	})
}

func TestRead(t *testing.T) {
	long := strings.Repeat("é", 128)
	for _, c := range []struct {
		name, query, body string
		want              pauses.Pause
		err               string
	}{
		{name: "nothing"},
		{name: "query", query: "for=10m&reason=" + url.QueryEscape(" a move "), want: pauses.Pause{For: 10 * time.Minute, Reason: "a move"}},
		{name: "body", body: ` {"for":"1h30m","reason":"` + long + `"} `, want: pauses.Pause{For: 90 * time.Minute, Reason: long}},
		{name: "both", query: "reason=a", body: `{"for":"1s"}`, want: pauses.Pause{For: time.Second, Reason: "a"}},
		{name: "twice", query: "for=1m&for=2m", err: `"for" is set more than once`},
		{name: "in both", query: "for=1m", body: `{"for":"1s"}`, err: `"for" is set more than once`},
		{name: "typing error", query: "fro=10m", err: `unknown parameter "fro"; known: for, reason`},
		{name: "unknown field", body: `{"until":"1s"}`, err: `unknown field "until"`},
		{name: "a number", body: `{"for":10}`, err: "body: json: cannot unmarshal number"},
		{name: "more than an object", body: `{} {}`, err: "there is text after the object"},
		{name: "no unit", query: "for=10", err: `for "10" must be a duration such as 10m or 1h30m, from 1s to 8784h0m0s`},
		{name: "too short", query: "for=1ms", err: "must be a duration"},
		{name: "negative", query: "for=-1m", err: "must be a duration"},
		{name: "too long", query: "for=10000h", err: "must be a duration"},
		{name: "long reason", query: "reason=" + long + "x", err: "reason must be one line of at most 256 bytes"},
		{name: "two lines", query: "reason=a%0ab", err: "reason must be one line"},
		{name: "escape sequence", query: "reason=%1b[31m", err: "reason must be one line"},
		{name: "invalid UTF-8", query: "reason=%ff", err: "reason must be one line"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "/?"+c.query, strings.NewReader(c.body))
			got, err := pauses.Read(r)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}
