package notify

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/internal/pace"
	"github.com/daeace23/prober/probe"
)

// Key identifies a probe. Unlike the UID of its pod, it is stable across restarts of the agent.
type Key struct {
	Namespace string     `json:"namespace"`
	Pod       string     `json:"pod"`
	Container string     `json:"container"`
	Kind      probe.Kind `json:"kind"`
}

func (k *Key) compare(other *Key) int {
	return cmp.Or(cmp.Compare(k.Namespace, other.Namespace), cmp.Compare(k.Pod, other.Pod), cmp.Compare(k.Container, other.Container), cmp.Compare(k.Kind, other.Kind))
}

// change is the newest state of a probe. It is immutable.
type change struct {
	key          Key
	uid, handler string
	target       string // "" if unknown
	labels       map[string]string
	state        states.State
	removed      bool
	at           time.Time
	cause        states.Cause
	held         hold            // by windows of all receivers
	heldFor      map[string]hold // by windows of single receivers, by their names
	// before has earlier changes that receivers need and that are not in the book: the last change to success
	// or warning, and the last change to failure after it.
	before []*change
}

// hold is whether a probe is in a maintenance window.
type hold struct {
	in       bool
	released time.Time // when it left the last one since the state of the probe began; zero if there was none
}

// turn returns the hold after a window has begun or ended.
func (h hold) turn(in bool, now time.Time) hold {
	if h.in && !in {
		h.released = now
	}
	h.in = in
	return h
}

// holdOf returns whether the probe is in a window that concerns a receiver.
func (c *change) holdOf(receiver string) hold {
	own := c.heldFor[receiver]
	return hold{c.held.in || own.in, latest(c.held.released, own.released)}
}

