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
	"sync"
	"time"

	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer"
	"github.com/daeace23/prober/plugin/plugintest/internal/testfile"
	"github.com/daeace23/prober/plugin/schema"
	"github.com/daeace23/prober/probe"
)

// The check for memory growth calls the guest until it reaches maxCalls or [Config.Patience], but
// at least minCalls times. That is enough to show a growth of one page in ten calls. If a call is slow, as of a
// large program that starts anew, slowCalls are enough after slowPatience.
const (
	maxCalls = 10_000
	minCalls = 200

	slowCalls    = 20
	slowPatience = 20 * time.Second
)

// check is a conformance check.
type check struct {
	name   string
	inputs string // digest of what it depends on, beside the plugin; "" if the check keeps its own results
	run    func(ctx context.Context) (checked, error)
}

// checked is the result of a check. The report has its note even if it passes.
type checked struct {
	failures []string
	note     string
	cases    []string // items of cases that reproduce the failures
}

// unnoted adapts a check that returns no note.
func unnoted(run func(context.Context) ([]string, error)) func(context.Context) (checked, error) {
	return func(ctx context.Context) (checked, error) {
		failures, err := run(ctx)
		return checked{failures: failures}, err
	}
}

// conformance runs the checks that every plugin must pass. It leaves out those that passed before.
func (g *guestRun) conformance(ctx context.Context) ([]Result, error) {
	all, err := fingerprints(g.file)
	if err != nil {
		return nil, err
	}
	g.passed = openPassed(&g.cfg, g.file, g.module, g.text)
	request := digest(g.typical().ConfigJSON(), g.typical().Target, g.typical().PodIP, g.grants())
	var results []Result
	for _, check := range []check{
		{"a bad config gives a message and no trap", request, unnoted(g.badConfigs)},
		{"the deadline is obeyed when the target is a black hole", request, unnoted(g.blackHoles)},
		{"reset and fresh agree", digest(all), unnoted(g.isolations)},
		{"nothing beyond its manifest is asked for", digest(all), unnoted(g.leastPrivilege)},
		{"no growth over 10,000 calls", digest(request, g.growing(all)), g.growth},
		{"peers that break the protocol cause no success and no trap", "", g.hostilePeers},
	} {
		name := "conformance: " + check.name
		if !g.cfg.selects(name) {
			continue
		}
		start := time.Now()
		got, err := g.checked(ctx, check)
		if err != nil {
			return nil, err
		}
		results = append(results, Result{
			Name: name, Variant: g.plain(g.manifest.Isolation).String(), File: g.file.Path,
			Failures: got.failures, Note: got.note, Cases: got.cases, Real: time.Since(start),
		})
	}
	_ = g.passed.write(g.cfg.Run == nil) // a folder that cannot be written is no fault of the plugin
	return results, nil
}

// checked runs a check, unless it passed before with the same inputs.
func (g *guestRun) checked(ctx context.Context, c check) (checked, error) {
	if c.inputs == "" {
		return c.run(ctx)
	}
	inputs := digest(c.name, c.inputs)
	if note, ok := g.passed.note(inputs); ok {
		return checked{note: strings.TrimPrefix(note+"; unchanged", "; ")}, nil
	}
	got, err := c.run(ctx)
	if err == nil && len(got.failures) == 0 {
		g.passed.add(inputs, got.note)
	}
	return got, err
}

// grants returns the grants of the first case.
func (g *guestRun) grants() []plugin.Grant {
	if len(g.file.Cases) == 0 {
		return nil
	}
	return g.file.Cases[0].Grants
}

