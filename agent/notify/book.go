package notify

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/internal/pace"
	"github.com/daeace23/prober/probe"
)

// Key names a probe. Unlike the ID of its pod, it is the same after a restart of the agent.
type Key struct {
	Namespace string     `json:"namespace"`
	Pod       string     `json:"pod"`
	Container string     `json:"container"`
	Kind      probe.Kind `json:"kind"`
}

func (k *Key) compare(other *Key) int {
	return cmp.Or(cmp.Compare(k.Namespace, other.Namespace), cmp.Compare(k.Pod, other.Pod), cmp.Compare(k.Container, other.Container), cmp.Compare(k.Kind, other.Kind))
}

// change is the newest state of a probe. It is not changed after it was made.
type change struct {
	key          Key
	uid, handler string
	target       string // "" if it is not known
	state        states.State
	removed      bool
	at           time.Time
	cause        states.Cause
	// before are earlier changes that matter, which the book does not have: the last one to a state that is
	// not bad, and the last failure after that.
	before []*change
}

// after returns c with what matters of old, which came before and is not in the book either.
func (c *change) after(old *change) *change {
	if old.removed {
		return c
	}
	all := append(slices.Clone(old.before), old)
	from := len(all) - 1
	for from > 0 && severity(all[from].state) > severity(states.Warning) {
		from--
	}
	next := *c
	for i, x := range all[from:] {
		if i == 0 && severity(x.state) <= severity(states.Warning) {
			next.before = []*change{x}
		} else if x.state == states.Failure {
			next.before = append(next.before[:min(len(next.before), 1)], x)
		}
	}
	for i, x := range next.before {
		plain := *x
		plain.before = nil
		next.before[i] = &plain
	}
	return &next
}

// quiet is the state of an item that needs no message.
const quiet = states.Success

// item is an incident of a probe: from a state that a receiver is told of until the receiver knows of
// its end.
type item struct {
	Key
	uid, handler string
	target       string
	state        states.State // now; quiet: the incident has ended
	at           time.Time    // when state began
	since        time.Time    // when the incident began
	cause        states.Cause
	removed      bool // it has ended because the probe is gone

	told  states.State // what the receiver knows
	knows states.Cause // of told
	owed  bool         // the receiver must be told, even if the incident has ended
	worst states.State // the worst state that is owed
	times int          // how often it began again before the receiver could be told

	in *group // nil: not known yet

	gen     int       // counts changes of state
	owedGen int       // gen when owed was last set
	began   time.Time // when state was quiet for the last time
	waits   time.Time // when the group's wait for it began
	sending bool      // a message about it is under way, which says sent
	sent    states.State
	saying  states.Cause // of sent
	sentGen int

	// unsure means that the probe may be gone. check is when to find out.
	unsure bool
	check  time.Time
}

// group is what is known of the probes that share a message.
type group struct {
	name     string
	labels   map[string]string
	id       string // for the receiver: the same over restarts
	lastSent time.Time

	lastTry   time.Time
	notBefore time.Time // after a message was refused
}

// book has the incidents of one receiver, and decides what to send when. It does no input or output.
// See RATIONALE.md, "Why does a receiver keep the newest state of each probe, and no queue?"
type book struct {
	spec    *config.Receiver
	items   map[Key]*item
	groups  map[string]*group
	changes int    // of states so far
	dropped uint64 // incidents that were over for longer than the retention

	limit pace.Rate // of messages
	sent  pace.Bucket
}

func newBook(spec *config.Receiver) *book {
	return &book{spec: spec, items: make(map[Key]*item), groups: make(map[string]*group), limit: pace.Rate{Burst: spec.MaxPerMinute, Every: time.Minute / time.Duration(spec.MaxPerMinute)}}
}

// removalWait is how long a probe must be gone before its incident ends: a reload replaces probes.
func (b *book) removalWait() time.Duration { return max(b.spec.GroupWait, time.Minute) }

