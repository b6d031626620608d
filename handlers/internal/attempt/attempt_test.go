package attempt_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/internal/attempt"
	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

func TestRequest(t *testing.T) {
	p := attempt.Plugin{Manifest: plugin.Minimal("demo"), Digest: "sha256:0", HostVersion: "v1", Features: []string{"kv"}}
	req := probe.Request{
		Attempt: 2, Kind: probe.Liveness, ContainerID: "c1", Target: probe.Target{Host: "::1", Port: 80},
		Spec: probe.Spec{Period: time.Second, Timeout: time.Millisecond, FailureThreshold: 3},
	}
	for name, doc := range map[string][]byte{
		"probe":  p.Request(&req, []byte(`{"a":1}`)),
		"config": p.ConfigRequest([]byte(`{"a":1}`), req.Target),
	} {
		var got struct {
			Plugin struct{ Name, Digest string }
			Probe  struct {
				Kind      string
				Attempt   int
				PeriodMs  int
				TimeoutMs int
			}
			Target    struct{ Host, IP string }
			Container struct{ ID string }
			Config    map[string]int
			Host      struct {
				Version  string
				Features []string
			}
		}
		if err := json.Unmarshal(doc, &got); err != nil {
			t.Fatal(err)
		}
		if got.Plugin.Name != "demo" || got.Plugin.Digest != "sha256:0" || got.Target.IP != "::1" || got.Config["a"] != 1 || got.Host.Version != "v1" || len(got.Host.Features) != 1 {
			t.Errorf("%s: %s", name, doc)
		}
		if name == "probe" && (got.Probe.Kind != "liveness" || got.Probe.Attempt != 2 || got.Probe.PeriodMs != 1000 || got.Container.ID != "c1") {
			t.Errorf("%s: %s", name, doc)
		}
	}
}

func TestOutcome(t *testing.T) {
	limits := plugin.Limits{Message: 10, Series: 1}
	for name, c := range map[string]struct {
		code   int
		answer abi.Result
		want   probe.Outcome
		err    string
		hit    []int
	}{
		"success":      {0, abi.Result{Message: "ok"}, probe.Outcome{Output: "ok", Result: probe.Success}, "", nil},
		"long message": {2, abi.Result{Message: "hunter2 and more"}, probe.Outcome{Output: "[secret] a", Result: probe.Failure}, "", []int{plugin.LimitMessage}},
		"long details": {1, abi.Result{Details: json.RawMessage(`{"a":"bcdefgh"}`)}, probe.Outcome{Result: probe.Warning}, "", []int{plugin.LimitMessage}},
		"many metrics": {
			0, abi.Result{Metrics: []probe.Metric{{Name: "a"}, {Name: "b"}}},
			probe.Outcome{Metrics: []probe.Metric{{Name: "a"}}, Result: probe.Success}, "", []int{plugin.LimitSeries},
		},
		"reason":               {2, abi.Result{Reason: "http_status"}, probe.Outcome{Result: probe.Failure, Reason: probe.ReasonHTTPStatus}, "", nil},
		"reason of the host":   {2, abi.Result{Reason: "host_stall"}, probe.Outcome{Result: probe.Failure}, "", nil},
		"unknown reason":       {2, abi.Result{Reason: "bored"}, probe.Outcome{Result: probe.Failure}, "", nil},
		"reason of a success":  {0, abi.Result{Reason: "body"}, probe.Outcome{Result: probe.Success}, "", nil},
		"error of the plugin":  {-3, abi.Result{Message: "no"}, probe.Outcome{}, "guest: no", nil},
		"error without a text": {-3, abi.Result{}, probe.Outcome{}, "guest: the plugin returned -3", nil},
		"unknown code":         {4, abi.Result{}, probe.Outcome{}, "protocol: the plugin returned 4; want 0 to 3, or a negative number", nil},
		"other result":         {0, abi.Result{HasResult: true, Result: probe.Failure}, probe.Outcome{}, "protocol: the plugin returned 0 (success), but its result says failure", nil},
	} {
		t.Run(name, func(t *testing.T) {
			req := &probe.Request{Redact: strings.NewReplacer("hunter2", "[secret]").Replace}
			var hits []int
			got, err := attempt.Outcome(req, c.code, &c.answer, &limits, func(limit int) { hits = append(hits, limit) })
			text := ""
			if err != nil {
				text = string(probe.ReasonOf(err)) + ": " + err.Error()
			}
			if got.Result != c.want.Result || got.Output != c.want.Output || len(got.Metrics) != len(c.want.Metrics) || got.Details != c.want.Details || got.Reason != c.want.Reason || text != c.err {
				t.Errorf("got %+v, %s; want %+v, %s", got, text, c.want, c.err)
			}
			if len(hits) != len(c.hit) || len(hits) > 0 && hits[0] != c.hit[0] {
				t.Errorf("hit %v, want %v", hits, c.hit)
			}
		})
	}
}

