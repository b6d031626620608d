package pauses

import (
	"log/slog"
	"sync"
	"time"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/internal/statefile"
	"github.com/daeace23/prober/probe"
)

// Name identifies a probe over restarts of the agent.
type Name struct {
	Namespace string     `json:"namespace"`
	Pod       string     `json:"pod"`
	Container string     `json:"container"`
	Kind      probe.Kind `json:"kind"`
}

// record is a pause in the file.
type record struct {
	Name
	Forced string    `json:"forced,omitzero"`
	Until  time.Time `json:"until,omitzero"`
	Reason string    `json:"reason,omitzero"`
	By     string    `json:"by,omitzero"`
}

const (
	fileVersion = 1
	// keepMissing is how long after the start the file keeps the pause of a probe that does not exist.
	keepMissing = time.Hour
)

type content struct {
	Version int      `json:"version"`
	Pauses  []record `json:"pauses"`
}

// file is where a table saves its pauses.
type file struct {
	statefile.File // without a Path: none
	begun          time.Time
	mu             sync.Mutex // held while the file is written
}

// Open makes t keep its pauses in a file, and reads the file of an earlier agent. [Table.Restore] applies its
// pauses. Open must be called before all other methods. Errors are logged: pauses are lost then.
func (t *Table) Open(path string, log *slog.Logger) {
	t.file.File = statefile.File{Path: path, Version: fileVersion, Log: log, Lost: "the pauses of an earlier agent cannot be read: their probes run"}
	t.file.begun = time.Now()
	var saved content
	if t.file.Load(&saved) {
		t.saved = saved.Pauses
	}
}

// Restore applies the saved pauses of probes that exist by now. find returns the probes with a name.
func (t *Table) Restore(find func(Name) []manager.Key) {
	now := time.Now()
	for _, r := range t.takeSaved() {
		force, known := forces[r.Forced]
		if !known && r.Forced != "" || !r.Until.IsZero() && !now.Before(r.Until) {
			continue
		}
		keys := find(r.Name)
		p := Pause{Force: force, Reason: r.Reason, By: r.By, until: r.Until}
		if !p.until.IsZero() {
			p.For = p.until.Sub(now)
		}
		for _, key := range keys {
			if err := t.pause(key, p); err != nil {
				t.file.Log.Warn("a pause of an earlier agent does not apply any more", "probe", r.Name, "err", err)
			}
		}
		if len(keys) == 0 && now.Sub(t.file.begun) < keepMissing {
			t.keep(r)
		}
	}
}

func (t *Table) takeSaved() []record {
	t.mu.Lock()
	defer t.mu.Unlock()
	saved := t.saved
	t.saved = nil
	return saved
}

func (t *Table) keep(r record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.saved = append(t.saved, r)
}

// save writes the present pauses, unless t is closed.
func (t *Table) save() {
	f := &t.file
	if f.Path == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	all, ok := t.records()
	if !ok {
		return
	}
	if err := f.Save(content{fileVersion, all}); err != nil {
		f.Log.Warn("pauses cannot be saved: a restart of the agent would end them", "file", f.Path, "err", err)
	}
}

// records returns the pauses for the file; false if t is closed.
func (t *Table) records() (all []record, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all = append(all, t.saved...)
	for key, p := range t.pauses {
		s, ok := t.probes.Latest(key)
		if !ok {
			continue
		}
		all = append(all, record{
			Name: Name{s.Namespace, s.Pod, s.Container, s.Kind}, Forced: forcedWords[p.Force], Until: p.until, Reason: p.Reason, By: p.By,
		})
	}
	return all, !t.closed
}

// Word returns the API's word for a forced state: "up", "down" or "drained"; "" for any other gate.
func Word(gate worker.Gate) string { return forcedWords[gate] }

// forces are the words for forced states, and forcedWords the inverse.
var (
	forces      = map[string]worker.Gate{"up": worker.ForcedUp, "down": worker.ForcedDown, "drained": worker.Drained}
	forcedWords = map[worker.Gate]string{worker.ForcedUp: "up", worker.ForcedDown: "down", worker.Drained: "drained"}
)
