package notify

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/agent/notify/format"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/probe"
)

// Config configures a [Notifier]. Log is required.
type Config struct {
	Log *slog.Logger
	// Mark is an environment variable, NAME=VALUE, for commands. It identifies processes that they leave
	// behind; "" for none.
	Mark string
	// StateFile saves the state of receivers across restarts; "" saves nothing.
	StateFile string
	// Exists reports whether a probe exists now. The goroutines of receivers call it. nil: every probe
	// that was removed is gone.
	Exists func(Key) bool
	// Current returns the present state of a probe, with the cause of its newest attempt. The goroutines of
	// receivers call it. nil: messages have the cause of the last change.
	Current func(podUID, container string, kind probe.Kind) states.Status
	// Labels returns the labels of a probe's pod or target, which are read-only; false if the probe does not
	// exist. It is called at each change, and by [Notifier.Relabel]. nil: probes have no labels.
	Labels func(podUID, container string, kind probe.Kind) (map[string]string, bool)
	// UplinkDown reports whether the witnesses of the network do not respond. Meanwhile no message reports a
	// probe that is unknown for lack of the network. nil: they always respond.
	UplinkDown func() bool
	// Dial connects to webhooks and smarthosts; nil uses [net.Dialer].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Notifier notifies receivers of changes. It has no receivers before [Notifier.Set]. For a tick, a change
// costs a map insertion for each receiver. The map holds only the newest state of each probe, so that nothing
// overflows, and a slow receiver delays no tick.
type Notifier struct {
	cfg     Config
	saver   *saver
	changed chan struct{} // receives when there are receivers to start

	mu        sync.Mutex
	unwell    map[Key]*change    // the states of probes that are not well
	held      map[Key]maintained // probes in a maintenance window
	receivers []*receiver
	counts    map[string]*counts // by receiver, also of removed ones
}

// maintained is a probe in a maintenance window.
type maintained struct {
	uid       string   // of its pod
	all       bool     // the window concerns all receivers
	receivers []string // or these; read-only
}

// counts counts the messages of a receiver by result.
type counts struct{ ok, errors, refused, dropped atomic.Uint64 }

var _ states.Reader = (*Notifier)(nil)

// New returns a notifier, and reads the state file. The caller must call [Notifier.Run].
func New(cfg Config) *Notifier {
	if cfg.Exists == nil {
		cfg.Exists = func(Key) bool { return false }
	}
	if cfg.Labels == nil {
		cfg.Labels = func(string, string, probe.Kind) (map[string]string, bool) { return nil, false }
	}
	if cfg.UplinkDown == nil {
		cfg.UplinkDown = func() bool { return false }
	}
	if cfg.Dial == nil {
		cfg.Dial = new(net.Dialer).DialContext
	}
	n := &Notifier{cfg: cfg, changed: make(chan struct{}, 1), unwell: make(map[Key]*change), held: make(map[Key]maintained), counts: make(map[string]*counts)}
	n.saver = newSaver(cfg.StateFile, cfg.Log, n.saved)
	return n
}

// Changed implements [states.Reader].
func (n *Notifier) Changed(c *states.Change) {
	if c.Forced {
		return // somebody has decided it, and the state of the attempts is the same
	}
	if reason := probe.Reason(c.Reason); c.To == states.Unknown && !c.Removed {
		if n.isBehind(reason) {
			return // what fails there is notified instead
		}
		if c.From == states.Unknown && reason == probe.ReasonUndecided {
			return // a push without a report yet fails in time, and so do the endpoints that wait for it
		}
	}
	x := &change{
		key: keyOf(&c.Info), uid: c.Info.PodUID, handler: c.Info.Handler, target: c.Target,
		state: c.To, removed: c.Removed, at: c.Time, cause: c.Cause,
	}
	if x.state == quiet {
		x.cause = c.Was // reported with the end of the incident
	}
	x.cause.Text = clipText(x.cause.Text)
	x.labels, _ = n.cfg.Labels(x.uid, x.key.Container, x.key.Kind)
	n.mu.Lock()
	defer n.mu.Unlock()
	x.holdBy(n.held[x.key], x.at)
	if old := n.unwell[x.key]; x.removed && old != nil && old.uid != x.uid {
		return // the removed pod was replaced by one of the same name
	}
	if x.removed || x.state == quiet {
		delete(n.unwell, x.key)
	} else {
		n.unwell[x.key] = x
	}
	for _, r := range n.receivers {
		r.noteLocked(x)
	}
}

// Maintain records whether a probe is in a maintenance window of all receivers from now on, and the names of
// receivers in whose windows it is, which must not change later. Within a window the receivers get no message
// about the probe, except about the end of a failure. A failure that lasts at the end of the window counts as if
// it began then.
func (n *Notifier) Maintain(i *worker.Info, all bool, receivers []string, now time.Time) {
	key := keyOf(i)
	labels, exists := n.cfg.Labels(i.PodUID, i.Container, i.Kind)
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case all || len(receivers) > 0:
		n.held[key] = maintained{i.PodUID, all, receivers}
	case n.held[key].uid == i.PodUID: // otherwise a pod of the same name is in the window
		delete(n.held, key)
	}
	x := n.unwell[key]
	if x == nil {
		return
	}
	next := *x
	if !next.holdBy(n.held[key], now) {
		return
	}
	if exists {
		next.labels = labels
	}
	n.unwell[key] = &next
	for _, r := range n.receivers {
		r.noteLocked(&next)
	}
}