func TestFailureOf(t *testing.T) {
	trap := &probe.Error{Reason: probe.ReasonTrap, Err: errors.New("trap")}
	last := &probe.Request{Attempt: probe.MaxAttempts}
	for name, c := range map[string]struct {
		policy plugin.ErrorPolicy
		req    *probe.Request
		err    error
		want   bool
	}{
		"trap on the last attempt":  {plugin.PolicyFailure, last, trap, true},
		"trap on the first attempt": {plugin.PolicyFailure, &probe.Request{Attempt: 1}, trap, false},
		"error of the plugin":       {plugin.PolicyFailure, last, &probe.Error{Reason: probe.ReasonGuest, Err: trap}, false},
		"other policy":              {"", last, trap, false},
	} {
		m := plugin.Minimal("demo")
		m.ErrorPolicy = c.policy
		if out, ok := attempt.FailureOf(m, c.req, c.err); ok != c.want || ok && (out.Result != probe.Failure || out.Reason != probe.ReasonTrap) {
			t.Errorf("%s: got %+v, %t", name, out, ok)
		}
	}
}

func TestStoreIsBounded(t *testing.T) {
	var s attempt.Store
	values := make(map[string][]byte)
	for n := range abi.MaxKVKeys {
		values[strconv.Itoa(n)] = nil
	}
	if err := s.ReplaceWithin(values, abi.MaxKV); err != nil || len(s.Load()) != abi.MaxKVKeys {
		t.Errorf("got %v, and %d keys", err, len(s.Load()))
	}
	for name, c := range map[string]struct {
		key  string
		most int
		want string
	}{
		"keys":  {"one more", abi.MaxKV, "1025 keys; at most 1024 are allowed"},
		"bytes": {"0", 1, "keys and values of 2986 bytes; at most 1 are allowed"},
	} {
		more := map[string][]byte{c.key: nil}
		maps.Copy(more, values)
		if err := s.ReplaceWithin(more, c.most); err == nil || err.Error() != c.want || len(s.Load()) != abi.MaxKVKeys {
			t.Errorf("%s: got %v, and %d keys", name, err, len(s.Load()))
		}
	}
}

func TestLog(t *testing.T) {
	var hits attempt.Hits
	var once attempt.Once
	hit := func(limit int) { once.Add(limit, &hits) }
	redact := strings.NewReplacer("hunter2", "[redacted]").Replace
	limits := plugin.Limits{LogLines: 3, LogBytes: 20}
	var log attempt.Log
	for _, want := range []string{"a short line", "[redacte"} {
		if log.Full(&limits, hit) {
			t.Fatal("the log is full")
		}
		line := "a short line"
		if want != line {
			line = "hunter2, and more"
		}
		if got := log.Add(line, &limits, redact, hit); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for range 2 {
		if !log.Full(&limits, hit) {
			t.Error("the log is not full")
		}
	}
	if got := hits.Counts(); len(got) != 1 || got["logBytes"] != 1 {
		t.Errorf("got %v, want that an attempt counts once", got)
	}
}

// fake is a loaded plugin.
type fake struct {
	probe.Handler
	closed bool
}

func (f *fake) Close() error {
	f.closed = true
	return nil
}

func TestRegisterAll(t *testing.T) {
	found := []plugin.Found{
		{Manifest: plugin.Minimal("a"), Path: "a.wasm"}, {Manifest: plugin.Minimal("b"), Path: "b.wasm"},
		{Manifest: plugin.Minimal("a"), Path: "other.wasm"},
	}
	var reg handlers.Registry
	second := new(fake)
	err := attempt.RegisterAll(t.Context(), &reg, found, func(_ context.Context, f plugin.Found) (*fake, error) {
		switch f.Path {
		case "b.wasm":
			return nil, errors.New("no module")
		case "other.wasm":
			return second, nil
		}
		return new(fake), nil
	})
	want := "no module (b.wasm)\n" + `handler "a" of other.wasm: the name is taken by a.wasm`
	if err == nil || err.Error() != want || len(reg.Names()) != 1 || !second.closed {
		t.Errorf("got %v, registered %v, second closed %t", err, reg.Names(), second.closed)
	}
}

func TestRegisterAllStopsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var reg handlers.Registry
	found := []plugin.Found{{Manifest: plugin.Minimal("a")}}
	err := attempt.RegisterAll(ctx, &reg, found, func(context.Context, plugin.Found) (*fake, error) { return new(fake), nil })
	if !errors.Is(err, context.Canceled) || len(reg.Names()) != 0 {
		t.Errorf("got %v, registered %v", err, reg.Names())
	}
}
