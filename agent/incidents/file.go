package incidents

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/internal/statefile"
)

const (
	// fileVersion changes with the meaning of a field, such as the numbers of classes.
	fileVersion = 1
	// maxSaved is the maximum number of parts of an incident in the file, and maxSavedParts of all. maxSavedText is
	// the maximum length of a text of a part, in bytes. So the file stays below the limit of package statefile.
	maxSaved      = 1000
	maxSavedParts = 5000
	maxSavedText  = 200
	// settle is how long after its start an agent keeps the incidents of an earlier one as they are: probes need
	// time to decide their states again.
	settle = 30 * time.Second
	// savePause is the minimum time between two writes of the file.
	savePause = time.Second
	// retrySave is the time until another write after one that has failed.
	retrySave = 30 * time.Second
)

// content is the JSON of the file.
type content struct {
	Version   int     `json:"version"`
	Incidents []saved `json:"incidents"`
}

// saved is an incident in the file.
type saved struct {
	Incident // without Parts
	Parts    []savedPart
	By       savedFeature
	Last     time.Time
	Notes    []Note `json:",omitempty"`
}

// savedFeature is a [feature] in the file.
type savedFeature struct {
	Class      class
	Name, Text string
	Addr       netip.Addr
}

// savedPart is a part in the file.
type savedPart struct {
	Part
	Present time.Time
}

// file is where a Watch keeps its incidents and notes.
type file struct {
	statefile.File // without a Path: none
	begun          time.Time
	dirty          chan struct{}
	mu             sync.Mutex // held while the file is written
	written        content
	failed         bool // the last write
}

// Open makes w keep its incidents and notes in a file, and continues the incidents of an earlier agent. It must be
// called before all other methods. Errors are logged: the incidents are lost then.
func (w *Watch) Open(path string, log *slog.Logger) {
	w.file.File = statefile.File{Path: path, Version: fileVersion, Log: log, Lost: "the incidents of an earlier agent cannot be read"}
	var c content
	if !w.file.Load(&c) {
		return
	}
	l := new(Log)
	for i := range c.Incidents {
		s := &c.Incidents[i]
		if s.ID == "" || len(s.Parts) == 0 {
			continue
		}
		n := s.Incident
		n.by, n.last = feature{s.By.Class, s.By.Name, s.By.Text, s.By.Addr}, s.Last
		n.Parts = make([]Part, 0, len(s.Parts))
		for _, p := range s.Parts {
			p.present = p.Present
			n.Parts = append(n.Parts, p.Part)
		}
		l.all = append(l.all, &n)
		if len(s.Notes) > 0 {
			w.notes[n.ID] = s.Notes
		}
	}
	if len(l.all) > 0 {
		w.file.begun = time.Now()
		w.log.Store(l)
	}
}

// Save writes the file after changes, until ctx ends, and then once more.
func (w *Watch) Save(ctx context.Context) {
	if w.file.Path == "" {
		return
	}
	defer w.save()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.file.dirty:
		}
		w.save()
		select {
		case <-ctx.Done():
			return
		case <-time.After(savePause):
		}
	}
}

// Close keeps the incidents as they are: the probes of an agent that ends do not recover. It does not wait for the
// disk, since pods are stopped after it.
func (w *Watch) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
}

// change requests a write of the file. It does not block.
func (w *Watch) change() {
	select {
	case w.file.dirty <- struct{}{}:
	default:
	}
}

func (w *Watch) save() {
	f := &w.file
	f.mu.Lock()
	defer f.mu.Unlock()
	c, left := content{Version: fileVersion}, maxSavedParts
	for _, n := range w.Log().All() {
		s := saved{Incident: *n, By: savedFeature{n.by.class, n.by.name, n.by.text, n.by.addr}, Last: n.last, Notes: w.Notes(n.ID)}
		kept := min(len(n.Parts), maxSaved)
		if !n.End.IsZero() {
			kept = min(kept, MaxOldParts)
		}
		kept = max(1, min(kept, left)) // an incident has a part
		left -= kept
		for i := range kept {
			s.Parts = append(s.Parts, n.Parts[i].saved())
		}
		s.Incident.Parts, s.First = nil, n.First.saved().Part
		c.Incidents = append(c.Incidents, s)
	}
	if reflect.DeepEqual(c, f.written) {
		return
	}
	err := f.Save(c)
	if err == nil {
		f.written, f.failed = c, false
		return
	}
	if !f.failed {
		f.Log.Warn("incidents cannot be saved: a restart of the agent would lose them", "file", f.Path, "err", err)
	}
	f.failed = true
	time.AfterFunc(retrySave, w.change)
}

// saved returns the part as it is in the file.
func (p *Part) saved() savedPart {
	short := *p
	short.Target, short.Cause.Text = clip.Text(p.Target, maxSavedText), clip.Text(p.Cause.Text, maxSavedText)
	return savedPart{short, p.present}
}

// MaxNotes is the maximum number of notes of an incident.
const MaxNotes = 20

// Note is what a person has written about an incident.
type Note struct {
	Time time.Time `json:"time"`
	By   string    `json:"by"`
	Text string    `json:"text"`
}

// Errors of [Watch.AddNote].
var (
	ErrMissing = errors.New("there is no such incident")
	ErrNotes   = fmt.Errorf("the incident has %d notes, and cannot have more", MaxNotes)
)

// AddNote adds a note to an incident.
func (w *Watch) AddNote(id string, note Note) (*Incident, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.Log().All()
	i := slices.IndexFunc(all, func(n *Incident) bool { return n.ID == id })
	switch {
	case i < 0:
		return nil, ErrMissing
	case len(w.notes[id]) >= MaxNotes:
		return nil, ErrNotes
	}
	w.notes[id] = append(slices.Clip(w.notes[id]), note)
	w.change()
	return all[i], nil
}

// Notes returns the notes of an incident, the oldest first. The caller must not change them.
func (w *Watch) Notes(id string) []Note {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.notes[id]
}

// set replaces the incidents, unless w is closed, and drops the notes of the ones that are gone.
func (w *Watch) set(l *Log) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.log.Store(l)
	for id := range w.notes {
		if !slices.ContainsFunc(l.all, func(n *Incident) bool { return n.ID == id }) {
			delete(w.notes, id)
		}
	}
	w.change()
}
