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

// sourceSpec is one source of a group. Sources with the same key are the same source.
type sourceSpec struct {
	label  string        // such as "file sd/*.json"; without secrets
	key    string        // group, kind and settings; "" for static
	every  time.Duration // between two requests; 0 for files, which are polled like manifests
	static []found
	open   func(cfg *Config) get
}

// get returns the list of a source, or an error. Without now, it may return the last list again if it
// is too early for another request.
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

// fetcher queries one source of a group, and keeps its last good list.
type fetcher struct {
	spec  sourceSpec
	group string
	get   get
	asks  chan chan struct{} // requests for a refresh; run closes the received channel afterwards

	mu       sync.Mutex
	items    []found
	failures uint64
	err      error
	at       time.Time // time of the last success
	asked    bool
	logged   time.Time // when an error was last logged
}

// logEvery is the minimum time between logging two different errors of a failing source.
const logEvery = time.Minute

// refresh queries the source, and reports whether its list has changed. It is not safe for concurrent use. Once run
// is started, only its goroutine calls refresh.
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
	if err != nil && f.spec.every > 0 || sameList(f.items, items) { // a list of files is used despite an error: it has the last good list of each file
		return false
	}
	f.items = items
	return true
}

// sameList reports whether two lists are equal. Usually they share their memory, since sources return an unchanged
// list again.
func sameList(a, b []found) bool {
	if len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) {
		return true
	}
	return slices.EqualFunc(a, b, sameFound)
}

func sameFound(a, b found) bool {
	return a.address == b.address && a.file == b.file && a.line == b.line && maps.Equal(a.labels, b.labels)
}

// run refreshes the list until ctx ends, and calls changed when the list has changed.
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
	if failed && f.refresh(ctx, cfg, true) { // the first request may have been cut short by firstAnswer
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
			if news { // the caller of ask may have timed out
				changed()
			}
		}
	}
}

// ask makes run refresh the list, and waits for the refresh until ctx ends.
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
