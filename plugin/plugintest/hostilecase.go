package plugintest

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin/plugintest/internal/adverse"
	"github.com/daeace23/prober/plugin/plugintest/internal/testfile"
	"github.com/daeace23/prober/probe"
)

// subject is a case whose variants are run.
type subject struct {
	*hunter
	index   int
	c       *Case
	item    *yamlpos.Node
	base    *attempted
	plan    *adverse.Plan
	needs   []int // of each stream of the plan: the number of points that success needs
	broken  bool  // a variant breaks a rule, perhaps for a cause that is known from another case
	endless bool  // an attempt had no end: the others would take too long
}

// attempted is the answer to a variant and its cost.
type attempted struct {
	*testfile.Answer
	fuel uint64 // 0 if the guest is not metered; more than it used if it hung
	sent uint64 // bytes of the case, an upper bound of what its peers send
}

// subject returns the case at index. It returns nil if the case does not pass, or if its peers cannot be varied.
func (h *hunter) subject(ctx context.Context, index int) (*subject, error) {
	s := &subject{hunter: h, index: index, c: &h.file.Cases[index]}
	var err error
	if s.item, err = h.editor.Item(index); err != nil {
		return nil, err
	}
	if yamlpos.Field(s.item, "host") == nil || s.c.HasCommands() { // the peers of a command run in real time
		return nil, nil
	}
	if s.base, err = s.run(ctx, s.c, index); err != nil {
		return nil, err
	}
	if s.base.BadConfig || s.c.Want.Compare(s.base.Answer) != "" || len(s.base.Faults) > 0 {
		return nil, nil
	}
	s.plan = adverse.New(s.item)
	return s, nil
}

// run makes an attempt at a variant of a case.
func (h *hunter) run(ctx context.Context, c *Case, index int) (*attempted, error) {
	key := sandboxKey(c)
	box := h.sandboxes[key]
	if box == nil {
		var err error
		if box, err = h.loadSeeded(ctx, h.plain(h.manifest.Isolation), h.manifest, seedOf(c, -1), c.Grants...); err != nil {
			return nil, err
		}
		h.sandboxes[key] = box
	}
	before := box.handler.Stats().Fuel
	got := box.attempt(ctx, c, index)
	return &attempted{got, box.handler.Stats().Fuel - before, 0}, ctx.Err()
}

// edited returns the case after an edit, and its item. ok is false if the edit makes no valid case.
func (s *subject) edited(edit adverse.Edit) (c *Case, item *yamlpos.Node, ok bool) {
	item = testfile.Clone(s.item)
	edit(item)
	c, err := s.editor.Case(item)
	return c, item, err == nil
}

// try runs the case after an edit.
func (s *subject) try(ctx context.Context, edit adverse.Edit) (*Case, *attempted, error) {
	c, item, ok := s.edited(edit)
	if !ok {
		return nil, nil, nil
	}
	got, err := s.run(ctx, c, s.index)
	got.sent = textSize(item)
	return c, got, err
}

// textSize returns the number of bytes of all values of an item.
func textSize(n *yamlpos.Node) uint64 {
	size := uint64(len(n.Value))
	for _, child := range n.Content {
		size += textSize(child)
	}
	return size
}

// hunt runs variants until a time, but at least [minVariants]. It returns their number, and whether it has
// reached the last one.
func (s *subject) hunt(ctx context.Context, variants []adverse.Variant, until time.Time) (ran int, complete bool, err error) {
	if len(variants) == 0 {
		return 0, true, nil
	}
	if err := s.findNeeds(ctx); err != nil {
		return 0, false, err
	}
	for i := range variants {
		if i >= minVariants && time.Now().After(until) || s.endless || s.full() {
			return ran, false, nil
		}
		ok, _, err := s.check(ctx, &variants[i], s.index<<32+variants[i].Order)
		if err != nil {
			return ran, false, err
		}
		if ok {
			ran++
		}
	}
	return ran, true, nil
}

// findNeeds finds out how much of each stream the case needs for its success. The case needs the points up to
// which a peer that stops there, and stays connected, keeps the plugin from its success.
func (s *subject) findNeeds(ctx context.Context) error {
	s.needs = make([]int, len(s.plan.Streams))
	if s.base.Result() != "success" {
		return nil
	}
	for i := range s.plan.Streams {
		need, err := s.need(ctx, &s.plan.Streams[i])
		if err != nil {
			return err
		}
		s.needs[i] = need
	}
	return nil
}

