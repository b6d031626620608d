package endpoint

import (
	"testing"

	"github.com/daeace23/prober/core/states"
)

func TestCombine(t *testing.T) {
	const s, w, f, u = states.Success, states.Warning, states.Failure, states.Unknown
	for name, c := range map[string]struct {
		rule  Rule
		votes []states.State
		want  states.State
	}{
		"all, no checks":                          {Rule{}, nil, u},
		"all succeed":                             {Rule{}, []states.State{s, s, s}, s},
		"all, one warns":                          {Rule{}, []states.State{s, w, s}, w},
		"all, one fails":                          {Rule{}, []states.State{s, f, s}, f},
		"all, one fails beside an unknown":        {Rule{}, []states.State{u, f, s}, f},
		"all, one unknown":                        {Rule{}, []states.State{s, u, w}, u},
		"any, one succeeds beside a failure":      {Rule{Mode: Any}, []states.State{f, s, f}, s},
		"any, one succeeds beside an unknown":     {Rule{Mode: Any}, []states.State{u, s}, s},
		"any, one warns":                          {Rule{Mode: Any}, []states.State{w, f}, w},
		"any, one unknown beside failures":        {Rule{Mode: Any}, []states.State{u, f}, u},
		"any, all fail":                           {Rule{Mode: Any}, []states.State{f, f}, f},
		"2 of 3 succeed":                          {Rule{AtLeast, 2}, []states.State{s, f, s}, s},
		"2 of 3 with a warning":                   {Rule{AtLeast, 2}, []states.State{s, f, w}, w},
		"2 of 3, one success and two unknown":     {Rule{AtLeast, 2}, []states.State{s, u, u}, u},
		"2 of 3, two failures":                    {Rule{AtLeast, 2}, []states.State{f, f, u}, f},
		"1 of 3, one failure and two unknown":     {Rule{AtLeast, 1}, []states.State{f, u, u}, u},
		"2 of 3, two successes beside an unknown": {Rule{AtLeast, 2}, []states.State{s, s, u}, s},
	} {
		votes := make([]Vote, len(c.votes))
		for i, v := range c.votes {
			votes[i] = Vote{v, 1}
		}
		if got := c.rule.Combine(votes); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// naive tries every outcome of the unknown checks, and treats warnings as successes or not.
func naive(needed int, votes []Vote) states.State {
	certain := func(warningsPass bool) (passes, fails bool) {
		passes, fails = true, true
		var unknown []int
		base := 0
		for i, v := range votes {
			switch v.State {
			case states.Success:
				base += v.Weight
			case states.Warning:
				if warningsPass {
					base += v.Weight
				}
			case states.Unknown:
				unknown = append(unknown, i)
			}
		}
		for set := range 1 << len(unknown) {
			sum := base
			for k, i := range unknown {
				if set&(1<<k) != 0 {
					sum += votes[i].Weight
				}
			}
			if sum >= needed {
				fails = false
			} else {
				passes = false
			}
		}
		return passes, fails
	}
	if passes, _ := certain(false); passes {
		return states.Success
	}
	switch passes, fails := certain(true); {
	case passes:
		return states.Warning
	case fails:
		return states.Failure
	default:
		return states.Unknown
	}
}

func FuzzCombine(f *testing.F) {
	f.Add(uint8(0), uint8(0), []byte{1, 1, 3})
	f.Add(uint8(2), uint8(2), []byte{1, 0, 3, 2})
	f.Fuzz(func(t *testing.T, mode, least uint8, bytes []byte) {
		if len(bytes) == 0 || len(bytes) > 8 {
			return
		}
		var votes []Vote
		total := 0
		for _, b := range bytes {
			v := Vote{states.State(b & 3), 1 + int(b>>2&3)}
			votes, total = append(votes, v), total+v.Weight
		}
		rule := Rule{Mode: Mode(mode % 3)}
		needed := total
		switch rule.Mode {
		case Any:
			needed = 1
		case AtLeast:
			rule.Min = 1 + int(least)%total
			needed = rule.Min
		}
		if err := rule.check(total); err != nil {
			t.Fatal(err)
		}
		got := rule.Combine(votes)
		if want := naive(needed, votes); got != want {
			t.Fatalf("%+v of %v: got %v, want %v", rule, votes, got, want)
		}
		decides := false
		for _, v := range votes {
			decides = decides || v.State == got
		}
		if !decides {
			t.Fatalf("%+v of %v: no check decides %v", rule, votes, got)
		}
	})
}