// apply notes the newest state of a probe.
func (b *book) apply(c *change, now time.Time) {
	for _, x := range c.before {
		b.apply(x, now)
	}
	it := b.items[c.key]
	if c.removed {
		if it != nil && it.uid == c.uid && it.state != quiet {
			it.unsure, it.check = true, now.Add(b.removalWait())
		}
		return
	}
	state := quiet
	if selects(b.spec, c) {
		before := quiet
		if it != nil {
			before = it.state
		}
		state = b.counted(before, c.state)
	}
	if it == nil {
		if state == quiet {
			return
		}
		it = &item{Key: c.key, state: quiet, told: quiet, worst: quiet, since: c.at}
		b.items[c.key] = it
	}
	it.uid, it.target, it.unsure = c.uid, cmp.Or(c.target, it.target), false
	if state != quiet && it.handler != c.handler {
		it.in = nil // a receiver may group by handler
		it.handler = c.handler
	}
	if state != quiet || c.cause != (states.Cause{}) {
		it.cause = c.cause
	}
	if state != it.state {
		b.become(it, state, c.at)
	}
}

// become changes the state of an item.
func (b *book) become(it *item, state states.State, at time.Time) {
	if it.state == quiet {
		it.began = at
		if it.owed && it.told == quiet {
			it.times++
		}
	}
	counted := it.state != quiet && it.told == quiet && !at.Before(b.ready(it))
	it.state, it.at, it.removed = state, at, false
	it.gen++
	b.changes++
	if !counted || state == quiet {
		it.waits = b.ready(it)
	}
	it.forgive()
	if g, again := b.group(it), at.Add(b.spec.GroupWait); g.notBefore.After(again) {
		g.notBefore = again
	}
	b.tidy(it)
}

// tidy forgets an item of which there is nothing to tell.
func (b *book) tidy(it *item) {
	if it.state == quiet && !it.owed && !it.sending && (it.told == quiet || !b.spec.Resolved) {
		delete(b.items, it.Key)
	}
}

// forgive settles what is owed if the receiver knows it: the item is again what it was told.
func (it *item) forgive() {
	if !it.sending && it.state == it.told && it.state != quiet && severity(it.worst) <= severity(it.told) {
		it.settleDebt()
	}
}

// news reports whether the receiver knows the state of an incident, and not its present cause.
func (it *item) news() bool {
	return it.state != quiet && it.state == it.told && !it.knows.Is(it.cause)
}

// known returns the state that the receiver knows, if it takes the message that is under way.
func (it *item) known() states.State {
	if it.sending {
		return it.sent
	}
	return it.told
}

// settleDebt notes that the receiver knows what it was owed.
func (it *item) settleDebt() { it.owed, it.worst, it.times = false, quiet, 0 }

// counted returns the state that counts for the receiver after before. A state that is worse than before
// ends nothing, even if the receiver is not told of it; a probe without a verdict ends no failure.
func (b *book) counted(before, to states.State) states.State {
	switch {
	case to == states.Unknown && before == states.Failure:
		return before
	case b.selectsState(to):
		return to
	case to == states.Success || to == states.Warning:
		return quiet
	default:
		return before
	}
}

func (b *book) selectsState(s states.State) bool {
	return s != quiet && slices.Contains(b.spec.States, config.NotifyState(s.String()))
}

// selects reports whether a receiver is told of a probe.
func selects(spec *config.Receiver, c *change) bool {
	if len(spec.Match) == 0 {
		return true
	}
	glob := func(pattern, text string) bool {
		ok, _ := path.Match(pattern, text) // the pattern was checked
		return pattern == "" || ok
	}
	return slices.ContainsFunc(spec.Match, func(m config.ProbeMatch) bool {
		return glob(m.Namespace, c.key.Namespace) && glob(m.Pod, c.key.Pod) && glob(m.Container, c.key.Container) &&
			glob(m.Kind, c.key.Kind.String()) && glob(m.Handler, c.handler)
	})
}

// group returns the group of an item.
func (b *book) group(it *item) *group {
	if it.in != nil {
		return it.in
	}
	labels := make(map[string]string, len(b.spec.GroupBy))
	var name strings.Builder
	for _, field := range b.spec.GroupBy {
		value := map[string]string{"namespace": it.Namespace, "pod": it.Pod, "container": it.Container, "kind": it.Kind.String(), "handler": it.handler}[field]
		labels[field] = value
		name.WriteString(field + "=" + value + ",")
	}
	it.in = b.groups[name.String()]
	if it.in == nil {
		it.in = &group{name: name.String(), labels: labels, id: groupID(b.spec.Name, name.String())}
		b.groups[name.String()] = it.in
	}
	return it.in
}

// ready returns when the state of an item counts.
func (b *book) ready(it *item) time.Time {
	if it.state == quiet {
		return it.at
	}
	return it.at.Add(b.spec.Duration(config.NotifyState(it.state.String())))
}