// unneeded is less than every point: the case succeeds without the stream.
const unneeded = adverse.Header

func (s *subject) need(ctx context.Context, stream *adverse.Stream) (int, error) {
	succeeds := func(edit adverse.Edit) (bool, error) {
		_, got, err := s.try(ctx, edit)
		return got != nil && got.Result() == "success", err
	}
	if stream.Empty != nil || len(s.plan.Streams) > 1 { // the plugin may use another peer
		if ok, err := succeeds(stream.Broken); ok || err != nil {
			return unneeded, err
		}
	}
	if stream.Empty != nil {
		if ok, err := succeeds(stream.Empty); ok || err != nil {
			return 0, err
		}
	}
	low, high := 0, len(stream.Stalls) // the first success is at low or later; high means none
	for low < high {
		middle := (low + high) / 2
		ok, err := succeeds(stream.Stalls[middle])
		if err != nil {
			return 0, err
		}
		if ok {
			high = middle
		} else {
			low = middle + 1
		}
	}
	for _, f := range stream.Farewells {
		if f.Point >= low {
			continue
		}
		for _, edit := range []adverse.Edit{f.Closed, f.Stranger} {
			if ok, err := succeeds(edit); !ok || err != nil {
				return low, err
			}
		}
		low = f.Point
	}
	return low, nil
}

// check runs a variant and keeps its finding. ok is false if the variant is no valid case. found is nil if
// the variant breaks no rule, or one that is known.
func (s *subject) check(ctx context.Context, v *adverse.Variant, order int) (ok bool, found *finding, err error) {
	c, got, err := s.try(ctx, v.Edit)
	if got == nil || err != nil {
		return false, nil, err
	}
	key, reason := s.judge(v, c, got)
	if key == "" {
		return true, nil, nil
	}
	s.broken = true
	if known, ok := s.found[key]; ok && known.order <= order {
		s.endless = s.endless || got.Stuck != ""
		return true, nil, nil
	}
	_, again, err := s.try(ctx, v.Edit)
	if err != nil {
		return false, nil, err
	}
	if other, _ := s.judge(v, c, again); other != key {
		if got.Stuck != "" {
			return true, nil, nil // the machine was busy
		}
		key, reason = keyRandom, fmt.Sprintf("two attempts differ: %s (%s), then %s (%s)", got.Result(), got.Message(), again.Result(), again.Message())
	}
	s.endless = s.endless || got.Stuck != ""
	least, err := s.shrunk(ctx, v, key)
	if err != nil {
		return false, nil, err
	}
	item, err := s.render(ctx, least, key)
	s.found[key] = finding{order, fmt.Sprintf("%s: %s: %s", s.c.Name, v.What, reason), item}
	f := s.found[key]
	return true, &f, err
}

// shrunk returns the variant with the least data that still breaks the rule of key.
func (s *subject) shrunk(ctx context.Context, v *adverse.Variant, key string) (*adverse.Variant, error) {
	for n := 1; v.Shrunk != nil && n < v.Size; n *= 2 {
		least := *v
		least.Edit = v.Shrunk(n)
		c, got, err := s.try(ctx, least.Edit)
		if err != nil {
			return nil, err
		}
		if got == nil {
			continue
		}
		if other, _ := s.judge(&least, c, got); other == key {
			return &least, nil
		}
	}
	return v, nil
}

// Keys of causes.
const (
	keySize   = "size" // a guest that allocates more than its peer sends
	keyLate   = "late"
	keyFuel   = "fuel"
	keyNumber = "NaN"
	keyRandom = "random"
)

// inexpressible returns the rule of a key that a want cannot express; "" if it can.
func inexpressible(key string) string {
	switch key {
	case keyLate:
		return "the attempt ends at its timeout"
	case keyFuel:
		return "the number of instructions is in proportion to the data"
	case keyNumber:
		return "each value is a number"
	case keyRandom:
		return "two attempts have the same answer"
	default:
		return ""
	}
}

// Limits of a guest's use beyond its use for the case itself.
const (
	freeMemory    = 4 << 20 // the heap of a guest in Go grows in such steps
	memoryPerByte = 16      // that a peer sends
	freeFuel      = 1_000_000_000
	fuelPerByte   = 10_000
	fuelFactor    = 20
)

