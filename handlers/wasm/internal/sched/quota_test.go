package sched

import (
	"testing"
	"time"
)

func TestQuotaKeepsHalfForPromptProbes(t *testing.T) {
	s := NewQuota(100)
	take := func(of Class) (n int) {
		for s.Acquire(of, 10) {
			n++
		}
		return n
	}
	if n := take(Slow); n != 2 {
		t.Errorf("%d slow attempts of ten each were let in, want 2: a quarter", n)
	}
	if n := take(Unknown); n != 3 {
		t.Errorf("%d untried ones beside them, want 3: a half together", n)
	}
	for range 20 {
		if !s.Acquire(Prompt, 10) {
			t.Fatal("a prompt attempt was kept out")
		}
	}
	s.Release(Slow, 10)
	if !s.Acquire(Slow, 10) || s.Acquire(Slow, 10) {
		t.Error("what was given back is not there for one more")
	}
}

// TestQuotaAdmitsOneLargeAttempt checks that a class that holds nothing may take more than its share.
func TestQuotaAdmitsOneLargeAttempt(t *testing.T) {
	s := NewQuota(100)
	if !s.Acquire(Slow, 80) || s.Acquire(Slow, 80) {
		t.Error("want one and no more")
	}
}

func TestClassOf(t *testing.T) {
	for took, want := range map[time.Duration]Class{
		time.Millisecond: Prompt, 900 * time.Millisecond: Prompt, 901 * time.Millisecond: Slow, 2 * time.Second: Slow,
	} {
		if got := ClassOf(took, time.Second); got != want {
			t.Errorf("%v of a second: got %v, want %v", took, got, want)
		}
	}
}

func TestClassNext(t *testing.T) {
	for _, tc := range []struct{ before, now, want Class }{
		{Unknown, Prompt, Prompt}, {Unknown, Slow, Slow},
		{Prompt, Prompt, Prompt}, {Prompt, Slow, Unknown},
		{Slow, Prompt, Prompt}, {Slow, Slow, Slow},
	} {
		if got := tc.before.Next(tc.now); got != tc.want {
			t.Errorf("%v then %v: got %v, want %v", tc.before, tc.now, got, tc.want)
		}
	}
}
