package sched

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func always() bool { return true }

func TestSlotsAddOneWhenNoneIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(1, always)
		if !s.Acquire(t.Context()) {
			t.Fatal("the first slot was not free")
		}
		start := time.Now()
		got := make(chan time.Duration)
		for range 2 {
			go func() {
				s.Acquire(t.Context())
				got <- time.Since(start)
				s.Release()
			}()
		}
		// The holder never releases its slot. After Patience, one of the two waiters adds a slot. It
		// hands the slot over to the other when it is done.
		for range 2 {
			if waited := <-got; waited != Patience {
				t.Errorf("waited for %v, want %v", waited, Patience)
			}
		}
		synctest.Wait()
		s.Release()
		if !s.TryAcquire() || s.TryAcquire() {
			t.Error("want one free slot as at first")
		}
	})
}

func TestSlotsAddNoneWithoutPermission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(0, func() bool { return false })
		ctx, cancel := context.WithTimeout(t.Context(), 10*Patience)
		defer cancel()
		if s.Acquire(ctx) {
			t.Error("a slot was added")
		}
	})
}

func TestSlotsAcquireEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(1, always)
		s.Acquire(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), Patience/2)
		defer cancel()
		if s.Acquire(ctx) {
			t.Error("got a slot that is taken")
		}
		s.Release()
		if !s.TryAcquire() || s.TryAcquire() {
			t.Error("want one free slot")
		}
	})
}

func TestSlotsAreHandedOverInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots(1, func() bool { return false })
		s.Acquire(t.Context())
		order := make(chan int, 3)
		for i := range 3 {
			go func() {
				s.Acquire(t.Context())
				order <- i
				s.Release()
			}()
			synctest.Wait()
		}
		s.Release()
		for want := range 3 {
			if got := <-order; got != want {
				t.Errorf("number %d came when it was the turn of %d", got, want)
			}
		}
	})
}
