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
// annotation [declared.Annotation], or that a policy of the cluster selects. The kubelet runs them.
//
// Call [New], then make a manager with the source as Status and a tracker of states with the source as
// reader. Then call Start with that manager, and Stop at the end.
type Source struct {
	cfg   Config
	host  pods.Host
	log   *slog.Logger
	since time.Time // of this agent

	store   manager.StatusStore
	feed    pods.Feed
	watched *watched // the pods at the API server
	spaces  *namespaces
	chosen  *policies
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
	spent    spent      // time used by attempts

	mu           sync.Mutex
	synced       bool // the pods of the node are known
	pods         map[types.UID]*pod
	preparing    map[types.UID][]string    // by waiting pod: its plugins, which are slow to prepare
	preparations map[string]*preparation   // by namespace
	edits        map[types.UID]pace.Bucket // recent changes by pod; kept after the pod is removed
	unprobed     map[types.UID]bool        // pods with a NotProbed event: they have the gate and no probe for it
}

// pod is a pod with the annotation or a policy. The mutex of its Source guards all fields that the report loop does not own.
type pod struct {
	latest *v1.Pod           // newest object from the API server, trimmed; read-only
	ids    map[string]string // containers by ID, of the last published status
	gone   bool              // it was deleted, has ended, or has lost its annotation and policies
	left   *v1.Pod           // the object at that time; nil if it was deleted

	// An attempt sets these.
	plan           *plan     // the plan given to the manager; nil before the first attempt
	prior          *v1.Pod   // with the status left by an earlier agent
	shown          *v1.Pod   // for readers and events
	changes        int       // number of changes of its probes in the manager that have begun, plus those that have ended; odd during a change
	missedFailure  bool      // a probe failed during a change
	halted         bool      // its liveness and startup probes were stopped
	failed         []error   // errors that a change of a plugin may resolve
	inPod          bool      // its probes are carried out in its own network
	network        string    // path of its network namespace
	awaitsNetwork  bool      // the path is not known yet
	invalidMessage string    // message of the last event about an invalid probe
	slow           int       // consecutive preparations of its plugins that took longer than patience
	notBefore      time.Time // earliest time of the next apply

	// The report loop owns these.
	reported map[probeKey]states.State // state in the last event
	earlier  map[probeKey]states.State // state in the last event of an earlier agent; deleted at the first own state
	running  map[string]string         // container ID, by name
	renewed  map[string]bool           // containers that were started again, and are not ready since
}

func newPod(latest *v1.Pod) *pod {
	return &pod{latest: latest, reported: make(map[probeKey]states.State), running: make(map[string]string), renewed: make(map[string]bool)}
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
	s.chosen = newPolicies(cfg.NodeProbes, s)
	s.watched, s.spaces = newWatched(cfg.Pods, s), newNamespaces(cfg.Namespaces, s)
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
		// priorOf finds the containers that an earlier agent has probed, from their published conditions.
		// So the grace period need not cover containers that started right before this agent.
		RestartGrace: time.Nanosecond,
	}
}

// Start follows the pods until ctx ends, and their probes until Stop. The manager gets the first probes
// after the API server has listed all pods.
func (s *Source) Start(ctx context.Context, m *manager.Manager) {
	s.manager = m
	end, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	follow, stop := context.WithCancel(end) // ends with ctx, too
	context.AfterFunc(ctx, stop)
	updates := m.Subscribe(end)
	loops := []func(){
		func() { s.watched.run(follow) },
		func() { s.spaces.run(follow) },
		func() { s.chosen.run(follow) },
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

// Stop ends the probes, and leaves the pods and their conditions as they are. [Config].Conditions may
// write pending conditions for a few more seconds.
func (s *Source) Stop(context.Context) error {
	s.states.stop()
	s.cancel()
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.pods))
	s.mu.Unlock()
	for _, p := range all { // the loops have ended
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

// Restarts implements [manager.RestartSource]. It returns false: liveness probes continue after a failure.
func (s *Source) Restarts(*v1.Pod, *v1.Container) bool { return false }

// Pods returns the pods with the annotation or a policy.
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

// Watch returns the changes of the pods; see [pods.Feed.Watch].
func (s *Source) Watch(ctx context.Context) iter.Seq[pods.Change] { return s.feed.Watch(ctx, s.Pods) }

// current returns a pod with its newest status; nil if the pod is not known or has no status.
func (s *Source) current(uid types.UID) *v1.Pod {
	s.mu.Lock()
	p := s.pods[uid]
	if p == nil || p.gone || p.shown == nil {
		s.mu.Unlock()
		return nil
	}
	pod := *p.plan.pod                                 // with the hooks of its containers
	pod.DeletionTimestamp = p.latest.DeletionTimestamp // plan.pod may be older
	pod.Labels = p.latest.Labels                       // without the ones of its namespace, which select no pods
	s.mu.Unlock()
	status, ok := s.store.PodStatus(uid)
	if !ok {
		return nil
	}
	pod.Status = status
	return &pod
}

// party returns the workload of a pod, and whether its gate or an action depends on its probes.
func (s *Source) party(uid types.UID) (liveness.Party, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[uid]
	if p == nil || p.gone || p.plan == nil {
		return liveness.Party{}, false
	}
	return p.party(), true
}

// party returns the party of a pod that has a plan. The caller holds the mutex of the Source.
func (p *pod) party() liveness.Party {
	return liveness.PartyOf(p.latest, isGated(p.latest), p.plan.mode == liveness.Restart || p.plan.mode == liveness.Evict)
}

// failing reports whether the decided result of the running container is a failure.
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

// asked returns the liveness mode of a pod, and whether a probe is paused.
func (s *Source) asked(uid types.UID, container string, kind probe.Kind) (mode liveness.Mode, paused bool) {
	now, _ := s.manager.Latest(manager.Key{PodUID: uid, Container: container, Kind: kind})
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pods[uid]; p != nil && p.plan != nil {
		return p.plan.mode, now.Paused
	}
	return liveness.Observe, now.Paused
}

// stalled returns how long a probe has been due while no probe was run.
func (s *Source) stalled() time.Duration {
	if s.manager == nil {
		return 0
	}
	return s.manager.Stalled()
}