var (
	notNumber = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?:^|[^\pL\pN_])(NaN|[+-]?Inf(?:inity)?)(?:$|[^\pL\pN_])`)
	})
	quoted = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*(?:\"|$)|'[^']*(?:'|$)|`[^`]*(?:`|$)")
	})
	place     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\.[a-z]+:[0-9]+(?::[0-9]+)?`) })
	anyDigits = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`0x[0-9a-f]+|[0-9]+`) })
)

// judge returns the rule that an answer breaks, and why; "" for none. The key is the same for one cause.
func (s *subject) judge(v *adverse.Variant, c *Case, got *attempted) (key, reason string) {
	if key, reason := unsound(got); key != "" {
		return key, reason
	}
	result, message := got.Result(), got.Message()
	switch {
	case got.Virtual > c.Timeout:
		return keyLate, fmt.Sprintf("the attempt ends after %v; the timeout is %v", got.Virtual, c.Timeout)
	case got.Memory > s.memoryLimit(got.sent):
		return keySize, fmt.Sprintf("the guest has %s of memory, and %s without this; do not allocate a size that the peer claims", testfile.Size(got.Memory), testfile.Size(s.base.Memory))
	case !got.Hung() && got.fuel > fuelFactor*s.base.fuel+freeFuel+fuelPerByte*got.sent:
		return keyFuel, fmt.Sprintf("the guest runs %s instructions, and %s without this", thousands(int(got.fuel)), thousands(int(s.base.fuel)))
	case got.Err == nil && notNumber().MatchString(message) && !notNumber().MatchString(s.base.Message()), refusedMetric(got) && !refusedMetric(s.base):
		return keyNumber, fmt.Sprintf("a value is not a number, and the result is %s (%s)", result, message)
	case slices.Contains(s.c.Accepts, v.Family):
	case v.Rule == adverse.Same && result != s.base.Result() && s.healthy():
		return "same: " + string(v.Family), fmt.Sprintf("the result is %s (%s); must be %s, if the case has no accepts: [%s]", result, message, s.base.Result(), v.Family)
	case result == "success" && s.forbidsSuccess(v):
		return "success: " + string(v.Family), fmt.Sprintf("the result is success (%s); if that is right, the case needs accepts: [%s]", message, v.Family)
	}
	return "", ""
}

// memoryLimit returns the memory that a guest may have for a case of a size.
func (s *subject) memoryLimit(size uint64) uint64 {
	return s.base.Memory + freeMemory + memoryPerByte*size
}

// healthy reports whether the case wants success or a warning. A case that wants a failure may depend on how
// its data arrives.
func (s *subject) healthy() bool {
	return s.base.Err == nil && (s.base.Outcome.Result == probe.Success || s.base.Outcome.Result == probe.Warning)
}

// forbidsSuccess reports whether a variant lacks what the case needs for its success.
func (s *subject) forbidsSuccess(v *adverse.Variant) bool {
	if s.base.Result() != "success" {
		return false
	}
	need := s.needs[v.Stream]
	switch v.Rule {
	case adverse.NoSuccess:
		return v.Point < need
	case adverse.NoSuccessUnlessEnd:
		return v.Point < need && need < s.plan.Streams[v.Stream].Points()
	default:
		return false
	}
}

// unsound returns the rule that an answer breaks whatever its peers do.
func unsound(got *attempted) (key, reason string) {
	if got.Stuck != "" {
		return "endless", got.Stuck
	}
	if got.Err == nil || got.BadConfig {
		return "", ""
	}
	switch why := probe.ReasonOf(got.Err); why {
	case probe.ReasonTrap, probe.ReasonMemory, probe.ReasonProtocol, probe.ReasonInstantiate:
		first, _, _ := strings.Cut(got.Message(), "\n")
		return string(why) + cause(first), fmt.Sprintf("the result is %s (%s)", got.Result(), first)
	}
	return "", ""
}

// cause returns the text of an error without the values that differ from variant to variant: quoted parts,
// numbers, and the message of a panic behind the place that it names.
func cause(text string) string {
	text, _, _ = strings.Cut(text, " interface conversion: ")
	text = quoted().ReplaceAllString(text, "")
	if at := place().FindStringIndex(text); at != nil {
		text = text[:at[1]]
	}
	return anyDigits().ReplaceAllString(text, "0")
}

// refusedMetric reports whether the host refused a metric of the guest.
func refusedMetric(a *attempted) bool {
	for _, line := range a.Trace {
		if strings.Contains(line, "the value is not a number") {
			return true
		}
	}
	return false
}
