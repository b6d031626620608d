package endpoint

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/probe"
)

// A subscriber knows the state, the reason and the deciding checks of each endpoint that [Set.Status] tells,
// and reads no change twice, over random lives of endpoints that depend on each other.
func TestSubscriberKnowsWhatStatusTells(t *testing.T) {
	keys := []string{"page", "shop", "database"}
	for seed := range uint64(40) {
		bubble(t, Config{}, func(t *testing.T, s *Set[string]) {
			r := rand.New(rand.NewPCG(seed, 0))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			last, reads := make(map[string]Change[string]), 0
			go func() {
				for c := range s.Subscribe(ctx) {
					if old, ok := last[c.Key]; ok && !old.Removed && c.From != old.To {
						t.Errorf("seed %d: a change of %s from %v, and the reader knows %v", seed, c.Key, c.From, old.To)
					}
					last[c.Key] = c
					reads++
				}
			}()
			for step := range 200 {
				before, told := make(map[string]string), reads
				for _, key := range keys {
					before[key] = said(s, key)
				}
				liveOneStep(t, r, s, keys)
				synctest.Wait()
				for _, key := range keys {
					st, ok := s.Status(key)
					c := last[key]
					byChecks := st.Forced == nil && !strings.HasPrefix(st.Reason, "depends on ")
					if c.Removed == ok && c.Key != "" || ok && (c.To != st.State || c.Reason != st.Reason || c.Usable != st.Usable || byChecks && !slices.Equal(c.Deciding, st.Deciding)) {
						t.Fatalf("seed %d, step %d: the reader knows %+v, and the status is %+v", seed, step, c, st)
					}
					if said(s, key) != before[key] {
						told++
					}
				}
				if reads > told+1 { // a Put of an equal endpoint may be a change
					t.Fatalf("seed %d, step %d: %d changes were read, and %d endpoints changed", seed, step, reads, told)
				}
			}
		})
	}
}

// said returns what a change tells of an endpoint.
func said(s *Set[string], key string) string {
	st, ok := s.Status(key)
	return fmt.Sprint(ok, st.State, st.Reason, st.Usable)
}

// liveOneStep makes one random change of one endpoint.
func liveOneStep(t *testing.T, r *rand.Rand, s *Set[string], keys []string) {
	n := r.IntN(len(keys))
	key := keys[n]
	if _, ok := s.Status(key); !ok || r.IntN(20) == 0 {
		e := Endpoint[string]{Checks: pushed("a", "b", "c", "d", "e", "f", "g")[:1+r.IntN(7)], DependsOn: keys[n+1:]}
		e.Initial = []states.State{states.Unknown, states.Success, states.Failure}[r.IntN(3)]
		switch r.IntN(3) {
		case 0:
			e.Rule = Rule{Mode: Any}
		case 1:
			e.Rule = Rule{AtLeast, 1 + r.IntN(len(e.Checks))}
		}
		put(t, s, key, e)
		return
	}
	switch st, _ := s.Status(key); r.IntN(12) {
	case 0:
		if err := s.Remove(key); err != nil {
			t.Fatal(err)
		}
	case 1:
		if err := s.Force(key, Forced{Mode: ForcedMode(1 + r.IntN(3)), Why: fmt.Sprint(r.IntN(2))}); err != nil {
			t.Fatal(err)
		}
	case 2, 3:
		if err := s.Release(key); err != nil {
			t.Fatal(err)
		}
	default:
		o := probe.Outcome{Result: []probe.Result{probe.Success, probe.Warning, probe.Failure}[r.IntN(3)], Output: []string{"", "refused", "503"}[r.IntN(3)]}
		if err := s.Report(key, st.Checks[r.IntN(len(st.Checks))].Name, o); err != nil {
			t.Fatal(err)
		}
	}
}
