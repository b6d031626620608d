package notify

import (
	"log/slog"
	"sync"
	"time"

	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/internal/statefile"
	"github.com/daeace23/prober/probe"
)

const (
	stateVersion = 1
	maxState     = 256 << 20              // limit of the file, in bytes
	saveInterval = 500 * time.Millisecond // at least, between two saves: a kill may repeat the messages of this time
	retrySave    = 30 * time.Second
	// restoredWait is how long after a restart the probes of restored incidents may be missing.
	restoredWait = 2 * time.Minute
)

// savedState is the JSON of the state file.
type savedState struct {
	Version   int                       `json:"version"`
	Receivers map[string]*savedReceiver `json:"receivers"`
}

type savedReceiver struct {
	Items      []savedItem  `json:"items,omitempty"`
	Groups     []savedGroup `json:"groups,omitempty"`
	QuietUntil time.Time    `json:"quietUntil,omitzero"`
}

type savedItem struct {
	Namespace string            `json:"namespace"`
	Pod       string            `json:"pod"`
	Container string            `json:"container"`
	Kind      string            `json:"kind"`
	UID       string            `json:"uid"`
	Handler   string            `json:"handler"`
	Target    string            `json:"target,omitempty"`
	State     string            `json:"state"`
	At        time.Time         `json:"at"`
	Since     time.Time         `json:"since"`
	Reason    string            `json:"reason,omitempty"`
	Text      string            `json:"text,omitempty"`
	Removed   bool              `json:"removed,omitempty"`
	Told      string            `json:"told"`
	Owed      bool              `json:"owed,omitempty"`
	Worst     string            `json:"worst,omitempty"`
	Times     int               `json:"times,omitempty"`
	News      bool              `json:"news,omitempty"` // the receiver does not know Reason and Text
	Labels    map[string]string `json:"labels,omitempty"`
	Flapping  *savedFlapping    `json:"flapping,omitempty"`
	Held      bool              `json:"held,omitempty"`
	Released  time.Time         `json:"released,omitzero"`
}

// savedFlapping has the fields of [flapping] of a probe that flaps.
type savedFlapping struct {
	State string    `json:"state"`
	At    time.Time `json:"at"`
	Count int       `json:"count"`
	First time.Time `json:"first"`
}

type savedGroup struct {
	Name      string    `json:"name"`
	ID        string    `json:"id"`
	LastSent  time.Time `json:"lastSent,omitzero"`
	NotBefore time.Time `json:"notBefore,omitzero"`
}

// save returns the state of b for the state file.
func (b *book) save() *savedReceiver {
	s := &savedReceiver{QuietUntil: b.quietUntil}
	for it := range b.items.each() {
		s.Items = append(s.Items, savedItem{
			it.Namespace, it.Pod, it.Container, it.Kind.String(), it.uid, it.handler, it.target, it.state.String(), it.at, it.since, it.cause.Reason, it.cause.Text, it.removed,
			it.told.String(), it.owed, it.worst.String(), it.times, it.causeChanged(), it.labels, it.flapping.save(), it.held, it.released,
		})
		b.groupOf(it)
	}
	for _, g := range b.groups {
		s.Groups = append(s.Groups, savedGroup{g.name, g.id, g.lastSent, g.notBefore})
	}
	return s
}

func (f *flapping) save() *savedFlapping {
	if !f.on {
		return nil
	}
	return &savedFlapping{f.state.String(), f.at, f.count, f.first}
}

// restore fills b, which must be empty. Probes that do not exist by restoredWait end their incidents.
// Incidents that the receiver does not select any more end at once.
func (s *savedReceiver) restore(b *book, now time.Time) {
	for i := range s.Items {
		x := &s.Items[i]
		kind, err := probe.ParseKind(x.Kind)
		if err != nil {
			continue
		}
		it := &item{
			Key: Key{x.Namespace, x.Pod, x.Container, kind}, uid: x.UID, handler: x.Handler, target: x.Target, state: parseState(x.State), at: x.At, since: x.Since,
			cause: states.Cause{Reason: x.Reason, Text: x.Text}, removed: x.Removed, told: parseState(x.Told), owed: x.Owed, worst: parseState(x.Worst), times: x.Times, labels: x.Labels,
			held: x.Held, released: x.Released,
		}
		if !x.News {
			it.toldCause = it.cause
		}
		it.began = it.since
		if f := x.Flapping; f != nil {
			it.flapping = flapping{true, parseState(f.State), now, f.Count, f.First} // nothing is known about the time until now
		}
		it.maybeGone, it.check = it.state != quiet, now.Add(restoredWait)
		it.waits = b.ready(it)
		b.items.add(it)
		b.groupOf(it)
		if it.flapping.on && !b.spec.FlapDetection {
			b.settle(it, now)
		}
	}
	b.quietUntil = earliest(s.QuietUntil, now)
	for _, x := range s.Groups {
		if g := b.groups[x.Name]; g != nil {
			g.id, g.lastSent, g.notBefore = x.ID, x.LastSent, x.NotBefore
		}
	}
	b.reselect(now)
}

func parseState(word string) states.State {
	for _, s := range []states.State{states.Unknown, states.Warning, states.Failure} {
		if s.String() == word {
			return s
		}
	}
	return quiet
}

// saver writes the state file in a goroutine of its own: a slow disk delays no receiver.
type saver struct {
	file    statefile.File // without a Path: nothing is saved
	collect func() map[string]*savedReceiver
	wanted  chan struct{}

	mu     sync.Mutex
	loaded map[string]*savedReceiver
	err    error // of the last save
}

// newSaver reads the state file. An unreadable file is logged, as receivers may get messages again.
func newSaver(path string, log *slog.Logger, collect func() map[string]*savedReceiver) *saver {
	s := &saver{collect: collect, wanted: make(chan struct{}, 1)}
	s.file = statefile.File{Path: path, Version: stateVersion, Max: maxState, Sync: true, Log: log, Lost: "the state of notifications cannot be read: messages may be repeated"}
	var state savedState
	if path != "" && s.file.Load(&state) {
		s.loaded = state.Receivers
	}
	return s
}

// take returns the saved state of a receiver. A second call returns nil.
func (s *saver) take(name string) *savedReceiver {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.loaded[name]
	delete(s.loaded, name)
	return r
}

// request schedules a save. It does not block.
func (s *saver) request() { wake(s.wanted) }

// run saves on request until end is closed, and then once more.
func (s *saver) run(end <-chan struct{}) {
	for {
		select {
		case <-end:
			s.save()
			return
		case <-s.wanted:
		}
		pause := saveInterval
		if s.save() != nil {
			pause = retrySave
			s.request()
		}
		timer := time.NewTimer(pause)
		select {
		case <-end:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (s *saver) save() error {
	if s.file.Path == "" {
		return nil
	}
	err := s.file.Save(savedState{stateVersion, s.collect()})
	s.mu.Lock()
	before := s.err
	s.err = err
	s.mu.Unlock()
	switch {
	case err != nil && before == nil:
		s.file.Log.Warn("the state of notifications cannot be saved: a restart may repeat or forget messages", "err", err)
	case err == nil && before != nil:
		s.file.Log.Info("the state of notifications is saved again")
	}
	return err
}

// saved returns the state of all receivers for the state file.
func (n *Notifier) saved() map[string]*savedReceiver {
	all := make(map[string]*savedReceiver)
	for _, r := range n.receiverList() {
		r.mu.Lock()
		if r.saved != nil {
			all[r.spec.Name] = r.saved // its run has not taken it yet
		} else {
			all[r.spec.Name] = r.book.save()
		}
		r.mu.Unlock()
	}
	return all
}
