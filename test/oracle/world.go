package oracle

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/manager"
)

// world is the input of one side: the pods and their current statuses. Each side has its own, because
// UpdatePodStatus changes the statuses.
type world struct {
	store *manager.StatusStore // publishes the statuses; may be nil

	mu   sync.Mutex // held while a pod's status is changed, and while a side reads it
	pods []*podState
	ids  []string // all container IDs so far
}

type podState struct {
	index  int
	object *v1.Pod // has the status of the last OpPublish
	status v1.PodStatus
	lost   bool           // the status source has no status of the pod
	ids    map[string]int // how many IDs each container has had
}

// newWorld makes the pods of s. handler makes the handlers of network probes. If store is not nil, each new
// status is published to it.
func newWorld(s *Scenario, handler networkHandler, store *manager.StatusStore) *world {
	w := &world{store: store}
	for i, p := range s.Pods {
		w.pods = append(w.pods, &podState{
			index:  i,
			object: podObject(i, p, handler),
			status: v1.PodStatus{Phase: v1.PodRunning, PodIP: "127.0.0.1"},
			ids:    make(map[string]int),
		})
		w.publishLocked(i, w.pods[i].status)
	}
	return w
}

// podIndex returns the index of a pod by its name.
func podIndex(name string) int { return mustAtoi(strings.TrimPrefix(name, "p")) }

func podUID(i int) types.UID { return types.UID(fmt.Sprintf("uid-%d", i)) }

const idScheme = "test://"

func containerID(pod int, name string, n int) string {
	return fmt.Sprintf("%sp%d-%s-%d", idScheme, pod, name, n)
}

// publishLocked publishes a status of a pod, or its removal if the pod is lost.
func (w *world) publishLocked(pod int, status v1.PodStatus) {
	switch p := w.pods[pod]; {
	case w.store == nil:
	case p.lost:
		w.store.RemovePod(podUID(pod))
	default:
		w.store.SetPodStatus(p.object, status)
	}
}

// podStatus returns the status of a pod. It is the status source of both sides, unless the statuses are
// published.
func (w *world) podStatus(uid types.UID) (v1.PodStatus, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, p := range w.pods {
		if podUID(i) == uid && !p.lost {
			return *p.status.DeepCopy(), true
		}
	}
	return v1.PodStatus{}, false
}

// sync calls update with the lock held, so that a worker that update triggers does not see a partly changed
// status. With published statuses a worker does not wait for the lock. In this case next is the status
// that update is expected to make, and sync publishes it first; otherwise next is nil.
func (w *world) sync(pod int, next *v1.PodStatus, update func(*v1.PodStatus)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if next != nil {
		w.publishLocked(pod, *next)
	}
	status := &w.pods[pod].status
	update(status)
	w.publishLocked(pod, *status)
}

// change applies an op that does not call the manager.
func (w *world) change(op Op) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.pods[op.Pod]
	defer func() { w.publishLocked(op.Pod, p.status) }()
	switch op.Do {
	case OpPhase:
		p.status.Phase = v1.PodPhase(op.Value)
	case OpLose, OpFind:
		p.lost = op.Do == OpLose
	case OpReady:
		setCondition(&p.status, v1.PodReady, op.Value)
	case OpRestarting:
		setCondition(&p.status, v1.AllContainersRestarting, op.Value)
	case OpPublish:
		p.object.Status = *p.status.DeepCopy()
	case OpDelete:
		p.object.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		p.object.DeletionGracePeriodSeconds = new(int64(30))
	case OpVanish:
		p.vanish(op.Container)
	case OpEmpty:
		for _, l := range p.lists() {
			*l.statuses = nil
		}
	case OpReverse:
		for _, l := range p.lists() {
			slices.Reverse(*l.statuses)
		}
	default:
		p.containerStatus(op.Container, func(c *v1.ContainerStatus) { w.changeLocked(op, p, c) })
	}
}

// changeLocked applies an op that changes the status of a container.
func (w *world) changeLocked(op Op, p *podState, c *v1.ContainerStatus) {
	switch op.Do {
	case OpStart:
		if !op.SameID || c.ContainerID == "" {
			p.ids[c.Name]++
			c.ContainerID = containerID(p.index, c.Name, p.ids[c.Name])
			w.ids = append(w.ids, c.ContainerID)
		}
		if c.State.Terminated != nil {
			c.LastTerminationState = c.State
		}
		started := time.Now().Add(-time.Duration(op.Age))
		c.State = v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.Time{Time: started}}}
	case OpExit:
		c.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: op.Code}}
	case OpWait:
		c.State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	case OpCreate:
		c.State = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating"}}
		c.ContainerID = ""
	}
	switch op.Started {
	case "true", "false":
		c.Started = new(op.Started == "true")
	case "nil":
		c.Started = nil
	}
}

// containerStatus calls f with the status of a container. If there is none, it first adds one, in the order
// of the spec.
func (p *podState) containerStatus(name string, f func(*v1.ContainerStatus)) {
	for _, l := range p.lists() {
		at := slices.Index(l.names, name)
		if at < 0 {
			continue
		}
		i := slices.IndexFunc(*l.statuses, func(c v1.ContainerStatus) bool { return c.Name == name })
		if i < 0 {
			i = 0
			for _, c := range *l.statuses {
				if slices.Contains(l.names[:at], c.Name) {
					i++
				}
			}
			*l.statuses = slices.Insert(*l.statuses, i, v1.ContainerStatus{Name: name})
		}
		f(&(*l.statuses)[i])
	}
}

