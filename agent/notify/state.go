package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/internal/ownership"
	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/probe"
)

const (
	stateVersion = 1
	maxState     = 64 << 20               // bytes of the file
	saveInterval = 500 * time.Millisecond // between two saves: a kill may repeat the messages of this time
	retrySave    = 30 * time.Second
	// restoredWait is how long the probes of restored incidents have until they must exist.
	restoredWait = 2 * time.Minute
)

// savedState is the JSON of the state file.
type savedState struct {
	Version   int                       `json:"version"`
	Receivers map[string]*savedReceiver `json:"receivers"`
}

type savedReceiver struct {
	Items  []savedItem  `json:"items,omitempty"`
	Groups []savedGroup `json:"groups,omitempty"`
}

type savedItem struct {
	Namespace string    `json:"namespace"`
	Pod       string    `json:"pod"`
	Container string    `json:"container"`
	Kind      string    `json:"kind"`
	UID       string    `json:"uid"`
	Handler   string    `json:"handler"`
	Target    string    `json:"target,omitempty"`
	State     string    `json:"state"`
	At        time.Time `json:"at"`
	Since     time.Time `json:"since"`
	Reason    string    `json:"reason,omitempty"`
	Text      string    `json:"text,omitempty"`
	Removed   bool      `json:"removed,omitempty"`
	Told      string    `json:"told"`
	Owed      bool      `json:"owed,omitempty"`
	Worst     string    `json:"worst,omitempty"`
	Times     int       `json:"times,omitempty"`
	News      bool      `json:"news,omitempty"` // the receiver does not know Reason and Text
}

type savedGroup struct {
	Name      string    `json:"name"`
	ID        string    `json:"id"`
	LastSent  time.Time `json:"lastSent,omitzero"`
	NotBefore time.Time `json:"notBefore,omitzero"`
}

// save returns what is in b.
func (b *book) save() *savedReceiver {
	s := &savedReceiver{}
	for _, it := range b.items {
		s.Items = append(s.Items, savedItem{
			it.Namespace, it.Pod, it.Container, it.Kind.String(), it.uid, it.handler, it.target, it.state.String(), it.at, it.since, it.cause.Reason, it.cause.Text, it.removed,
			it.told.String(), it.owed, it.worst.String(), it.times, it.news(),
		})
		b.group(it)
	}
	for _, g := range b.groups {
		s.Groups = append(s.Groups, savedGroup{g.name, g.id, g.lastSent, g.notBefore})
	}
	return s
}

// restore fills b, which is empty. Nothing that is known of the probes is newer, but their probes may be
// gone. What the receiver is not told of any more ends.
func (s *savedReceiver) restore(b *book, now time.Time) {
	for i := range s.Items {
		x := &s.Items[i]
		kind, err := probe.ParseKind(x.Kind)
		if err != nil {
			continue
		}
		it := &item{
			Key: Key{x.Namespace, x.Pod, x.Container, kind}, uid: x.UID, handler: x.Handler, target: x.Target, state: parseState(x.State), at: x.At, since: x.Since,
			cause: states.Cause{Reason: x.Reason, Text: x.Text}, removed: x.Removed, told: parseState(x.Told), owed: x.Owed, worst: parseState(x.Worst), times: x.Times,
		}
		if !x.News {
			it.knows = it.cause
		}
		it.unsure, it.check = it.state != quiet, now.Add(restoredWait)
		it.waits = b.ready(it)
		b.items[it.Key] = it
		b.group(it)
	}
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

// saver writes the state file, in a goroutine of its own: a slow disk delays no receiver.
type saver struct {
	path    string // "": nothing is saved
	log     *slog.Logger
	collect func() map[string]*savedReceiver
	wanted  chan struct{}

	mu     sync.Mutex
	loaded map[string]*savedReceiver
	err    error // of the last save
}

// newSaver reads the state file. One that cannot be read is logged: receivers may be told again.
func newSaver(path string, log *slog.Logger, collect func() map[string]*savedReceiver) *saver {
	s := &saver{path: path, log: log, collect: collect, wanted: make(chan struct{}, 1)}
	if path == "" {
		return s
	}
	data, err := readState(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s
	}
	var state savedState
	if err == nil {
		err = json.Unmarshal(data, &state)
	}
	if err == nil && state.Version != stateVersion {
		err = fmt.Errorf("version %d is not known", state.Version)
	}
	if err != nil {
		log.Warn("the state of notifications cannot be read: receivers may be told again", "file", path, "err", err)
		return s
	}
	s.loaded = state.Receivers
	return s
}

func readState(path string) ([]byte, error) {
	f, err := ownership.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return regular.ReadAll(f, path, maxState)
}

// take returns what an earlier agent has saved of a receiver, once.
func (s *saver) take(name string) *savedReceiver {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.loaded[name]
	delete(s.loaded, name)
	return r
}

// request has the state saved soon. It does not block.
func (s *saver) request() { wake(s.wanted) }

// run saves on request until end is closed, and once more then.
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
	if s.path == "" {
		return nil
	}
	data, err := json.Marshal(savedState{stateVersion, s.collect()})
	if err == nil {
		err = regular.Replace(s.path, 0o600, func(f *os.File) error {
			_, err := f.Write(data)
			return errors.Join(err, f.Sync())
		})
	}
	s.mu.Lock()
	before := s.err
	s.err = err
	s.mu.Unlock()
	switch {
	case err != nil && before == nil:
		s.log.Warn("the state of notifications cannot be saved: a restart may repeat or forget messages", "err", err)
	case err == nil && before != nil:
		s.log.Info("the state of notifications is saved again")
	}
	return err
}

// saved returns the books of all receivers.
func (n *Notifier) saved() map[string]*savedReceiver {
	all := make(map[string]*savedReceiver)
	for _, r := range n.current() {
		r.mu.Lock()
		if r.saved != nil {
			all[r.spec.Name] = r.saved // it was not started yet
		} else {
			all[r.spec.Name] = r.book.save()
		}
		r.mu.Unlock()
	}
	return all
}