// mergeAfter returns c with the changes of old that matter. old came before c, and is not in the book either.
func (c *change) mergeAfter(old *change) *change {
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

// quiet is the state of an item without a problem to report.
const quiet = states.Success

// item is an incident of a probe. It begins with a state that the receiver selects, and lasts until the
// receiver knows of its end.
type item struct {
	Key
	uid, handler string
	target       string
	labels       map[string]string // at the begin of the incident, so that its group stays the same
	state        states.State      // present state; quiet: the incident has ended
	at           time.Time         // when state began
	since        time.Time         // when the incident began
	cause        states.Cause
	removed      bool      // it ended because the probe is gone
	ended        time.Time // when the end of its flapping was found

	told      states.State // last state that the receiver knows
	toldCause states.Cause // cause in the message with told
	owed      bool         // the receiver must get a message, even if the incident has ended
	worst     states.State // worst state that the receiver must get
	times     int          // how often it began again before a message was delivered

	group *group // nil: not resolved yet
	index int    // in [incidents]

	gen       int       // number of changes of state
	owedGen   int       // gen when owed was last set
	began     time.Time // when state last ceased to be quiet
	waits     time.Time // when the group wait for it began
	sending   bool      // a message with the state sent is in flight
	sent      states.State
	sentCause states.Cause
	sentGen   int

	flapping flapping
	flaps    flaps // in the newest message

	held     bool      // the probe is in a maintenance window
	released time.Time // when it left the last one

	// maybeGone means that the probe may be gone. check is when to check whether it exists.
	maybeGone bool
	check     time.Time
}

// group is the state of the probes that share a message.
type group struct {
	name     string
	labels   map[string]string
	id       string // sent to the receiver; stable across restarts
	lastSent time.Time

	lastTry   time.Time
	notBefore time.Time // of the next message, after one was refused

	round uint64 // last call of [book.plans] with an item of the group
	plan  int    // index of its plan in that call; -1 for none
}

// book has the incidents of one receiver, and decides what to send and when. It does no I/O.
// See RATIONALE.md, "Why does a receiver keep the newest state of each probe, and no queue?"
type book struct {
	spec    *config.Receiver
	items   incidents
	groups  map[string]*group
	begins  map[Key][]time.Time // of the newest incidents of each probe, see [book.recent]
	changes int                 // number of changes of state
	dropped uint64              // number of incidents that ended longer ago than the retention

	limit pace.Rate // of messages
	sent  pace.Bucket

	quietUntil time.Time // end of the present or the last quiet hours
	quietFrom  time.Time // when quietUntil was computed

	round   uint64 // number of calls of plans
	planned []plan // result of the last one
}

func newBook(spec *config.Receiver) *book {
	return &book{spec: spec, groups: make(map[string]*group), begins: make(map[Key][]time.Time), limit: pace.Rate{Burst: spec.MaxPerMinute, Every: time.Minute / time.Duration(spec.MaxPerMinute)}}
}

// removalWait is how long a probe must be gone before its incident ends: a reload replaces probes.
func (b *book) removalWait() time.Duration { return max(b.spec.GroupWait, time.Minute) }

// apply applies a change to the item of its probe.
func (b *book) apply(c *change, now time.Time) {
	for _, x := range c.before {
		b.apply(x, now)
	}
	it := b.items.get(c.key)
	if c.removed {
		if it != nil && it.uid == c.uid && it.state != quiet {
			it.maybeGone, it.check = true, now.Add(b.removalWait())
		}
		return
	}
	state, selected := quiet, selects(b.spec, c)
	if selected {
		before := quiet
		if it != nil {
			before = it.present()
		}
		state = b.effectiveState(before, c.state)
	}
	if it == nil {
		if state == quiet {
			return
		}
		it = &item{Key: c.key, labels: c.labels, state: quiet, told: quiet, worst: quiet, since: c.at}
		b.items.add(it)
	}
	it.uid, it.target, it.maybeGone = c.uid, cmp.Or(c.target, it.target), false
	if state != quiet && it.handler != c.handler {
		it.group = nil // groups may depend on the handler
		it.handler = c.handler
	}
	if state != quiet || c.cause != (states.Cause{}) {
		it.cause = c.cause
	}
	switch {
	case !selected:
		b.end(it, now) // not c.at: a label may have changed since
	case state != it.present():
		b.move(it, state, c.at)
	}
	if state != quiet {
		b.hold(it, c)
	}
}

// hold records whether the probe of an incident is in a maintenance window. After the window the state counts as
// if it began then.
func (b *book) hold(it *item, c *change) {
	was, now := it.held, c.holdOf(b.spec.Name)
	it.held, it.released = now.in, latest(it.released, now.released)
	if was && !it.held {
		it.released = latest(it.released, c.at)
		it.waits = b.ready(it)
	}
}

// withheld reports whether the receiver must not get the state of an incident now: it is in a maintenance window,
// and the state was not owed before.
func (it *item) withheld() bool {
	return it.held && it.state != quiet && !(it.owed && it.owedGen == it.gen)
}

// setState changes the state of an item.
func (b *book) setState(it *item, state states.State, at time.Time) {
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
	it.clearIfKnown()
	if g, again := b.groupOf(it), at.Add(b.spec.GroupWait); g.notBefore.After(again) {
		g.notBefore = again
	}
	b.removeIfSettled(it)
}

// removeIfSettled removes an item if there is nothing to send about it.
func (b *book) removeIfSettled(it *item) {
	if it.state == quiet && !it.owed && !it.sending && (it.told == quiet || !b.spec.Resolved) {
		b.items.remove(it)
	}
}

// clearIfKnown clears the debt if the receiver knows the present state, and no worse state occurred.
func (it *item) clearIfKnown() {
	if !it.sending && it.state == it.told && it.state != quiet && severity(it.worst) <= severity(it.told) {
		it.clearOwed()
	}
}

// causeChanged reports whether the receiver knows the state of the incident, but not its present cause.
func (it *item) causeChanged() bool {
	return it.state != quiet && it.state == it.told && !it.flapping.on && !it.toldCause.Is(it.cause)
}

// expectedState returns the state that the receiver knows once it accepts the message in flight, if any.
func (it *item) expectedState() states.State {
	if it.sending {
		return it.sent
	}
	return it.told
}

// clearOwed records that nothing is owed to the receiver.
func (it *item) clearOwed() { it.owed, it.worst, it.times = false, quiet, 0 }

// effectiveState returns the state of an item that was in state before, after a change of its probe to to.
// Unknown does not end a failure. A state that is not selected ends the incident if it is success or warning;
// else the item keeps its state.
func (b *book) effectiveState(before, to states.State) states.State {
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

// selects reports whether a receiver selects a probe.
func selects(spec *config.Receiver, c *change) bool {
	return spec.Selects(&config.ProbeFacts{
		Namespace: c.key.Namespace, Pod: c.key.Pod, Container: c.key.Container, Kind: c.key.Kind.String(), Handler: c.handler, Labels: c.labels,
	})
}

// groupOf returns the group of an item, and creates it if needed.
func (b *book) groupOf(it *item) *group {
	if it.group != nil {
		return it.group
	}
	labels := make(map[string]string, len(b.spec.GroupBy))
	var name strings.Builder
	facts := config.ProbeFacts{Namespace: it.Namespace, Pod: it.Pod, Container: it.Container, Kind: it.Kind.String(), Handler: it.handler, Labels: it.labels}
	for _, field := range b.spec.GroupBy {
		value := facts.Group(field)
		labels[field] = value
		if strings.HasPrefix(field, config.LabelPrefix) {
			value = strconv.Quote(value) // only a label may have a comma
		}
		name.WriteString(field + "=" + value + ",")
	}
	it.group = b.groups[name.String()]
	if it.group == nil {
		it.group = &group{name: name.String(), labels: labels, id: groupID(b.spec.Name, name.String())}
		b.groups[name.String()] = it.group
	}
	return it.group
}

// ready returns when the state of an item has lasted long enough to be reported.
func (b *book) ready(it *item) time.Time {
	if it.state == quiet {
		return it.at
	}
	return latest(it.at, it.released).Add(b.spec.Duration(config.NotifyState(it.state.String())))
}

// checkDue returns the probes that may be gone and must be checked now.
func (b *book) checkDue(now time.Time) (keys []Key) {
	for it := range b.items.each() {
		if it.maybeGone && !now.Before(it.check) {
			keys = append(keys, it.Key)
		}
	}
	return keys
}

// due returns when the state of an item must be sent.
func (b *book) due(it *item) time.Time { return latest(b.ready(it), it.waits.Add(b.spec.GroupWait)) }

// update marks incidents that must be sent as owed, ends incidents of probes that do not exist, and drops
// incidents that ended longer ago than the retention. It reports whether something changed. In quiet hours it only
// ends incidents.
func (b *book) update(now time.Time, exists func(Key) bool) (changed bool) {
	mayOwe := !b.isQuiet(now)
	changed = b.settleSteady(now)
	for it := range b.items.each() {
		if it.maybeGone && !now.Before(it.check) {
			if exists(it.Key) {
				it.check = now.Add(b.removalWait())
			} else {
				b.end(it, now)
				it.removed, changed = true, true
			}
		}
		switch {
		case mayOwe && it.state != quiet && !it.held && it.state != it.expectedState() && it.worst != worse(it.worst, it.state) && !now.Before(b.due(it)):
			it.setOwed()
			changed = true
		case mayOwe && it.state == quiet && !it.sending && now.Sub(latest(latest(it.at, it.ended), b.quietUntil)) > b.spec.Retention:
			b.items.remove(it)
			b.dropped++
			changed = true
		}
	}
	return changed
}

// isQuiet reports whether nothing may be sent, because of quiet hours. An incident that begins and ends
// meanwhile is never owed.
func (b *book) isQuiet(now time.Time) bool {
	if !now.Before(b.quietUntil) || now.Before(b.quietFrom) { // in the second case the clock was set back
		b.quietUntil, b.quietFrom = latest(earliest(b.quietUntil, now), b.spec.Quiet.Until(now)), now
	}
	return now.Before(b.quietUntil)
}

// end ends the incident of a probe that is gone or not selected any more.
func (b *book) end(it *item, now time.Time) {
	it.maybeGone, it.flapping = false, flapping{}
	delete(b.begins, it.Key)
	if it.state != quiet {
		b.setState(it, quiet, now)
	}
}

// takeOver takes over the incidents of other. same reports whether both send to the same destination: if not,
// the receiver knows nothing yet.
func (b *book) takeOver(other *book, same bool, now time.Time) {
	b.dropped, b.quietUntil = other.dropped, earliest(other.quietUntil, now)
	mayFlap := same && b.spec.FlapDetection
	if mayFlap {
		b.begins = other.begins
	}
	for it := range other.items.each() {
		if it.flapping.on && !mayFlap {
			other.settle(it, now)
		}
		it.group = nil
		if !same {
			it.told, it.owed, it.worst, it.times = quiet, false, quiet, 0
		}
		if it.state != quiet || it.told != quiet || it.owed {
			b.items.add(it)
		}
	}
	for name, g := range other.groups {
		if same && slices.Equal(b.spec.GroupBy, other.spec.GroupBy) {
			b.groups[name] = g
		}
	}
}

// reselect ends the incidents that the receiver does not select any more.
func (b *book) reselect(now time.Time) {
	for it := range b.items.each() {
		if it.state != quiet && (!selects(b.spec, &change{key: it.Key, handler: it.handler, labels: it.labels}) || !b.selectsState(it.state)) {
			b.end(it, now)
		}
	}
}

// setOwed records that the receiver must get the present state.
func (it *item) setOwed() {
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

// plan is a group with something to send.
type plan struct {
	*group
	due time.Time
}

// plans returns the groups with something to send, now or later, in no order. It removes groups without items. The result is valid until the next call.
func (b *book) plans(now time.Time) []plan {
	b.round++
	all := b.planned[:0]
	for it := range b.items.each() {
		g := b.groupOf(it)
		if g.round != b.round {
			g.round, g.plan = b.round, -1
		}
		var due time.Time
		switch {
		case it.withheld():
			continue
		case it.owed, it.causeChanged():
		case it.state != it.told:
			due = b.due(it)
		case b.spec.RepeatInterval > 0:
			due = g.lastSent.Add(b.spec.RepeatInterval)
		default:
			continue
		}
		if g.plan < 0 {
			g.plan = len(all)
			all = append(all, plan{g, due})
		} else if p := &all[g.plan]; due.Before(p.due) {
			p.due = due
		}
	}
	maps.DeleteFunc(b.groups, func(_ string, g *group) bool { return g.round != b.round && now.Sub(g.lastSent) > b.spec.GroupInterval })
	for i := range all {
		p := &all[i]
		p.due = latest(p.due, p.notBefore)
		if !p.lastSent.IsZero() {
			p.due = latest(p.due, p.lastSent.Add(b.spec.GroupInterval))
		}
	}
	b.planned = all
	return all
}

// quietLook is the pause between two looks at the clock in quiet hours: it may be set.
const quietLook = time.Minute

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// next returns the groups of the message to send now, or the time of the next call; the zero time is never.
// If merge is set and the rate limit allows only one more message, that message has all groups that are due.
func (b *book) next(now time.Time, merge bool) (groups []plan, at time.Time) {
	if b.isQuiet(now) {
		return nil, earlier(b.nextUpdate(now), earliest(b.quietUntil, now.Add(quietLook)))
	}
	var due []plan
	for _, p := range b.plans(now) {
		if !p.due.After(now) {
			due = append(due, p)
		} else if at.IsZero() || p.due.Before(at) {
			at = p.due
		}
	}
	slices.SortFunc(due, func(x, y plan) int {
		return cmp.Or(x.lastTry.Compare(y.lastTry), x.due.Compare(y.due), cmp.Compare(x.name, y.name))
	})
	if t := b.nextUpdate(now); at.IsZero() || !t.IsZero() && t.Before(at) {
		at = t
	}
	switch {
	case len(due) == 0:
		return nil, at
	case b.sent.Next(b.limit).After(now):
		return nil, b.sent.Next(b.limit)
	case merge && b.sent.Take(b.limit, now).Next(b.limit).After(now): // the last message within the limit
		return due, at
	default:
		return due[:1], at
	}
}

// nextUpdate returns when [book.update] may next change something; the zero time is never.
func (b *book) nextUpdate(now time.Time) (at time.Time) {
	for it := range b.items.each() {
		for _, t := range []time.Time{b.owedAt(it), it.checkAt(), it.steadyAt()} {
			if t.After(now) && (at.IsZero() || t.Before(at)) {
				at = t
			}
		}
	}
	return at
}

func (b *book) owedAt(it *item) (at time.Time) {
	if it.state != quiet && !it.held && it.state != it.expectedState() {
		at = b.due(it)
	}
	return at
}

func (it *item) checkAt() (at time.Time) {
	if it.maybeGone {
		at = it.check
	}
	return at
}

// take returns the items for a message about groups, and takes a token of the rate limit. New items are owed
// from now on. Each item gets its newest cause, which is in the message.
func (b *book) take(groups []plan, now time.Time, newest func(*item) states.Cause) (items []*item) {
	b.sent = b.sent.Take(b.limit, now)
	taken := make(map[*group]bool)
	for _, p := range groups {
		taken[p.group] = true
		p.lastTry = now
	}
	for it := range b.items.each() {
		if !taken[b.groupOf(it)] {
			continue
		}
		switch {
		case it.withheld():
		case it.state == quiet, it.state == it.told:
			items = append(items, it)
		case !now.Before(b.ready(it)):
			it.setOwed()
			items = append(items, it)
		case it.told != quiet || it.owed:
			items = append(items, it)
		}
	}
	for _, it := range items {
		it.cause, it.flaps = newest(it), b.flapsOf(it, now)
		it.sending, it.sent, it.sentGen, it.sentCause = true, it.state, it.gen, it.cause
	}
	slices.SortFunc(items, func(x, y *item) int {
		return cmp.Or(cmp.Compare(severity(y.state), severity(x.state)), y.since.Compare(x.since), x.compare(&y.Key))
	})
	return items
}

// delivered records that the receiver accepted a message about items. They may have changed since.
func (b *book) delivered(groups []plan, items []*item, now time.Time) {
	for _, p := range groups {
		p.lastSent, p.notBefore = now, time.Time{}
	}
	for _, it := range items {
		it.sending, it.told, it.toldCause = false, it.sent, it.sentCause
		if it.sent == quiet && it.gen != it.sentGen {
			it.since = it.began
		}
		if it.owedGen <= it.sentGen {
			it.clearOwed()
		}
		b.removeIfSettled(it)
	}
}

// failed records that a message about items was not delivered.
func (b *book) failed(items []*item) {
	for _, it := range items {
		it.sending = false
		it.clearIfKnown()
		b.removeIfSettled(it)
	}
}

// refusedWait is the time before a refused message is sent again, if no repeat interval is configured.
const refusedWait = 4 * time.Hour

// refused records that the receiver refused a message: it is not sent again before the repeat interval, or
// refusedWait without one, unless the group changes.
func (b *book) refused(groups []plan, now time.Time) {
	for _, p := range groups {
		p.notBefore = now.Add(cmp.Or(b.spec.RepeatInterval, refusedWait))
	}
}

// pending returns the number of incidents with something to send, and the number of incidents that are
// open for the receiver.
func (b *book) pending() (pending, open int) {
	for it := range b.items.each() {
		if !it.withheld() && (it.owed || it.state != it.told || it.causeChanged()) {
			pending++
		}
		if it.told != quiet {
			open++
		}
	}
	return pending, open
}

// force makes all incidents due that have lasted long enough, for the last messages of an agent.
func (b *book) force(now time.Time) {
	b.sent = pace.Bucket{}
	for it := range b.items.each() {
		if it.state != it.told && !it.withheld() && !now.Before(b.ready(it)) {
			if it.state == quiet {
				it.owed = true
			} else {
				it.setOwed()
			}
		}
	}
	for _, g := range b.groups {
		g.lastSent, g.notBefore = time.Time{}, time.Time{}
	}
}