// holdBy sets the windows of a new state or a copy of one, and reports whether they differ from before.
func (c *change) holdBy(m maintained, now time.Time) (changed bool) {
	changed = c.held.in != m.all
	c.held, c.heldFor = c.held.turn(m.all, now), maps.Clone(c.heldFor)
	for name, h := range c.heldFor {
		in := slices.Contains(m.receivers, name)
		changed = changed || in != h.in
		c.heldFor[name] = h.turn(in, now)
	}
	for _, name := range m.receivers {
		if _, ok := c.heldFor[name]; ok {
			continue
		}
		if c.heldFor == nil {
			c.heldFor = make(map[string]hold)
		}
		c.heldFor[name], changed = hold{in: true}, true
	}
	return changed
}

func keyOf(i *worker.Info) Key { return Key{i.Namespace, i.Pod, i.Container, i.Kind} }

// Relabel makes receivers select the probes that are not well by their present labels. It must be called
// after pods have changed.
func (n *Notifier) Relabel() {
	n.mu.Lock()
	all := slices.Collect(maps.Values(n.unwell))
	n.mu.Unlock()
	relabelled := make(map[*change]*change)
	for _, x := range all {
		labels, exists := n.cfg.Labels(x.uid, x.key.Container, x.key.Kind)
		if exists && !maps.Equal(labels, x.labels) {
			next := *x
			next.labels = labels
			relabelled[x] = &next
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for x, next := range relabelled {
		if n.unwell[x.key] != x {
			continue // it has changed since, with its present labels
		}
		n.unwell[x.key] = next
		for _, r := range n.receivers {
			r.noteLocked(next)
		}
	}
}

// isBehind reports whether a probe is unknown because something on the way to its target fails.
func (n *Notifier) isBehind(reason probe.Reason) bool {
	return reason == probe.ReasonDependency || reason == probe.ReasonHostNetwork && n.cfg.UplinkDown()
}

// maxTextKept is the limit of a text in a book, in bytes.
const maxTextKept = 512

// clipText returns a copy of text, cut to maxTextKept.
func clipText(text string) string {
	return strings.Clone(clip.Bytes(text, maxTextKept))
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Set replaces the receivers; nil removes all. Unchanged receivers continue. A changed receiver takes over
// the state of the old one with the same name. Paths are relative to the folder of configFile. Set must not
// be called concurrently, and does not wait for receivers.
func (n *Notifier) Set(configFile string, c *config.Notify) {
	if c == nil {
		c = &config.Notify{}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	var now []*receiver
	for i := range c.Receivers {
		spec := &c.Receivers[i]
		at := slices.IndexFunc(n.receivers, func(r *receiver) bool { return r.spec.Name == spec.Name })
		var before *receiver
		if at >= 0 {
			before = n.receivers[at]
		}
		if before != nil && before.spec.Equal(spec) && before.external == c.ExternalURL {
			now = append(now, before)
			continue
		}
		now = append(now, n.newReceiverLocked(configFile, c.ExternalURL, spec, before))
	}
	for _, r := range n.receivers {
		if !slices.Contains(now, r) {
			close(r.quit)
		}
	}
	n.receivers = now
	wake(n.changed)
}

func (n *Notifier) newReceiverLocked(configFile, external string, spec *config.Receiver, before *receiver) *receiver {
	count := n.counts[spec.Name]
	if count == nil {
		count = new(counts)
		n.counts[spec.Name] = count
	}
	r := newReceiver(&n.cfg, configFile, external, spec, count)
	r.before, r.changed = before, n.saver.request
	r.take = func(of *receiver) map[Key]*change {
		n.mu.Lock()
		defer n.mu.Unlock()
		taken := of.dirty
		of.dirty = make(map[Key]*change)
		return taken
	}
	switch {
	case before == nil:
		r.saved = n.saver.take(spec.Name)
	case !before.started: // it has no book of its own yet
		r.before, r.saved = before.before, before.saved
		maps.Copy(r.dirty, before.dirty)
	}
	maps.Copy(r.dirty, n.unwell)
	return r
}

// Run runs the receivers until ctx ends. Messages in flight then have 2 s more. Without a state file,
// it sends pending messages once, without retries.
func (n *Notifier) Run(ctx context.Context) {
	var running, saving sync.WaitGroup
	end := make(chan struct{})
	saving.Go(func() { n.saver.run(end) })
	for ctx.Err() == nil {
		n.mu.Lock()
		for _, r := range n.receivers {
			if !r.started {
				r.started = true
				running.Go(func() { r.run(ctx) })
			}
		}
		n.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-n.changed:
		}
	}
	running.Wait()
	close(end)
	saving.Wait()
}

// receiverList returns a copy of the list of receivers.
func (n *Notifier) receiverList() []*receiver {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.receivers)
}

// Check returns an error for each receiver with an invalid template, with its position in configFile. It
// reads no secrets.
func Check(configFile string, c *config.Notify) []error {
	if c == nil {
		return nil
	}
	var errs []error
	for i := range c.Receivers {
		r := &c.Receivers[i]
		if r.Webhook == nil || r.Webhook.Format != config.TemplateFormat {
			continue
		}
		w := &webhook{r, configFile, nil}
		for _, m := range []*format.Message{example(r, c.ExternalURL), newSender(r, c.ExternalURL, nil).test(r.Name, time.Now())} {
			if _, err := w.encode(m, &url.URL{}, ""); err != nil {
				errs = append(errs, fieldError(configFile, r, err))
				break
			}
		}
	}
	return errs
}
