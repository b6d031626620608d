package endpoint

import (
	"math"
	"time"
)

// Passive is a check of the outcomes of real traffic, which the caller reports with [Set.Observe]. While the
// traffic fails, the endpoint is ejected: the check fails. It succeeds again after a time, as in Envoy's
// outlier detection.
type Passive struct {
	// Consecutive is the number of failures in a row that ejects; 0 means no such limit.
	Consecutive int
	// Ratio ejects when so large a share of the outcomes within Window fail, of at least Least outcomes.
	Ratio  float64
	Window time.Duration
	Least  int
	// Base is the time of the first ejection; each further one lasts that much longer, up to Longest. A time
	// without an ejection as long as one makes the next one shorter again. 0 means 30 s and 300 s.
	Base, Longest time.Duration
	// UntilCheck ends an ejection when another check of the endpoint, which is a Probe, has succeeded in a
	// tick that began after it, and not before.
	UntilCheck string
}

func (p *Passive) check() (problem string) {
	switch {
	case p == nil:
		return ""
	case p.Consecutive < 0 || p.Least < 0 || p.Base < 0 || p.Longest < 0:
		return "Consecutive, Least, Base and Longest must not be negative"
	case p.Consecutive == 0 && p.Ratio == 0:
		return "Consecutive or Ratio must be set"
	case !(p.Ratio >= 0 && p.Ratio <= 1):
		return "Ratio must be from 0 to 1"
	case (p.Ratio > 0) != (p.Window > 0):
		return "Ratio and Window must be set together"
	}
	return ""
}

// Pool bounds the ejections among the endpoints that name it.
type Pool struct {
	// MaxEjected is the largest share that is ejected at one time; one endpoint always may be. 0 means 0.1.
	MaxEjected float64
	// Panic is the share of usable endpoints below which [Set.Usable] returns all of them, since their health
	// can no longer be trusted. 0 means 0.5, and a negative share never.
	Panic float64
}

// pool is a pool of a set, whose mu guards it. A nil pool has no bounds.
type pool struct {
	Pool
	size, ejected int
}

// allowsEjection reports whether one more ejection is allowed.
func (p *pool) allowsEjection() bool {
	return p == nil || p.ejected+1 <= max(1, int(math.Floor(p.MaxEjected*float64(p.size)+1e-9)))
}

func (p *pool) countEjected(by int) {
	if p != nil {
		p.ejected += by
	}
}

// slots are the parts of Window in which outcomes are counted.
const slots = 10

// traffic has the outcomes of a passive check.
type traffic struct {
	cfg      Passive
	run      int // failures in a row
	ejected  time.Time
	until    time.Time // end of the ejection, unless it waits for a check; zero while there is none
	times    int       // length of the next ejection, in Base
	calm     time.Time // end of the last ejection
	start    time.Time // of the slot at index now
	now      int
	good     [slots]uint32
	bad      [slots]uint32
	overflow uint64 // ejections that the pool did not allow
}

// add counts an outcome. It reports whether the endpoint must be ejected.
func (t *traffic) add(ok bool, at time.Time) bool {
	p := &t.cfg
	if ok {
		t.run = 0
	} else {
		t.run++
	}
	if p.Ratio > 0 {
		t.advance(p.Window/slots, at)
		if ok {
			t.good[t.now]++
		} else {
			t.bad[t.now]++
		}
	}
	if ok {
		return false
	}
	if p.Consecutive > 0 && t.run >= p.Consecutive {
		return true
	}
	if p.Ratio == 0 {
		return false
	}
	var good, bad uint32
	for i := range slots {
		good, bad = good+t.good[i], bad+t.bad[i]
	}
	all := good + bad
	return int(all) >= p.Least && float64(bad) >= p.Ratio*float64(all)
}

// advance makes now the slot of a time.
func (t *traffic) advance(width time.Duration, at time.Time) {
	if t.start.IsZero() || at.Sub(t.start) >= slots*width {
		t.good, t.bad, t.start = [slots]uint32{}, [slots]uint32{}, at
		return
	}
	for at.Sub(t.start) >= width {
		t.now, t.start = (t.now+1)%slots, t.start.Add(width)
		t.good[t.now], t.bad[t.now] = 0, 0
	}
}

// eject begins an ejection.
func (t *traffic) eject(at time.Time) {
	base, longest := t.cfg.Base, t.cfg.Longest
	if base == 0 {
		base = 30 * time.Second
	}
	if longest == 0 {
		longest = 10 * base
	}
	if !t.calm.IsZero() {
		t.times = max(0, t.times-int(at.Sub(t.calm)/base))
	}
	t.times++
	length := min(time.Duration(t.times)*base, max(longest, base))
	t.times = int(length / base)
	t.ejected, t.until = at, at.Add(length)
	t.forget()
}

func (t *traffic) isEjected() bool { return !t.ejected.IsZero() }

// ends returns when the ejection ends by itself; the zero time without one, and while it waits for a check.
func (t *traffic) ends() time.Time {
	if t.cfg.UntilCheck != "" {
		return time.Time{}
	}
	return t.until
}

// restore ends an ejection.
func (t *traffic) restore(at time.Time) {
	t.ejected, t.until, t.calm = time.Time{}, time.Time{}, at
	t.forget()
}

func (t *traffic) forget() {
	t.run, t.good, t.bad = 0, [slots]uint32{}, [slots]uint32{}
}
