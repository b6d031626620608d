package maintenance

import (
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/internal/statefile"
	"github.com/daeace23/prober/internal/window"
)

const fileVersion = 1

// content is the JSON of the file.
type content struct {
	Version int     `json:"version"`
	Windows []saved `json:"windows"`
}

// saved is a window in the file.
type saved struct {
	Name   string            `json:"name"`
	Match  []api.ProbeMatch  `json:"match,omitempty"`
	From   time.Time         `json:"from"`
	Until  time.Time         `json:"until"`
	Reason string            `json:"reason,omitzero"`
	Uptime config.UptimeRule `json:"uptime"`
	By     string            `json:"by"`
	Only   []string          `json:"receivers,omitempty"`
}

// file is where a table saves the windows of clients.
type file struct {
	statefile.File            // without a Path: none
	mu             sync.Mutex // held while the file is written
}

// Open makes t save the windows of clients in a file, and adds the windows of the file that are not over. It
// must be called before all other methods. Errors are logged: the windows are lost then.
func (t *Table) Open(path string) {
	defer t.finish()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.file.File = statefile.File{Path: path, Version: fileVersion, Log: t.cfg.Log, Lost: "the maintenance windows of an earlier agent cannot be read: they have ended"}
	var c content
	if !t.file.Load(&c) {
		return
	}
	for i := range c.Windows {
		w, err := c.Windows[i].window()
		if err != nil {
			t.cfg.Log.Warn("a maintenance window of an earlier agent cannot be used: it has ended", "name", c.Windows[i].Name, "err", err)
			continue
		}
		t.addLocked(&entry{Window: w})
	}
	t.stepLocked(make(map[*tracked]struct{}))
}

// window returns the window of an entry of the file.
func (s *saved) window() (w Window, err error) {
	w = Window{Maintenance: config.Maintenance{Name: s.Name, Reason: s.Reason, Uptime: s.Uptime}, By: s.By, Receivers: s.Only}
	if s.By == "" {
		return w, errors.New("it has no author")
	}
	if w.Match, err = ParseMatch(s.Match); err != nil {
		return w, err
	}
	w.Window, err = window.Once(s.From, s.Until)
	return w, err
}

// ParseMatch converts entries of the API.
func ParseMatch(entries []api.ProbeMatch) ([]config.ProbeMatch, error) {
	text, err := json.Marshal(entries)
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	return config.ParseMatch("maintenance", text)
}

// APIMatch converts entries to their type of the API.
func APIMatch(entries []config.ProbeMatch) (all []api.ProbeMatch) {
	for _, m := range entries {
		x := api.ProbeMatch{Namespace: m.Namespace, Pod: m.Pod, Container: m.Container, Kind: m.Kind, Handler: m.Handler}
		if m.Labels != nil {
			x.Labels = m.Labels.String()
		}
		all = append(all, x)
	}
	return all
}

// save writes the windows of clients, unless t is closed.
func (t *Table) save() {
	f := &t.file
	if f.Path == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	all, ok := t.byClients()
	if !ok {
		return
	}
	c := content{Version: fileVersion}
	for i := range all {
		w := &all[i]
		from, until := w.Window.Next(time.Time{})
		c.Windows = append(c.Windows, saved{w.Name, APIMatch(w.Match), from, until, w.Reason, w.Uptime, w.By, w.Receivers})
	}
	if err := f.Save(c); err != nil {
		t.cfg.Log.Warn("maintenance windows cannot be saved: a restart of the agent would end them", "file", f.Path, "err", err)
	}
}
