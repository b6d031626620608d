package kube

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/internal/pace"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/pods/kube/liveness"
	"github.com/daeace23/prober/pods/kube/queue"
	"github.com/daeace23/prober/probe"
)

// Source is the source of pods of `prober node`: the pods of a node of a cluster that have the
// annotation [declared.Annotation]. The kubelet runs them.
//
// Its life: [New], then a manager with it as Status and a tracker of states with it as reader, Start
// with that manager, and Stop.
type Source struct {
	cfg   Config
	host  pods.Host
	log   *slog.Logger
	since time.Time // of this agent

	store   manager.StatusStore
	feed    pods.Feed
	watched *watched // the pods at the API server
	events  Recorders
	actor   Actor
	manager *manager.Manager // set once by Start
	states  stateTable
	lease   lease

	cancel context.CancelFunc // ends the loops; set by Start
	loops  sync.WaitGroup

	// The queues of the loops. None of the loops waits for another.
	toApply, toPublish, toReport, toPrepare *queue.Queue

	applying sync.Mutex // held by an attempt, which adds probes to the manager and removes them
	spent    spent      // by attempts

	mu           sync.Mutex
	synced       bool // the pods of the node are known
	pods         map[types.UID]*pod
	preparing    map[types.UID][]string    // plugins that take long, of pods that wait for them
	preparations map[string]*preparation   // by namespace
	edits        map[types.UID]pace.Bucket // of pods that have changed lately, and were perhaps removed meanwhile
	unprobed     map[types.UID]bool        // pods with the gate of which an event has told that nothing decides it
}

// pod is a pod with the annotation. The mutex of its Source guards all but what the report loop owns.
type pod struct {
	latest *v1.Pod           // as the API server has told last, trimmed; read-only
	ids    map[string]string // containers by ID, of the last published status
	gone   bool              // it was deleted, has ended, or has lost the annotation
	left   *v1.Pod           // as it is then; nil if it was deleted

	// An attempt sets these.
	plan    *plan     // what the manager has; nil before the first attempt
	prior   *v1.Pod   // with the status that an earlier agent has left
	shown   *v1.Pod   // for readers and events
	changes int       // how often an attempt has begun or ended to change them in the manager: odd while it does
	missed  bool      // one of its probes has failed meanwhile
	halted  bool      // its liveness and startup probes were stopped
	failed  []error   // what a plugin may mend
	inPod   bool      // its probes are carried out in its own network
	network string    // path of its network namespace
	waits   bool      // for that path
	told    string    // message of the last event about an invalid probe
	slow    int       // how often in a row its plugins have taken longer than patience
	again   time.Time // not applied before

	// The report loop owns these.
	known   map[probeKey]states.State // what the last event has told
	earlier map[probeKey]states.State // what an event of an earlier agent has told, up to the first state
	running map[string]string         // IDs of containers, by name
	renewed map[string]bool           // containers whose ID has changed and that no probe has seen ready
}

func newPod(latest *v1.Pod) *pod {
	return &pod{latest: latest, known: make(map[probeKey]states.State), running: make(map[string]string), renewed: make(map[string]bool)}
}

var (
	_ manager.RestartSource   = (*Source)(nil)
	_ manager.StatusPublisher = (*Source)(nil)
)

// New returns a source that follows no pods before Start.
func New(cfg Config, host pods.Host) (*Source, error) {
	if cfg.Policy == nil {
		cfg.Policy = config.DefaultKubernetes()
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	s := &Source{
		cfg: cfg, host: host, log: host.Logger, since: time.Now(), cancel: func() {}, pods: make(map[types.UID]*pod), preparing: make(map[types.UID][]string), preparations: make(map[string]*preparation), edits: make(map[types.UID]pace.Bucket), unprobed: make(map[types.UID]bool),
		toApply: queue.New(), toPublish: queue.New(), toReport: queue.New(), toPrepare: queue.New(),
	}
	s.store.Changed = func(pod *v1.Pod, _ v1.PodStatus) { s.feed.Changed(pod, s.store.PodStatus) }
	s.watched = newWatched(cfg.Pods, s)
	s.events = Recorders{cfg.Events, host.Recorder}
	s.actor = cfg.Act(liveness.Config{
		Current: s.current, Party: s.party, Failing: s.failing, Asked: s.asked, Stalled: s.stalled, Recorder: s.events, Logger: host.Logger,
	})
	return s, nil
}

// ForAgent returns the source as an agent uses it.
func (s *Source) ForAgent() pods.Source {
	return pods.Source{
		Status: s, Start: s.Start, Stop: s.Stop, Pods: s.Pods, Watch: s.Watch,
		Reload: s.Reload, RunInContainer: s.RunInContainer, States: s, Troubles: s.Troubles,
		NetworkOf: s.NetworkOf, Guard: s.CheckTarget, NodeCounts: s.NodeCounts,
		// The source itself says which containers an earlier agent has probed, from the conditions that it
		// has published; see priorOf. So a container may have started right before
		// the agent.
		RestartGrace: time.Nanosecond,
	}
}

// Start follows the pods until ctx ends, and their probes until Stop. The manager gets them when the
// API server has listed all.
func (s *Source) Start(ctx context.Context, m *manager.Manager) {
	s.manager = m
	end, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	follow, stop := context.WithCancel(end) // ends with ctx, too
	context.AfterFunc(ctx, stop)
	updates := m.Subscribe(end)
	loops := []func(){
		func() { s.watched.run(follow) },
		func() { s.applyLoop(follow) },
		func() { s.toPublish.Each(end, s.publish) },
		func() { s.followResults(updates) },
		func() { s.reportLoop(end) },
		func() { s.actor.Run(end) },
		func() { s.renewLease(end) },
	}
	for range preparers {
		loops = append(loops, func() { s.prepareLoop(follow) })
	}
	if s.cfg.Runtime != nil {
		loops = append(loops, func() { s.cfg.Runtime.Run(end, s.runtimeChanged) })
	}
	for _, loop := range loops {
		s.loops.Go(loop)
	}
	write, stopWriting := context.WithCancel(context.WithoutCancel(ctx))
	var writing sync.WaitGroup
	writing.Go(func() { s.cfg.Conditions.Run(write) })
	writing.Go(func() { s.cfg.Events.Run(write) })
	s.cancel = func() {
		cancel()
		s.loops.Wait()
		for _, uid := range s.toReport.Take() {
			s.report(uid)
		}
		stopWriting()
		writing.Wait()
		if n := s.cfg.Conditions.Counts().Pending; n > 0 {
			s.log.Warn("conditions of pods were not written before the end", "pods", n)
		}
	}
}

// Stop ends the probes, and leaves the pods and their conditions as they are. Conditions that are not
// written yet get the time that [Config].Conditions takes at its end.
func (s *Source) Stop(context.Context) error {
	s.states.stop()
	s.cancel()
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.pods))
	s.mu.Unlock()
	for _, p := range all { // nobody else uses them any more
		if p.plan != nil {
			s.manager.RemovePod(p.shown)
		}
		s.store.RemovePod(p.latest.UID)
	}
	if s.cfg.Runtime != nil {
		return s.cfg.Runtime.Close()
	}
	return nil
}

