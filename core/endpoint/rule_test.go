package endpoint

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/daeace23/prober/core/states"
)

func TestCombine(t *testing.T) {
	const s, w, f, u = states.Success, states.Warning, states.Failure, states.Unknown
	for name, c := range map[string]struct {
		rule  Rule
		parts []states.State
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
		parts := make([]Part, len(c.parts))
		for i, state := range c.parts {
			parts[i].State = state
		}
		if got := c.rule.Decide(parts).State; got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestDecideTooFewParts(t *testing.T) {
	const want = "checks with the weight 3 must pass, and all checks have the weight 2"
	rule := Rule{Mode: AtLeast, Min: 3}
	for _, c := range []struct {
		second Part
		reason string
	}{
		{Part{Name: "b", State: states.Success}, want},
		{Part{Name: "b"}, want},
		{Part{Name: "b", State: states.Failure, Text: "refused"}, want + "; 1 of 2 checks fail: b: refused"},
		{Part{Name: "b", State: states.Failure, Text: strings.Repeat("x", 2*states.MaxText)}, ""},
	} {
		d := rule.Decide([]Part{{Name: "a", State: states.Success}, c.second})
		if d.State != states.Failure || c.reason != "" && d.Reason != c.reason || len(d.Reason) > states.MaxText {
			t.Errorf("%+v: got %v: %s, want a failure: %s", c.second, d.State, d.Reason, c.reason)
		}
	}
}

// naive tries every outcome of the unknown checks, and treats warnings as successes or not.
func naive(needed int, parts []Part) states.State {
	certain := func(warningsPass bool) (passes, fails bool) {
		passes, fails = true, true
		var unknown []int
		base := 0
		for i, v := range parts {
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
					sum += parts[i].Weight
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
		var parts []Part
		total := 0
		for i, b := range bytes {
			p := Part{Name: string(rune('a' + i)), State: states.State(b & 3), Weight: 1 + int(b>>2&3)}
			parts, total = append(parts, p), total+p.Weight
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
		if err := rule.Check(total); err != nil {
			t.Fatal(err)
		}
		got := rule.Decide(parts)
		if want := naive(needed, parts); got.State != want {
			t.Fatalf("%+v of %v: got %v, want %v", rule, parts, got.State, want)
		}
		var decide []string
		for _, p := range parts {
			if p.State == got.State {
				decide = append(decide, p.Name)
			}
		}
		if len(decide) == 0 {
			t.Fatalf("%+v of %v: no part decides %v", rule, parts, got.State)
		}
		if got.State == states.Success {
			decide = nil
		}
		if !slices.Equal(got.Deciding, decide) || (got.Reason == "") != (decide == nil) {
			t.Fatalf("%+v of %v: %v decide (%s), want %v", rule, parts, got.Deciding, got.Reason, decide)
		}
	})
}

func TestReasonNamesDecidingParts(t *testing.T) {
	part := func(name string, s states.State, text string) Part { return Part{Name: name, State: s, Text: text} }
	for want, parts := range map[string][]Part{
		"":                                  {part("a", states.Success, "")},
		"a: timeout":                        {part("a", states.Failure, "timeout")},
		"a":                                 {part("a", states.Unknown, "")},
		"1 of 2 checks warn: b: slow":       {part("a", states.Success, ""), part("b", states.Warning, "slow")},
		"2 of 3 checks fail: a: refused; c": {part("a", states.Failure, "refused"), part("b", states.Unknown, "?"), part("c", states.Failure, "")},
		"6 of 7 checks are unknown: a; b; c; d; e; and 1 more": {
			part("a", states.Unknown, ""), part("b", states.Unknown, ""), part("w", states.Success, ""), part("c", states.Unknown, ""),
			part("d", states.Unknown, ""), part("e", states.Unknown, ""), part("f", states.Unknown, ""),
		},
	} {
		if got := (Rule{}).Decide(parts).Reason; got != want {
			t.Errorf("got the reason %q, want %q", got, want)
		}
	}
	if d := (Rule{}).Decide(nil); d.State != states.Unknown || d.Reason != "" {
		t.Errorf("no parts are %+v", d)
	}
}

func TestReasonIsBounded(t *testing.T) {
	long := strings.Repeat("é", states.MaxText)
	for n := 1; n <= MaxChecks; n++ {
		var parts []Part
		for i := range n {
			parts = append(parts, Part{Name: fmt.Sprintf("check%02d", i), State: states.Failure, Text: long})
		}
		d := Rule{}.Decide(parts)
		if len(d.Reason) > states.MaxText || len(d.Reason) < states.MaxText-50 || !utf8.ValidString(d.Reason) || len(d.Deciding) != n {
			t.Errorf("%d checks: %d bytes, %d deciding: %s", n, len(d.Reason), len(d.Deciding), d.Reason)
		}
		for i := range min(n, 5) {
			if !strings.Contains(d.Reason, parts[i].Name+": é") {
				t.Errorf("%d checks: the reason lacks %s: %s", n, parts[i].Name, d.Reason)
			}
		}
		if n > 5 && !strings.HasSuffix(d.Reason, fmt.Sprintf("; and %d more", n-5)) {
			t.Errorf("%d checks: %s", n, d.Reason)
		}
	}
	for i := range 2 {
		huge := []Part{{Name: long, State: states.Failure}, {Name: "b", State: states.Failure}}[:i+1]
		if d := (Rule{}).Decide(huge); len(d.Reason) > states.MaxText {
			t.Errorf("a long name makes a reason of %d bytes", len(d.Reason))
		}
	}
}
