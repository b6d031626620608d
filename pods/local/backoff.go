package local

import "time"

// backoff is the crash back-off of one container. The zero value is one that has
// never been restarted.
type backoff struct {
	pause time.Duration // 0: the first restart is free
	last  time.Time     // of the last restart
}

// until returns when a container that ended at ended may start again; the zero time
// is at once.
func (b *backoff) until(ended time.Time) time.Time {
	if b.pause == 0 || ended.IsZero() || b.expired(ended) {
		return time.Time{}
	}
	return ended.Add(b.pause)
}

// next counts a restart of a container that ended at ended.
func (b *backoff) next(now, ended time.Time, base time.Duration) {
	if b.pause == 0 || b.expired(ended) {
		b.pause = base
	} else {
		b.pause = min(2*b.pause, max(base, maxRestartBackoff))
	}
	b.last = now
}

// expired reports whether the container ran long enough after its last restart.
func (b *backoff) expired(ended time.Time) bool { return ended.Sub(b.last) > restartBackoffReset }
