package states

import (
	"sync"
	"time"

	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// Current is the state of a probe, and when it began. The zero value is that of a probe that has had
// no other state than [Unknown].
type Current struct {
	State State
	Since time.Time
}

// key identifies a probe.
type key struct {
	podUID, container string
	kind              probe.Kind
}

func keyOf(i *worker.Info) key { return key{i.PodUID, i.Container, i.Kind} }

// currents has the state of each probe that has changed it. The zero value is empty.
type currents struct {
	mu    sync.RWMutex
	known map[key]entry
}

// entry is a state, and whose it is: a probe that is replaced is there beside its successor for a while.
type entry struct {
	Current
	of *tracked
}

func (c *currents) set(p *tracked) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = make(map[key]entry)
	}
	c.known[keyOf(&p.info)] = entry{Current{p.state, p.since}, p}
}

func (c *currents) forget(p *tracked) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := keyOf(&p.info); c.known[k].of == p {
		delete(c.known, k)
	}
}

// Of returns the state of the probe of a container. It waits for no tick.
func (t *Tracker) Of(podUID, container string, kind probe.Kind) Current {
	t.currents.mu.RLock()
	defer t.currents.mu.RUnlock()
	return t.currents.known[key{podUID, container, kind}].Current
}