// unsure returns the probes that may be gone, and are to be looked for now.
func (b *book) unsure(now time.Time) (keys []Key) {
	for key, it := range b.items {
		if it.unsure && !now.Before(it.check) {
			keys = append(keys, key)
		}
	}
	return keys
}

// due returns when the receiver is to be told of the state of an item.
func (b *book) due(it *item) time.Time { return latest(b.ready(it), it.waits.Add(b.spec.GroupWait)) }

// settle decides which incidents are owed, ends those of probes that do not exist, and drops those that
// have been over for too long. It reports whether something has changed.
func (b *book) settle(now time.Time, exists func(Key) bool) (changed bool) {
	for key, it := range b.items {
		if it.unsure && !now.Before(it.check) {
			if exists(key) {
				it.check = now.Add(b.removalWait())
			} else {
				b.end(it, now)
				it.removed, changed = true, true
			}
		}
		switch {
		case it.state != quiet && it.state != it.known() && it.worst != worse(it.worst, it.state) && !now.Before(b.due(it)):
			it.owe()
			changed = true
		case it.state == quiet && !it.sending && now.Sub(it.at) > b.spec.Retention:
			delete(b.items, key)
			b.dropped++
			changed = true
		}
	}
	return changed
}

// end ends the incident of a probe that is gone, or that the receiver is not told of any more.
func (b *book) end(it *item, now time.Time) {
	it.unsure = false
	if it.state != quiet {
		b.become(it, quiet, now)
	}
}

// adopt takes over the incidents of other. If that tells another place, nothing was told yet.
func (b *book) adopt(other *book, same bool) {
	b.dropped = other.dropped
	for key, it := range other.items {
		it.in = nil
		if !same {
			it.told, it.owed, it.worst, it.times = quiet, false, quiet, 0
		}
		if it.state != quiet || it.told != quiet || it.owed {
			b.items[key] = it
		}
	}
	for name, g := range other.groups {
		if same && slices.Equal(b.spec.GroupBy, other.spec.GroupBy) {
			b.groups[name] = g
		}
	}
}

// reselect ends the incidents that the receiver is not told of any more.
func (b *book) reselect(now time.Time) {
	for _, it := range b.items {
		if it.state != quiet && (!selects(b.spec, &change{key: it.Key, handler: it.handler}) || !b.selectsState(it.state)) {
			b.end(it, now)
		}
	}
}

// owe makes it sure that the receiver is told.
func (it *item) owe() {
	it.owed, it.owedGen = true, it.gen
	it.worst = worse(it.worst, it.state)
}

func worse(a, b states.State) states.State {
	if severity(b) > severity(a) {
		return b
	}
	return a
}

func severity(s states.State) int {
	return [...]int{states.Unknown: 2, states.Success: 0, states.Warning: 1, states.Failure: 3}[s]
}

// plan is a group that has something to tell.
type plan struct {
	*group
	due time.Time
}

