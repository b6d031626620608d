package watch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/internal/pace"
)

const (
	firstWait = 250 * time.Millisecond // before the first reconnection
	maxWait   = 5 * time.Second
)

// feed collects the newest change of each probe until take is called.
type feed struct {
	cfg *Config

	mu      sync.Mutex
	changes map[string]Change
	order   []string // the keys of changes, in the order of their first change
	link    Link
}

// run follows the agent until ctx ends. It connects again when the connection ends.
func (f *feed) run(ctx context.Context) {
	wait := firstWait
	for ctx.Err() == nil {
		err := f.cfg.Follow(ctx, func() { f.setLink(nil); wait = firstWait }, f.add)
		if err == nil {
			err = errors.New("the agent has closed the stream")
		}
		f.setLink(err)
		if pace.Wait(ctx, nil, wait); ctx.Err() != nil {
			return
		}
		wait = min(2*wait, maxWait)
	}
}

func (f *feed) setLink(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.link.Connected, f.link.Err = false, explain.OneLine(err.Error())
		return
	}
	f.link = Link{Connected: true, Epoch: f.link.Epoch + 1, Since: time.Now()}
}

func (f *feed) add(c Change) {
	key := id(&c.Probe)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changes == nil {
		f.changes = make(map[string]Change)
	}
	if _, known := f.changes[key]; !known {
		f.order = append(f.order, key)
	}
	f.changes[key] = c
}

// take returns the changes since the last call, and the state of the connection.
func (f *feed) take() (changes []Change, link Link) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, key := range f.order {
		changes = append(changes, f.changes[key])
	}
	f.changes, f.order = nil, nil
	return changes, f.link
}