// silent matches the host's message for a guest that returned no message.
var silent = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(^|: )(the plugin returned -?[0-9]+|the plugin does not accept this config)?\s*$`)
})

// badConfigs calls the guest with configs that its schema refuses. The guest must refuse them too,
// since schemas are often too weak.
func (g *guestRun) badConfigs(ctx context.Context) (failures []string, err error) {
	open := *g.manifest
	open.Config = &schema.Schema{}
	w, err := g.load(ctx, g.plain(plugin.Fresh), &open, g.grants()...)
	if err != nil {
		return nil, err
	}
	defer w.close()
	for i, config := range g.strangeConfigs() {
		c := g.typical().Everywhere(peer.Refuse)
		c.Config = config
		got := w.attempt(ctx, c, i)
		reason := probe.ReasonOf(got.Err)
		shown := shorten(config)
		switch {
		case got.Err == nil:
		case got.Stuck != "":
			return append(failures, fmt.Sprintf("config %s: %s", shown, got.Stuck)), nil
		case reason == probe.ReasonTrap || reason == probe.ReasonMemory || reason == probe.ReasonProtocol:
			failures = append(failures, fmt.Sprintf("config %s: %v", shown, got.Err))
		case silent().MatchString(got.Message()):
			failures = append(failures, fmt.Sprintf("config %s: refused without a message", shown))
		}
	}
	return failures, nil
}

// shorten returns a config on one line, cut if it is too long.
func shorten(config []byte) string {
	const most = 80
	return clip.Marked(string(config), most, fmt.Sprintf("… (%d bytes)", len(config)))
}

// strangeConfigs returns configs in which each known field has a value of every type.
func (r *run) strangeConfigs() [][]byte {
	var schema struct {
		Properties map[string]any `json:"properties"`
	}
	if doc := r.manifest.Config.JSON(); doc != nil {
		_ = json.Unmarshal(doc, &schema) // it was parsed as a schema before
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

// blackHoles checks that the attempt ends at its deadline if peers never answer.
func (g *guestRun) blackHoles(ctx context.Context) (failures []string, err error) {
	w, err := g.load(ctx, g.plain(g.manifest.Isolation), g.manifest, g.grants()...)
	if err != nil {
		return nil, err
	}
	defer w.close()
	for i, b := range []peer.Behaviour{peer.Timeout, peer.HalfOpen} {
		c := g.typical().Everywhere(b)
		got := w.attempt(ctx, c, i)
		if got.Virtual > c.Timeout {
			failures = append(failures, fmt.Sprintf("%s: ends after %v, the timeout is %v", b, got.Virtual, c.Timeout))
		}
		contacted := w.network.Contacted()
		if got.Stuck != "" {
			failures = append(failures, fmt.Sprintf("%s: %s", b, got.Stuck))
			continue
		}
		if contacted && (got.Err != nil || got.Outcome.Result == probe.Success) {
			failures = append(failures, fmt.Sprintf("%s: answers %s (%s); must be a failure", b, got.Result(), got.Message()))
		}
		if got.Err != nil && !contacted && probe.ReasonOf(got.Err) != probe.ReasonGuest {
			failures = append(failures, fmt.Sprintf("%s: %s (%s)", b, got.Result(), got.Message()))
		}
	}
	return failures, nil
}

// isolations compares the answers of the cases without commands in the isolations reset and fresh.
func (g *guestRun) isolations(ctx context.Context) (failures []string, err error) {
	var all []Result
	for _, isolation := range []plugin.Isolation{plugin.Reset, plugin.Fresh} {
		only := *g
		only.cfg.Run, only.cfg.Commands, only.warmUp = nil, false, true
		results, err := only.cases(ctx, g.plain(isolation))
		if err != nil {
			return nil, err
		}
		for i := range results {
			results[i].Failures, results[i].Diff = nil, ""
		}
		all = append(all, results...)
	}
	compareVariants(all)
	for _, r := range all {
		if !r.OK() {
			failures = append(failures, fmt.Sprintf("%s:\n%s", r.Name, r.Diff))
		}
	}
	return failures, nil
}

// everything returns the widest grants: every pattern, and those grants of the cases that no
// pattern covers.
func (g *guestRun) everything() []string {
	all := plugin.WidestGrants()
	for i := range g.file.Cases {
		for _, p := range g.file.Cases[i].Peers {
			all = append(all, p.Grants()...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// leastPrivilege finds requests that the manifest lacks. It runs the cases with everything granted,
// once with the manifest and once with a manifest that requests everything. The manifest must
// request each access that only the first run denies. Imports without a request fail the load.
func (g *guestRun) leastPrivilege(ctx context.Context) (failures []string, err error) {
	everything := g.everything()
	grants, err := plugin.ParseGrants(everything)
	if err != nil {
		return nil, err
	}
	greedy := *g.manifest
	greedy.Requests = nil
	for _, capability := range plugin.CapabilityNames() {
		greedy.Requests = append(greedy.Requests, plugin.Request{Capability: capability, Allow: everything, Optional: true})
	}
	own, err := g.load(ctx, g.plain(g.manifest.Isolation), g.manifest, grants...)
	if err != nil {
		return nil, err
	}
	defer own.close()
	all, err := g.load(ctx, g.plain(g.manifest.Isolation), &greedy, grants...)
	if err != nil {
		return nil, err
	}
	defer all.close()
	for i := range g.file.Cases {
		c := &g.file.Cases[i]
		if len(c.Want.Denied) > 0 || c.HasCommands() {
			continue // the case expects the denial, or needs a command that this check does not start
		}
		denied := own.attempt(ctx, c, i).Denied
		if len(denied) > 0 && !slices.Equal(denied, all.attempt(ctx, c, i).Denied) {
			failures = append(failures, fmt.Sprintf("%s: its manifest does not request: %s", c.Name, strings.Join(denied, "; ")))
		}
	}
	return failures, nil
}

// successful returns the index of the first case without commands that wants success; -1 for none.
func (g *guestRun) successful() int {
	return slices.IndexFunc(g.file.Cases, func(c Case) bool { return c.Want.Result == "success" && !c.HasCommands() })
}

// growing returns the fingerprint of the case of the check for growth.
func (g *guestRun) growing(all []string) string {
	if i := g.successful(); i >= 0 {
		return all[i]
	}
	return ""
}

// growth calls the guest many times and compares its memory.
func (g *guestRun) growth(ctx context.Context) (checked, error) {
	w, err := g.load(ctx, g.plain(g.manifest.Isolation), g.manifest, g.grants()...)
	if err != nil {
		return checked{}, err
	}
	defer w.close()
	c := g.typical().Everywhere(peer.Refuse)
	if i := g.successful(); i >= 0 {
		c = &g.file.Cases[i]
	}
	handler, err := w.handler.Prepare(c.ConfigJSON(), c.Target)
	if err != nil {
		return checked{note: "no call: it refuses the config of its cases"}, nil
	}
	var guest, total []uint64 // after each call
	start, patience := time.Now(), cmp.Or(g.cfg.Patience, defaultPatience)
	for i := range maxCalls {
		if took := time.Since(start); i >= minCalls && took > patience || i >= slowCalls && took > max(patience, slowPatience) {
			break
		}
		w.begin(c, i)
		got := w.probe(ctx, handler, c)
		if ctx.Err() != nil {
			return checked{}, ctx.Err()
		}
		if got.Stuck != "" {
			return checked{failures: []string{fmt.Sprintf("call %d: %s", i+1, got.Stuck)}}, nil
		}
		guest, total = append(guest, got.Memory), append(total, w.host.Memory())
	}
	failures := append(grown("the guest's memory", guest), grown("the memory of all instances", total)...)
	note := fmt.Sprintf("%d calls", len(guest))
	if len(guest) < maxCalls {
		if len(guest) < minCalls {
			patience = max(patience, slowPatience)
		}
		note = fmt.Sprintf("only %d calls, in %v", len(guest), patience)
	}
	return checked{failures: failures, note: note}, nil
}

// grown returns a failure if sizes rise after the first fifth of the calls. The host may replace a
// guest that leaks, so that its size drops and rises again.
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
	return []string{fmt.Sprintf("%s grew %d times, from %s to %s", what, rises, testfile.Size(early), testfile.Size(late))}
}