// plans returns the groups that have something to tell, now or later, those of which a try is longest ago
// first. It forgets groups without items.
func (b *book) plans(now time.Time) []plan {
	due := make(map[*group]plan)
	used := make(map[*group]bool)
	for _, it := range b.items {
		g := b.group(it)
		used[g] = true
		p := plan{group: g}
		switch {
		case it.owed, it.news():
		case it.state != it.told:
			p.due = b.due(it)
		case b.spec.RepeatInterval > 0:
			p.due = g.lastSent.Add(b.spec.RepeatInterval)
		default:
			continue
		}
		if have, ok := due[g]; !ok || p.due.Before(have.due) {
			due[g] = p
		}
	}
	maps.DeleteFunc(b.groups, func(_ string, g *group) bool { return !used[g] && now.Sub(g.lastSent) > b.spec.GroupInterval })
	all := make([]plan, 0, len(due))
	for g, p := range due {
		p.due = latest(p.due, g.notBefore)
		if !g.lastSent.IsZero() {
			p.due = latest(p.due, g.lastSent.Add(b.spec.GroupInterval))
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(x, y plan) int {
		return cmp.Or(x.lastTry.Compare(y.lastTry), x.due.Compare(y.due), cmp.Compare(x.name, y.name))
	})
	return all
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// next returns the groups of the message to send now, or when to look again; the zero time is never. With
// merge, groups share a message when the limit of messages leaves no other.
func (b *book) next(now time.Time, merge bool) (groups []plan, at time.Time) {
	var due []plan
	for _, p := range b.plans(now) {
		if !p.due.After(now) {
			due = append(due, p)
		} else if at.IsZero() || p.due.Before(at) {
			at = p.due
		}
	}
	if t := b.nextSettle(now); at.IsZero() || !t.IsZero() && t.Before(at) {
		at = t
	}
	switch {
	case len(due) == 0:
		return nil, at
	case b.sent.Next(b.limit).After(now):
		return nil, b.sent.Next(b.limit)
	case merge && b.sent.Take(b.limit, now).Next(b.limit).After(now): // the last one
		return due, at
	default:
		return due[:1], at
	}
}

// nextSettle returns when [book.settle] may next change something; the zero time is never.
func (b *book) nextSettle(now time.Time) (at time.Time) {
	for _, it := range b.items {
		for _, t := range []time.Time{b.owedAt(it), it.checkAt()} {
			if t.After(now) && (at.IsZero() || t.Before(at)) {
				at = t
			}
		}
	}
	return at
}

func (b *book) owedAt(it *item) (at time.Time) {
	if it.state != quiet && it.state != it.known() {
		at = b.due(it)
	}
	return at
}

func (it *item) checkAt() (at time.Time) {
	if it.unsure {
		at = it.check
	}
	return at
}

// take returns the items for a message about groups, and takes a token. Those that are new are owed from
// now on. Each gets its newest cause, which the message says.
func (b *book) take(groups []plan, now time.Time, newest func(*item) states.Cause) (items []*item) {
	b.sent = b.sent.Take(b.limit, now)
	taken := make(map[*group]bool)
	for _, p := range groups {
		taken[p.group] = true
		p.lastTry = now
	}
	for _, it := range b.items {
		if !taken[b.group(it)] {
			continue
		}
		switch {
		case it.state == quiet, it.state == it.told:
			items = append(items, it)
		case !now.Before(b.ready(it)):
			it.owe()
			items = append(items, it)
		case it.told != quiet || it.owed:
			items = append(items, it)
		}
	}
	for _, it := range items {
		it.cause = newest(it)
		it.sending, it.sent, it.sentGen, it.saying = true, it.state, it.gen, it.cause
	}
	slices.SortFunc(items, func(x, y *item) int {
		return cmp.Or(cmp.Compare(severity(y.state), severity(x.state)), y.since.Compare(x.since), x.compare(&y.Key))
	})
	return items
}

// delivered notes that the receiver knows what a message said of items. They may have changed since.
func (b *book) delivered(groups []plan, items []*item, now time.Time) {
	for _, p := range groups {
		p.lastSent, p.notBefore = now, time.Time{}
	}
	for _, it := range items {
		it.sending, it.told, it.knows = false, it.sent, it.saying
		if it.sent == quiet && it.gen != it.sentGen {
			it.since = it.began
		}
		if it.owedGen <= it.sentGen {
			it.settleDebt()
		}
		b.tidy(it)
	}
}

// failed notes that a message about items was not delivered.
func (b *book) failed(items []*item) {
	for _, it := range items {
		it.sending = false
		it.forgive()
		b.tidy(it)
	}
}

// refusedWait is how long a refused message is not sent again, where the configuration has no interval.
const refusedWait = 4 * time.Hour

// refused notes that the receiver will not take the message: it is not sent again until the group changes.
func (b *book) refused(groups []plan, now time.Time) {
	for _, p := range groups {
		p.notBefore = now.Add(cmp.Or(b.spec.RepeatInterval, refusedWait))
	}
}

// pending returns how many incidents have something that the receiver does not know, and how many it
// knows to go on.
func (b *book) pending() (pending, open int) {
	for _, it := range b.items {
		if it.owed || it.state != it.told || it.news() {
			pending++
		}
		if it.told != quiet {
			open++
		}
	}
	return pending, open
}

// force makes everything due that has lasted for long enough, for the last message of an agent.
func (b *book) force(now time.Time) {
	b.sent = pace.Bucket{}
	for _, it := range b.items {
		if it.state != it.told && !now.Before(b.ready(it)) {
			if it.state == quiet {
				it.owed = true
			} else {
				it.owe()
			}
		}
	}
	for _, g := range b.groups {
		g.lastSent, g.notBefore = time.Time{}, time.Time{}
	}
}
