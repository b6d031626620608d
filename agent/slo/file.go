package slo

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/daeace23/prober/agent/maintenance"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/internal/statefile"
)

const fileVersion = 1

// content is the JSON of the file.
type content struct {
	Version int     `json:"version"`
	SLOs    []saved `json:"slos"`
}

// saved has the sums of an objective in the file. Each bucket is its number, and its good and bad
// microseconds.
type saved struct {
	Definition string     `json:"definition"`
	At         time.Time  `json:"at"` // until when the sums have the time
	From       time.Time  `json:"from,omitzero"`
	Until      time.Time  `json:"until,omitzero"` // the time from From until Until is still to be read from the history
	Minutes    [][3]int64 `json:"minutes"`
	Hours      [][3]int64 `json:"hours"`
}

// definition returns a text that is equal for objectives with the same name that count the same time.
func definition(s *config.SLO) string {
	text, _ := json.Marshal(map[string]any{ // cannot fail
		"name": s.Name, "match": maintenance.APIMatch(s.Match), "kinds": s.Kinds, "window": s.Window.String(), "maintenance": s.Maintenance,
	})
	return string(text)
}

func (t *Tracker) file() statefile.File {
	return statefile.File{Path: t.cfg.File, Version: fileVersion, Log: t.cfg.Log, Lost: "the sums of SLOs of an earlier agent cannot be read"}
}

// load returns the sums of the file, by definition. Errors are logged: the history has most of the time.
func (t *Tracker) load() map[string]saved {
	f, c := t.file(), content{}
	if t.cfg.File == "" || !f.Load(&c) {
		return nil
	}
	all := make(map[string]saved)
	for _, s := range c.SLOs {
		all[s.Definition] = s
	}
	return all
}

// restore sets the sums of a new objective. An agent that was killed has not saved its last minutes: they
// are read from the history.
func (s *saved) restore(o *objective) {
	if o.from = laterOf(o.from, s.At); !s.From.IsZero() {
		o.from, o.until = s.From, s.Until
	}
	to := &o.sums
	for _, r := range []struct {
		saved [][3]int64
		ring  *ring
	}{{s.Minutes, &to.minutes}, {s.Hours, &to.hours}} {
		for _, b := range r.saved {
			if at := r.ring.at(b[0]); at != nil && b[0] >= 0 && b[1] >= 0 && b[2] >= 0 {
				at.good, at.bad = b[1], b[2]
			}
		}
	}
}

// save writes the file, if there are objectives.
func (t *Tracker) save() {
	c := content{Version: fileVersion}
	t.mu.Lock()
	for _, o := range t.slos {
		s := saved{Definition: o.definition, At: o.at, Minutes: o.sums.minutes.list(), Hours: o.sums.hours.list()}
		if o.from.Before(o.until) {
			s.From, s.Until = o.from, o.until
		}
		c.SLOs = append(c.SLOs, s)
	}
	t.mu.Unlock()
	if t.cfg.File == "" || len(c.SLOs) == 0 {
		return
	}
	f := t.file()
	if err := f.Save(c); err != nil {
		t.cfg.Log.Warn("the sums of SLOs cannot be saved", "file", t.cfg.File, "error", err)
	}
}

// list returns the buckets with time, oldest first.
func (r *ring) list() (all [][3]int64) {
	buckets := slices.SortedFunc(slices.Values(r.buckets), sorted)
	for _, b := range buckets {
		if b.good+b.bad > 0 {
			all = append(all, [3]int64{b.number, b.good, b.bad})
		}
	}
	return all
}
