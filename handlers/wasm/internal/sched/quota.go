package sched

import (
	"sync"
	"time"
)

// Class is the history class of a probe. It predicts how long the next attempt takes.
type Class int32

const (
	Unknown Class = iota // no attempt has ended yet, or a slow one followed a prompt one
	Prompt               // the last attempt ended in good time
	Slow                 // the last attempt took nearly all of its timeout, and the one before was not prompt
)

// ClassOf returns the class of an attempt: Slow if it took more than nine tenths of its timeout.
func ClassOf(took, timeout time.Duration) Class {
	if took > timeout-timeout/10 {
		return Slow
	}
	return Prompt
}

// Next returns the class of a probe of class c after an attempt of class now. A prompt probe becomes
// Unknown after one slow attempt, because the delay may be the fault of this host.
func (c Class) Next(now Class) Class {
	if c == Prompt && now == Slow {
		return Unknown
	}
	return now
}

// Quota reserves a part of a total for prompt probes, so that attempts that wait for unresponsive
// targets cannot take everything. Slow probes get a quarter at most, unknown ones a half, and both
// together a half. A total of 0 means no bound.
type Quota struct {
	mu    sync.Mutex
	total uint64
	taken [Slow + 1]uint64 // by class; Prompt is not counted
}

// NewQuota returns a quota of total.
func NewQuota(total uint64) *Quota { return &Quota{total: total} }

// Acquire takes n for an attempt of class c, and reports whether there was room. A class that holds
// nothing always has room.
func (q *Quota) Acquire(c Class, n uint64) bool {
	if c == Prompt {
		return true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.total == 0 {
		return true
	}
	taken := q.taken[c] + n
	if q.taken[c] > 0 && (taken > q.limitLocked(c) || q.taken[Unknown]+q.taken[Slow]+n > q.total/2) {
		return false
	}
	q.taken[c] = taken
	return true
}

// limitLocked returns how much all attempts of a class may take.
func (q *Quota) limitLocked(c Class) uint64 {
	if c == Slow {
		return q.total / 4
	}
	return q.total / 2
}

// Release returns n to the quota.
func (q *Quota) Release(c Class, n uint64) { q.Adjust(c, n, 0) }

// Adjust changes the amount that an attempt of class c holds, even if there is no room.
func (q *Quota) Adjust(c Class, from, to uint64) {
	if c == Prompt {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.total > 0 {
		q.taken[c] += to - from
	}
}

// Resize changes the total. Neither the old nor the new one may be 0.
func (q *Quota) Resize(total uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.total = total
}