func (p *podState) vanish(name string) {
	for _, l := range p.lists() {
		*l.statuses = slices.DeleteFunc(*l.statuses, func(c v1.ContainerStatus) bool { return c.Name == name })
	}
}

type containerList struct {
	names    []string
	statuses *[]v1.ContainerStatus
}

func (p *podState) lists() []containerList {
	spec, status := &p.object.Spec, &p.status
	var ephemeral []string
	for _, c := range spec.EphemeralContainers {
		ephemeral = append(ephemeral, c.Name)
	}
	return []containerList{
		{names(spec.InitContainers), &status.InitContainerStatuses},
		{names(spec.Containers), &status.ContainerStatuses},
		{ephemeral, &status.EphemeralContainerStatuses},
	}
}

func names(containers []v1.Container) (names []string) {
	for _, c := range containers {
		names = append(names, c.Name)
	}
	return names
}

// object returns the pod that op passes to the manager. Each has a different resource version.
func (w *world) object(op Op) *v1.Pod {
	pod := w.pods[op.Pod].object.DeepCopy()
	pod.ResourceVersion = op.At.String()
	if op.Container != "" {
		gone := func(c v1.Container) bool { return c.Name == op.Container }
		pod.Spec.Containers = slices.DeleteFunc(pod.Spec.Containers, gone)
		pod.Spec.InitContainers = slices.DeleteFunc(pod.Spec.InitContainers, gone)
	}
	if op.Changed {
		eachProbeSpec(pod, func(p *v1.Probe) {
			p.PeriodSeconds++
			p.FailureThreshold++
		})
	}
	return pod
}

// eachProbeSpec calls f for every probe of pod.
func eachProbeSpec(pod *v1.Pod, f func(*v1.Probe)) {
	for _, list := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for _, c := range list {
			for _, p := range []*v1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
				if p != nil {
					f(p)
				}
			}
		}
	}
}

func setCondition(s *v1.PodStatus, t v1.PodConditionType, value string) {
	condition := v1.PodCondition{Type: t, Status: v1.ConditionFalse}
	if value == "true" {
		condition.Status = v1.ConditionTrue
	}
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c v1.PodCondition) bool { return c.Type == t })
	s.Conditions = append(s.Conditions, condition)
}

// networkHandler makes the handler of a network probe. kind is Probe.Handler, and name is the probe's name,
// such as "p0/c1/readiness".
type networkHandler func(kind, name string) v1.ProbeHandler

func podObject(i int, p Pod, network networkHandler) *v1.Pod {
	name := fmt.Sprintf("p%d", i)
	var ephemeral []v1.EphemeralContainer
	for _, c := range containerSpecs(name, p.Ephemeral, network) {
		ephemeral = append(ephemeral, v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon(c)})
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: podUID(i)},
		Spec: v1.PodSpec{
			RestartPolicy:       v1.RestartPolicy(p.RestartPolicy),
			Containers:          containerSpecs(name, p.Containers, network),
			InitContainers:      containerSpecs(name, p.InitContainers, network),
			EphemeralContainers: ephemeral,
		},
	}
}

func containerSpecs(pod string, containers []Container, network networkHandler) []v1.Container {
	var specs []v1.Container
	for _, c := range containers {
		spec := v1.Container{
			Name:           c.Name,
			LivenessProbe:  probeSpec(pod, c.Name, "liveness", c.Liveness, network),
			ReadinessProbe: probeSpec(pod, c.Name, "readiness", c.Readiness, network),
			StartupProbe:   probeSpec(pod, c.Name, "startup", c.Startup, network),
			Env: []v1.EnvVar{
				{Name: "FIRST", Value: "1"},
				{Name: "SECOND", Value: "$(FIRST)2"},
				{Name: "FIELD", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
			},
		}
		if c.RestartPolicy != "" {
			spec.RestartPolicy = new(v1.ContainerRestartPolicy(c.RestartPolicy))
		}
		for _, r := range c.Rules {
			spec.RestartPolicyRules = append(spec.RestartPolicyRules, ruleSpec(r))
		}
		specs = append(specs, spec)
	}
	return specs
}

func ruleSpec(r Rule) v1.ContainerRestartRule {
	rule := v1.ContainerRestartRule{Action: v1.ContainerRestartRuleAction(r.Action)}
	if r.Codes == nil {
		return rule
	}
	operator := v1.ContainerRestartRuleOnExitCodesOpIn
	if r.NotIn {
		operator = v1.ContainerRestartRuleOnExitCodesOpNotIn
	}
	if r.Operator != "" {
		operator = v1.ContainerRestartRuleOnExitCodesOperator(r.Operator)
	}
	rule.ExitCodes = &v1.ContainerRestartRuleOnExitCodes{Operator: operator, Values: r.Codes}
	return rule
}

// probeSpec makes a probe. The command of an exec probe begins with the probe's name, by which the runner
// finds its script, and continues with variables in every form.
func probeSpec(pod, container, kind string, p *Probe, network networkHandler) *v1.Probe {
	if p == nil {
		return nil
	}
	handler := network(p.Handler, strings.Join([]string{pod, container, kind}, "/"))
	if p.Handler == "" {
		handler = v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{
			pod, container, kind, "$(FIRST)", "$(SECOND)", "$(FIELD)", "$(NONE)", "$$(FIRST)", "$(FIRST",
		}}}
	}
	return &v1.Probe{
		ProbeHandler:        handler,
		InitialDelaySeconds: p.Delay,
		PeriodSeconds:       p.Period,
		TimeoutSeconds:      p.Timeout,
		SuccessThreshold:    p.Success,
		FailureThreshold:    p.Failure,
	}
}
