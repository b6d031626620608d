package notify

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/agent/notify/format"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/probe"
)

// Config is what a [Notifier] needs. Log is required.
type Config struct {
	Log *slog.Logger
	// Mark is a variable for the environment of commands, which finds what they leave behind; "" for none.
	Mark string
	// StateFile keeps what receivers know over restarts; "": it is forgotten.
	StateFile string
	// Exists reports whether there is such a probe now. It is called by the goroutines of receivers. nil:
	// every probe that was removed is gone.
	Exists func(Key) bool
	// Current returns the present state of a probe, with the cause of its newest attempt. It is called by the
	// goroutines of receivers. nil: messages have the cause of the last change.
	Current func(podUID, container string, kind probe.Kind) states.Status
	// UplinkDown reports whether the witnesses of the network do not answer: then no message says that a probe
	// is unknown for lack of the network. nil: they always answer.
	UplinkDown func() bool
	// Dial connects to webhooks and smarthosts; nil: over the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Notifier tells receivers of changes. It tells nobody before [Notifier.Set]. A change costs a tick the
// insertion into a map for each receiver, which has the newest state of each probe: nothing can overflow, and
// a receiver that is slow or away delays no tick.
type Notifier struct {
	cfg     Config
	saver   *saver
	changed chan struct{} // receives when there are receivers to be started

	mu        sync.Mutex
	bad       map[Key]*change // the state of each probe that is not well
	receivers []*receiver
	counts    map[string]*counts // by receiver, also of those that are gone
}

// counts are what became of the messages of a receiver.
type counts struct{ ok, errors, refused, dropped atomic.Uint64 }

var _ states.Reader = (*Notifier)(nil)

// New returns a notifier that must be run. It reads the state file.
func New(cfg Config) *Notifier {
	if cfg.Exists == nil {
		cfg.Exists = func(Key) bool { return false }
	}
	if cfg.UplinkDown == nil {
		cfg.UplinkDown = func() bool { return false }
	}
	if cfg.Dial == nil {
		cfg.Dial = new(net.Dialer).DialContext
	}
	n := &Notifier{cfg: cfg, changed: make(chan struct{}, 1), bad: make(map[Key]*change), counts: make(map[string]*counts)}
	n.saver = newSaver(cfg.StateFile, cfg.Log, n.saved)
	return n
}

// Changed implements [states.Reader].
func (n *Notifier) Changed(c *states.Change) {
	if c.To == states.Unknown && !c.Removed && c.Reason == string(probe.ReasonHostNetwork) && n.cfg.UplinkDown() {
		return // the witnesses tell it
	}
	x := &change{
		key: Key{c.Info.Namespace, c.Info.Pod, c.Info.Container, c.Info.Kind}, uid: c.Info.PodUID, handler: c.Info.Handler, target: c.Target,
		state: c.To, removed: c.Removed, at: c.Time, cause: c.Cause,
	}
	if x.state == quiet {
		x.cause = c.Was // which the end of the incident is told with
	}
	x.cause.Text = keep(x.cause.Text)
	n.mu.Lock()
	defer n.mu.Unlock()
	if old := n.bad[x.key]; x.removed && old != nil && old.uid != x.uid {
		return // a new pod of that name
	}
	if x.removed || x.state == quiet {
		delete(n.bad, x.key)
	} else {
		n.bad[x.key] = x
	}
	for _, r := range n.receivers {
		r.noteLocked(x)
	}
}

// maxTextKept is the most bytes of a text in a book.
const maxTextKept = 512

// keep returns as much of a text as books keep.
func keep(text string) string {
	return strings.Clone(clip.Bytes(text, maxTextKept))
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Set replaces the receivers; nil is none. Those that are the same go on, and a receiver that has changed
// takes over what the one of its name knows. Paths are from the folder of configFile. It is not called
// concurrently, and does not wait for receivers.
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
	case !before.started: // it has nothing of its own
		r.before, r.saved = before.before, before.saved
		maps.Copy(r.dirty, before.dirty)
	}
	maps.Copy(r.dirty, n.bad)
	return r
}

// Run runs the receivers until ctx ends. What is being sent then has 2 s more, and without a state file
// what is left is tried once.
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

// current returns the receivers.
func (n *Notifier) current() []*receiver {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.receivers)
}

// Check returns an error for each receiver whose template cannot be used, with its place in configFile. It
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
		w := &webhook{r.Webhook, configFile, nil}
		for _, m := range []*format.Message{example(r.Name, c.ExternalURL), newSender(c.ExternalURL, nil).test(r.Name, time.Now())} {
			if _, err := w.rendered(m); err != nil {
				errs = append(errs, placed(configFile, r, err))
				break
			}
		}
	}
	return errs
}
