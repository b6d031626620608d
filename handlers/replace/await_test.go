package replace_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/daeace23/prober/handlers/replace"
	"github.com/daeace23/prober/probe"
)

// TestAwait checks probes that are bound before there is a handler. They return an error, and then use
// the first handler. A probe whose config the handler refuses does not affect other probes.
func TestAwait(t *testing.T) {
	h := replace.New(replace.Config{Name: "demo"})
	defer h.Close()
	if _, err := h.Prepare(nil, probe.Target{}); err == nil {
		t.Error("a probe is bound, though nothing is awaited")
	}
	away, other := errors.New("its registry is away"), errors.New("its registry answered 503")
	wantError := func(p probe.Handler, want string) {
		t.Helper()
		if _, err := p.Probe(t.Context(), probe.Request{}); err == nil || !strings.Contains(err.Error(), want) || probe.ReasonOf(err) != probe.ReasonInstantiate {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	h.Await(away)
	good, bad, gone := prepareProbe(t, h, `{"a":1}`), prepareProbe(t, h, `{"bad":1}`), prepareProbe(t, h, `{}`)
	if err := probe.CheckSecrets(good, []string{"password"}); err != nil {
		t.Errorf("secrets: %v", err)
	}
	if got := probe.Describe(good, "demo", &probe.Request{}); got == "" {
		t.Error("no description")
	}
	probe.SecretsOf(good)
	wantError(good, away.Error())
	h.Await(other)
	wantError(good, other.Error())
	probe.Release(gone)
	if h.Live() != 2 {
		t.Errorf("%d probes are live", h.Live())
	}
	for number := 1; number <= 2; number++ {
		if err := h.Replace(t.Context(), &version{number: number, refuses: "bad"}); err != nil {
			t.Fatal(err)
		}
		wantError(bad, `config {"bad":1} is refused`)
	}
	wantAnswer(t, good, `v2 {"a":1} 1`)
	if _, err := h.Prepare([]byte(`{"bad":1}`), probe.Target{}); err == nil {
		t.Error("a config that is refused is bound")
	}
	if err := h.Replace(t.Context(), &version{number: 3}); err != nil {
		t.Fatal(err)
	}
	wantAnswer(t, bad, `v3 {"bad":1} 1`)
	h.Await(away) // no effect, because there is a handler
	wantAnswer(t, good, `v3 {"a":1} 2`)
	h.Withdraw(away)
	if _, err := h.Prepare(nil, probe.Target{}); !errors.Is(err, away) {
		t.Errorf("a probe is bound to what was withdrawn: %v", err)
	}
}
