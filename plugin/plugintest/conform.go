package plugintest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/schema"
	"github.com/daeace23/prober/probe"
)

// The check for growth calls the guest so often, as long as its time suffices, and the
// least of that in any case: what grows by a page in ten calls shows.
const (
	maxCalls = 10_000
	minCalls = 200
)

// check is one that every plugin has to pass. note is worth knowing even where all is
// well.
type check struct {
	name string
	run  func(ctx context.Context) (failures []string, note string, err error)
}

// plainly is a check that has nothing to note.
func plainly(run func(context.Context) ([]string, error)) func(context.Context) ([]string, string, error) {
	return func(ctx context.Context) ([]string, string, error) {
		failures, err := run(ctx)
		return failures, "", err
	}
}

// conformance runs the checks that every plugin has to pass.
func (s *session) conformance(ctx context.Context) ([]Result, error) {
	var results []Result
	for _, check := range []check{
		{"a bad config gives a message and no trap", plainly(s.badConfigs)},
		{"the deadline is obeyed when the target is a black hole", plainly(s.blackHoles)},
		{"reset and fresh agree", plainly(s.isolations)},
		{"nothing beyond its manifest is asked for", plainly(s.modesty)},
		{"no growth over 10,000 calls", s.growth},
	} {
		name := "conformance: " + check.name
		if s.cfg.Run != nil && !s.cfg.Run.MatchString(name) {
			continue
		}
		start := time.Now()
		failures, note, err := check.run(ctx)
		if err != nil {
			return nil, err
		}
		results = append(results, Result{
			Name: name, Variant: s.plain(s.manifest.Isolation).String(), File: s.file.Path,
			Failures: failures, Note: note, Real: time.Since(start),
		})
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

// everywhere returns the case in a world in which whatever is dialled, asked or looked
// up behaves so.
func (c *Case) everywhere(b Behaviour) *Case {
	with := *c
	with.all, with.Peers, with.Web, with.Zone = b, nil, nil, nil
	return &with
}

// silent matches what a host says for a guest that says nothing.
var silent = regexp.MustCompile(`(^|: )(the plugin returned -?[0-9]+|the plugin does not take this config)?\s*$`)

// badConfigs calls the guest with configs that the schema would keep from it, since a
// schema is easily made too weak.
func (s *session) badConfigs(ctx context.Context) (failures []string, err error) {
	open := *s.manifest
	open.Config = &schema.Schema{}
	w, err := s.open(ctx, s.plain(plugin.Fresh), &open, s.grants()...)
	if err != nil {
		return nil, err
	}
	defer w.close()
	for i, config := range s.strangeConfigs() {
		c := s.typical().everywhere(Refuse)
		c.Config = config
		got := w.attempt(ctx, c, i)
		reason := probe.ReasonOf(got.err)
		shown := shorten(config)
		switch {
		case got.err == nil:
		case got.stuck != "":
			return append(failures, fmt.Sprintf("config %s: %s", shown, got.stuck)), nil
		case reason == probe.ReasonTrap || reason == probe.ReasonMemory || reason == probe.ReasonProtocol:
			failures = append(failures, fmt.Sprintf("config %s: %v", shown, got.err))
		case silent.MatchString(got.message()):
			failures = append(failures, fmt.Sprintf("config %s: refused without a message", shown))
		}
	}
	return failures, nil
}

// shorten cuts a config that is too long for a line, and says how long it is.
func shorten(config []byte) string {
	const most = 80
	if len(config) <= most {
		return string(config)
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(string(config[:most]), ""), len(config))
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
		c := s.typical().everywhere(b)
		got := w.attempt(ctx, c, i)
		if got.virtual > c.Timeout {
			failures = append(failures, fmt.Sprintf("%s: ends after %v, the timeout is %v", b, got.virtual, c.Timeout))
		}
		dialled := w.network.met()
		if got.stuck != "" {
			failures = append(failures, fmt.Sprintf("%s: %s", b, got.stuck))
			continue
		}
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
		only.cfg.Run, only.warm = nil, true
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

// everything is what an operator can grant at most: all that has a pattern, and the
// sockets of the cases, which are granted one by one.
func (s *session) everything() []string {
	all := plugin.WidestGrants()
	for i := range s.file.Cases {
		for _, p := range s.file.Cases[i].Peers {
			if strings.HasPrefix(p.Dial, "unix:///") && !slices.Contains(all, p.Dial) {
				all = append(all, p.Dial)
			}
		}
	}
	return all
}

// modesty runs the cases with everything granted: what is denied then, and would not be
// if the manifest asked for everything, the manifest ought to ask for. Imports that it
// does not ask for have failed the load.
func (s *session) modesty(ctx context.Context) (failures []string, err error) {
	everything := s.everything()
	grants, err := plugin.ParseGrants(everything)
	if err != nil {
		return nil, err
	}
	greedy := *s.manifest
	greedy.Requests = nil
	for _, capability := range plugin.CapabilityNames() {
		greedy.Requests = append(greedy.Requests, plugin.Request{Capability: capability, Allow: everything, Optional: true})
	}
	own, err := s.open(ctx, s.plain(s.manifest.Isolation), s.manifest, grants...)
	if err != nil {
		return nil, err
	}
	defer own.close()
	all, err := s.open(ctx, s.plain(s.manifest.Isolation), &greedy, grants...)
	if err != nil {
		return nil, err
	}
	defer all.close()
	for i := range s.file.Cases {
		c := &s.file.Cases[i]
		if len(c.Want.Denied) > 0 {
			continue // the denial is the point
		}
		denied := own.attempt(ctx, c, i).denied
		if len(denied) > 0 && !slices.Equal(denied, all.attempt(ctx, c, i).denied) {
			failures = append(failures, fmt.Sprintf("%s: its manifest does not ask for: %s", c.Name, strings.Join(denied, "; ")))
		}
	}
	return failures, nil
}

// growth calls the guest many times and looks at its memory.
func (s *session) growth(ctx context.Context) (failures []string, note string, err error) {
	w, err := s.open(ctx, s.plain(s.manifest.Isolation), s.manifest, s.grants()...)
	if err != nil {
		return nil, "", err
	}
	defer w.close()
	c := s.typical().everywhere(Refuse)
	for i := range s.file.Cases {
		if own := &s.file.Cases[i]; own.Want.Result == "success" {
			c = own
			break
		}
	}
	handler, err := w.handler.Prepare(c.ConfigJSON(), c.Target)
	if err != nil {
		return nil, "no call: it takes no config at hand", nil
	}
	var guest, total []uint64 // after each call
	start := time.Now()
	for i := range maxCalls {
		if i >= minCalls && time.Since(start) > cmp.Or(s.cfg.Patience, defaultPatience) {
			break
		}
		w.begin(c, i)
		got := w.carry(ctx, handler, c)
		if ctx.Err() != nil {
			return nil, "", ctx.Err()
		}
		if got.stuck != "" {
			return []string{fmt.Sprintf("call %d: %s", i+1, got.stuck)}, "", nil
		}
		guest, total = append(guest, got.memory), append(total, w.host.Memory())
	}
	failures = append(grown("the guest's memory", guest), grown("the memory of all instances", total)...)
	return failures, fmt.Sprintf("%d calls", len(guest)), nil
}

// grown says how sizes rise once the guest is warm. Who leaks may be thrown away for it
// now and then, and begin again.
func grown(what string, sizes []uint64) []string {
	warm := len(sizes) / 5
	rises := 0
	for i := warm + 1; i < len(sizes); i++ {
		if sizes[i] > sizes[i-1] {
			rises++
		}
	}
	early, late := sizes[warm], slices.Max(sizes[warm:])
	if late <= early && rises < 2 {
		return nil
	}
	return []string{fmt.Sprintf("%s grew %d times, from %s to %s", what, rises, bytesUnit.spell(float64(early)), bytesUnit.spell(float64(late)))}
}
