package targets

import (
	"context"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daeace23/prober/config"
)

// sourceSpec is one source of a group. Sources with the same key are the same.
type sourceSpec struct {
	label  string        // such as "file sd/*.json"; nothing secret is in it
	key    string        // of a group's source; "" for static
	every  time.Duration // between two requests; 0 for files, which are looked at like manifests
	static []found
	open   func(cfg *Config) get
}

// get returns what a source lists, or an error. Without now, it may return the last list again if it
// is too early to look again.
type get func(ctx context.Context, now bool) ([]found, error)

// specsOf returns the sources of a group.
func specsOf(file string, c *config.TargetGroup) (specs []sourceSpec) {
	if len(c.Static) > 0 {
		s := sourceSpec{label: "static"}
		for _, a := range c.Static {
			s.static = append(s.static, found{address: a.Text, file: file, line: a.Line})
		}
		specs = append(specs, s)
	}
	add := func(kind, label string, every time.Duration, spec any, open func(*Config) get) {
		definition, _ := json.Marshal(spec) // strings and numbers can be encoded
		specs = append(specs, sourceSpec{
			label: kind + " " + label, every: every, open: open,
			key: strings.Join([]string{c.Name, kind, string(definition)}, "\x00"),
		})
	}
	for _, pattern := range c.Files {
		path := config.Beside(file, pattern)
		add("file", pattern, 0, path, func(*Config) get { return (&files{pattern: filepath.Clean(path)}).get })
	}
	for _, h := range c.HTTP {
		if h.BearerTokenFile != "" {
			h.BearerTokenFile = config.Beside(file, h.BearerTokenFile)
		}
		add("http", publicURL(h.URL), h.Refresh, h, func(*Config) get { return newService(h).get })
	}
	for _, d := range c.DNS {
		add("dns", d.SRV, d.Refresh, d, func(*Config) get { return newRecords(d).get })
	}
	for _, run := range c.Commands {
		add("command", run.Run[0], run.Refresh, run, func(cfg *Config) get { return (&command{spec: run, mark: cfg.Mark}).get })
	}
	return specs
}

// fetcher asks one source of a group, and keeps its last good list.
type fetcher struct {
	spec  sourceSpec
	group string
	get   get
	asks  chan chan struct{} // requests to run, which closes what it gets

	mu       sync.Mutex
	items    []found
	failures uint64
	err      error
	at       time.Time // of the last success
	asked    bool
	logged   time.Time // when an error was logged last
}

// logEvery is the time after which another error of a source that fails already is logged.
const logEvery = time.Minute

// refresh asks the source, and reports whether its list has changed. It is for one goroutine at a time:
// that of run, once it is started.
func (f *fetcher) refresh(ctx context.Context, cfg *Config, now bool) (changed bool) {
	items, err := f.get(ctx, now)
	if ctx.Err() != nil && context.Cause(ctx) == context.Canceled {
		return false // the agent ends, or the source is no longer used
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.err
	f.err, f.asked = short(err), true
	if err != nil {
		f.failures++
	} else {
		f.at = time.Now()
	}
	switch {
	case f.err != nil && (before == nil || before.Error() != f.err.Error() && time.Since(f.logged) >= logEvery):
		f.logged = time.Now()
		cfg.Logger.Warn("targets cannot be refreshed; the last good list is kept", "group", f.group, "source", f.spec.label, "error", f.err.Error())
	case f.err == nil && before != nil:
		cfg.Logger.Info("targets can be refreshed again", "group", f.group, "source", f.spec.label)
	}
	if err != nil && f.spec.every > 0 || sameList(f.items, items) { // the list of files has the last good one of each
		return false
	}
	f.items = items
	return true
}

// sameList reports whether two lists are equal. Mostly they are the same one: a list that has not
// changed is not made again.
func sameList(a, b []found) bool {
	if len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) {
		return true
	}
	return slices.EqualFunc(a, b, sameFound)
}

func sameFound(a, b found) bool {
	return a.address == b.address && a.file == b.file && a.line == b.line && maps.Equal(a.labels, b.labels)
}

// run refreshes the list until ctx ends, and calls changed when it has.
func (f *fetcher) run(ctx context.Context, cfg *Config, changed func()) {
	every := f.spec.every
	if every == 0 {
		every = cfg.PollInterval
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	f.mu.Lock()
	failed := f.at.IsZero()
	f.mu.Unlock()
	if failed && f.refresh(ctx, cfg, true) { // the first request may have been ended early
		changed()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if f.refresh(ctx, cfg, false) {
				changed()
			}
		case done := <-f.asks:
			news := f.refresh(ctx, cfg, true)
			close(done)
			if news { // who has asked may have gone on
				changed()
			}
		}
	}
}

// ask has run refresh the list, and waits for it until ctx ends.
func (f *fetcher) ask(ctx context.Context) {
	done := make(chan struct{})
	select {
	case f.asks <- done:
	case <-ctx.Done():
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}