// PodStatus implements [manager.StatusSource].
func (s *Source) PodStatus(uid types.UID) (v1.PodStatus, bool) { return s.store.PodStatus(uid) }

// WatchStatus implements [manager.StatusPublisher].
func (s *Source) WatchStatus(uid types.UID, publish func(*v1.PodStatus)) (stop func()) {
	return s.store.WatchStatus(uid, publish)
}

// Restarts implements [manager.RestartSource]: a failure restarts nothing by itself, and liveness probes
// go on.
func (s *Source) Restarts(*v1.Pod, *v1.Container) bool { return false }

// Pods returns the pods with the annotation.
func (s *Source) Pods() []v1.Pod {
	s.mu.Lock()
	shown := make([]*v1.Pod, 0, len(s.pods))
	for _, p := range s.pods {
		if p.shown != nil {
			shown = append(shown, p.shown)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(shown, func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	all := make([]v1.Pod, 0, len(shown))
	for _, pod := range shown {
		if status, ok := s.store.PodStatus(pod.UID); ok {
			all = append(all, *pod)
			all[len(all)-1].Status = status
		}
	}
	return all
}

// Watch returns the changes of the pods, see [pods.Feed.Watch].
func (s *Source) Watch(ctx context.Context) iter.Seq[pods.Change] { return s.feed.Watch(ctx, s.Pods) }

// current returns a pod with its newest status; nil if there is none.
func (s *Source) current(uid types.UID) *v1.Pod {
	s.mu.Lock()
	p := s.pods[uid]
	if p == nil || p.gone || p.shown == nil {
		s.mu.Unlock()
		return nil
	}
	pod := *p.plan.pod                                 // with the hooks of its containers
	pod.DeletionTimestamp = p.latest.DeletionTimestamp // of which no attempt needs to know yet
	s.mu.Unlock()
	status, ok := s.store.PodStatus(uid)
	if !ok {
		return nil
	}
	pod.Status = status
	return &pod
}

// party returns whose a pod is, and what depends on its probes.
func (s *Source) party(uid types.UID) (liveness.Party, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[uid]
	if p == nil || p.gone || p.plan == nil {
		return liveness.Party{}, false
	}
	return p.party(), true
}

// party returns whose the pod is. It has a plan, and the caller the lock.
func (p *pod) party() liveness.Party {
	return liveness.PartyOf(p.latest, isGated(p.latest), p.plan.mode == liveness.Restart || p.plan.mode == liveness.Evict)
}

// failing reports whether the decided result of the present container is a failure of an attempt.
func (s *Source) failing(uid types.UID, container string, kind probe.Kind) bool {
	status, ok := s.store.PodStatus(uid)
	if !ok {
		return false
	}
	for _, list := range [...][]v1.ContainerStatus{status.ContainerStatuses, status.InitContainerStatuses} {
		for i := range list {
			c := &list[i]
			if c.Name == container && c.ContainerID != "" && c.State.Running != nil {
				r, decided := s.manager.Results(kind).Get(c.ContainerID)
				return decided && r == results.Failure
			}
		}
	}
	return false
}

// asked returns the mode that a pod asks for, and whether a probe is paused.
func (s *Source) asked(uid types.UID, container string, kind probe.Kind) (mode liveness.Mode, paused bool) {
	now, _ := s.manager.Latest(manager.Key{PodUID: uid, Container: container, Kind: kind})
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pods[uid]; p != nil && p.plan != nil {
		return p.plan.mode, now.Paused
	}
	return liveness.Observe, now.Paused
}

// stalled returns how long a probe has been due while none was run.
func (s *Source) stalled() time.Duration {
	if s.manager == nil {
		return 0
	}
	return s.manager.Stalled()
}
