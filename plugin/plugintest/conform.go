package plugintest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// calls is how often the check for growth calls the guest. What grows by a page a call,
// or by a page in ten calls, shows.
const calls = 200

// conformance runs the checks that every plugin has to pass.
func (s *session) conformance(ctx context.Context) ([]Result, error) {
	var results []Result
	for _, check := range []struct {
		name string
		run  func(context.Context) ([]string, error)
	}{
		{"a bad config gives a message and no trap", s.badConfigs},
		{"the deadline is obeyed when the target is a black hole", s.blackHoles},
		{"reset and fresh agree", s.isolations},
		{fmt.Sprintf("no growth over %d calls", calls), s.growth},
	} {
		name := "conformance: " + check.name
		if s.cfg.Run != nil && !s.cfg.Run.MatchString(name) {
			continue
		}
		start := time.Now()
		failures, err := check.run(ctx)
		if err != nil {
			return nil, err
		}
		v := s.plain(s.manifest.Isolation)
		results = append(results, Result{Name: name, Variant: v.String(), File: s.file.Path, Failures: failures, Real: time.Since(start)})
	}
	return results, nil
}

// typical is a case to learn from how the plugin is used: the file's first one that
// the plugin takes the config of, without a server.
func (s *session) typical() *Case {
	c := &Case{Name: "typical", Timeout: time.Second, Attempt: 1, Target: probe.Target{Host: "target.internal", Port: 1}}
	if len(s.manifest.Examples) > 0 {
		c.Config = s.manifest.Examples[0].Config
	}
	for i := range s.file.Cases {
		if own := &s.file.Cases[i]; own.Want.Result != "error(config)" {
			c.Target, c.Config, c.PodIP = own.Target, own.Config, own.PodIP
			break
		}
	}
	return c
}

// grants are those of the first case.
func (s *session) grants() []plugin.Grant {
	if len(s.file.Cases) == 0 {
		return nil
	}
	return s.file.Cases[0].Grants
}

// server returns the case with a peer of a behaviour at its target.
func (c *Case) server(b Behaviour) *Case {
	with := *c
	dial := fmt.Sprintf("tcp://%s:%d", c.Target.Host, c.Target.Port)
	if strings.Contains(c.Target.Host, ":") {
		dial = fmt.Sprintf("tcp://[%s]:%d", c.Target.Host, c.Target.Port)
	}
	if c.Target.Unix != "" {
		dial = "unix://" + c.Target.Unix
	}
	with.Peers = []Peer{{Dial: dial, Behaviour: b}}
	return &with
}

// badConfigs calls the guest with configs that the schema would keep from it, since a
// schema is easily made too weak.
func (s *session) badConfigs(ctx context.Context) (failures []string, err error) {
	open := *s.manifest
	open.Config = &plugin.Schema{}
	w, err := s.open(ctx, s.plain(plugin.Fresh), &open, s.grants()...)
	if err != nil {
		return nil, err
	}
	defer w.close()
	for i, config := range s.strangeConfigs() {
		c := s.typical().server(Refuse)
		c.Config = config
		got := w.attempt(ctx, c, i)
		reason := probe.ReasonOf(got.err)
		switch {
		case got.err == nil:
		case reason == probe.ReasonTrap || reason == probe.ReasonMemory || reason == probe.ReasonProtocol:
			failures = append(failures, fmt.Sprintf("config %s: %v", config, got.err))
		case strings.TrimSpace(got.message()) == "":
			failures = append(failures, fmt.Sprintf("config %s: refused without a message", config))
		}
	}
	return failures, nil
}

// strangeConfigs are configs in which each known field has a value of every type.
func (s *session) strangeConfigs() [][]byte {
	var schema struct {
		Properties map[string]any `json:"properties"`
	}
	if doc := s.manifest.Config.JSON(); doc != nil {
		_ = json.Unmarshal(doc, &schema) // it was read as a schema before
	}
	values := []any{nil, true, -1, 1e300, "", "\x00\xff", strings.Repeat("x", 10_000), []any{}, map[string]any{}}
	configs := [][]byte{[]byte(`{}`), []byte(`{"no such field":{"a":[1,null]}}`)}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		for _, value := range values {
			doc, err := json.Marshal(map[string]any{name: value})
			if err == nil {
				configs = append(configs, doc)
			}
		}
	}
	return configs
}

// blackHoles lets the guest wait for a target that never answers.
func (s *session) blackHoles(ctx context.Context) (failures []string, err error) {
	w, err := s.open(ctx, s.plain(s.manifest.Isolation), s.manifest, s.grants()...)
	if err != nil {
		return nil, err
	}
	defer w.close()
	for i, b := range []Behaviour{Timeout, HalfOpen} {
		c := s.typical().server(b)
		got := w.attempt(ctx, c, i)
		if got.virtual > c.Timeout {
			failures = append(failures, fmt.Sprintf("%s: ends after %v, the timeout is %v", b, got.virtual, c.Timeout))
		}
		dialled := len(w.network.peers[0].conns) > 0
		if dialled && (got.err != nil || got.out.Result == probe.Success) {
			failures = append(failures, fmt.Sprintf("%s: answers %s (%s); want a failure", b, got.result(), got.message()))
		}
		if got.err != nil && !dialled && probe.ReasonOf(got.err) != probe.ReasonGuest {
			failures = append(failures, fmt.Sprintf("%s: %s (%s)", b, got.result(), got.message()))
		}
	}
	return failures, nil
}

// isolations runs the cases reset and fresh and compares the answers.
func (s *session) isolations(ctx context.Context) (failures []string, err error) {
	var all []Result
	for _, isolation := range []plugin.Isolation{plugin.Reset, plugin.Fresh} {
		only := *s
		only.cfg.Run = nil
		results, err := only.cases(ctx, s.plain(isolation))
		if err != nil {
			return nil, err
		}
		for i := range results {
			results[i].Failures, results[i].Diff = nil, ""
		}
		all = append(all, results...)
	}
	agree(all)
	for _, r := range all {
		if !r.OK() {
			failures = append(failures, fmt.Sprintf("%s:\n%s", r.Name, r.Diff))
		}
	}
	return failures, nil
}

// growth calls the guest many times and looks at its memory.
func (s *session) growth(ctx context.Context) (failures []string, err error) {
	w, err := s.open(ctx, s.plain(s.manifest.Isolation), s.manifest, s.grants()...)
	if err != nil {
		return nil, err
	}
	defer w.close()
	c := s.typical().server(Refuse)
	for i := range s.file.Cases {
		if own := &s.file.Cases[i]; own.Want.Result == "success" {
			c = own
			break
		}
	}
	var early, total uint64
	for i := range calls {
		got := w.attempt(ctx, c, i)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if i == calls/10 {
			early, total = got.memory, w.host.Memory()
		}
	}
	late, now := w.handler.Stats().Size, w.host.Memory()
	if late > early {
		failures = append(failures, fmt.Sprintf("the guest's memory grew from %s to %s", bytesUnit.spell(float64(early)), bytesUnit.spell(float64(late))))
	}
	if now > total {
		failures = append(failures, fmt.Sprintf("all instances grew from %s to %s", bytesUnit.spell(float64(total)), bytesUnit.spell(float64(now))))
	}
	return failures, nil
}
