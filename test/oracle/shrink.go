package oracle

import (
	"slices"
	"testing"
	"time"
)

// Check removes ops from s as [Oracle.Calm] does, and runs it on both sides. It returns the first difference,
// or nil if the records are equal. It returns nil and sets ambiguous if the kubelet is not deterministic on
// s: when a tick and a trigger wait for the end of one attempt, it handles one of them at random.
func (o *Oracle) Check(t *testing.T, s *Scenario, ours Maker) (d *Divergence, ambiguous bool) {
	t.Helper()
	kubelet := o.Calm(t, s)
	d = o.Diverge(t, s, kubelet, ours)
	if d == nil {
		return nil, false
	}
	for range 16 {
		if Compare(kubelet, o.Run(t, s, Kubelet)) != nil {
			return nil, true
		}
	}
	return d, false
}

// Calm removes ops with nondeterministic or intentionally different effects from s, and returns the
// kubelet's record of the resulting scenario. It removes ops that trigger a worker whose attempts take
// longer than its period, because the kubelet handles the trigger or the tick at random. It also removes ops
// that stop a worker during its attempts, because we cancel the attempt and the kubelet counts it. Such an
// op is kept, with its Until, if the kubelet's worker only ends its last attempt after it.
func (o *Oracle) Calm(t *testing.T, s *Scenario) *Record {
	t.Helper()
	for {
		record := o.Run(t, s, Kubelet)
		busy := busyTimes(record, s)
		before := slices.Clone(s.Ops)
		for i := range s.Ops {
			s.Ops[i].Until = s.Ops[i].stoppedUntil(busy)
		}
		all := slices.Clone(s.Ops)
		s.Ops = slices.DeleteFunc(s.Ops, func(op Op) bool {
			return slices.ContainsFunc(busy, func(b busyTime) bool { return b.forbids(op, all) })
		})
		if slices.EqualFunc(before, s.Ops, func(a, b Op) bool { return a.At == b.At && a.Until == b.Until }) {
			return record
		}
	}
}

// stoppedUntil returns the end of the attempts that op stops, or 0 if it stops none.
func (op Op) stoppedUntil(busy []busyTime) (until Duration) {
	for _, b := range busy {
		if b.contains(op) && op.stops(b.pod, b.kind) {
			until = max(until, Duration(b.end))
		}
	}
	return until
}

// busyTime is an interval in which a worker makes attempts without a pause.
type busyTime struct {
	span
	last time.Duration // begin of the last attempt
	long bool          // not shorter than the period
}

func busyTimes(r *Record, s *Scenario) []busyTime {
	type probe struct {
		pod             int
		container, kind string
	}
	periods := make(map[probe]time.Duration)
	s.eachProbe(func(pod int, container, kind string, p **Probe) {
		if *p != nil {
			periods[probe{pod, container, kind}] = time.Duration((*p).Period) * time.Second
		}
	})
	var busy []busyTime
	last := make(map[probe]int) // index in busy
	for _, a := range r.spans {
		probe := probe{a.pod, a.container, a.kind}
		i, ok := last[probe]
		if !ok || busy[i].end != a.begin {
			i = len(busy)
			last[probe] = i
			busy = append(busy, busyTime{span: a})
		}
		busy[i].last, busy[i].end = a.begin, a.end
		busy[i].long = a.end-busy[i].begin >= periods[probe]
	}
	return busy
}

func (b busyTime) contains(op Op) bool {
	at := time.Duration(op.At)
	return b.begin <= at && at <= b.end
}

// forbids reports whether op, one of ops, must be removed because of b.
func (b busyTime) forbids(op Op, ops []Op) bool {
	if op.usesWorkers() && slices.ContainsFunc(ops, func(stop Op) bool {
		return stop.At <= op.At && op.At <= stop.Until && stop.stops(op.Pod, "")
	}) {
		return true
	}
	if !b.contains(op) {
		return false
	}
	if op.triggers(b) && b.long {
		return true
	}
	if !op.stops(b.pod, b.kind) {
		return false
	}
	// Otherwise the kubelet's worker would do more than end after its attempt.
	return b.long || time.Duration(op.At) < b.last ||
		slices.ContainsFunc(ops, func(o Op) bool { return o.At <= op.At && b.contains(o) && o.triggers(b) })
}

// triggers reports whether op may trigger the worker of b.
func (op Op) triggers(b busyTime) bool {
	return (op.Do == OpPeek || op.Do == OpSync) && op.Pod == b.pod && b.kind == "readiness"
}

// usesWorkers reports whether the effect of op depends on the existing workers.
func (op Op) usesWorkers() bool { return slices.Contains([]string{OpAdd, OpPeek, OpSync}, op.Do) }

// stops reports whether op stops probes of a kind of a pod. If kind is "", it reports whether op stops any.
func (op Op) stops(pod int, kind string) bool {
	switch op.Do {
	case OpStop:
		return op.Pod == pod && kind != "readiness"
	case OpRemove:
		return op.Pod == pod
	case OpCleanup:
		return !slices.Contains(op.Keep, pod)
	default:
		return false
	}
}

// Shrink removes parts of s as long as diverges returns true for the result, and returns the smallest
// scenario that it finds.
func Shrink(s *Scenario, diverges func(*Scenario) bool) *Scenario {
	for {
		smaller := shrinkOnce(s, diverges)
		if smaller == nil {
			return s
		}
		s = smaller
	}
}

// shrinkOnce tries to remove each part, large parts first. It returns nil if it can remove none.
func shrinkOnce(s *Scenario, diverges func(*Scenario) bool) *Scenario {
	best := s
	try := func(change func(*Scenario) bool) bool {
		c := best.Clone()
		if !change(c) || !diverges(c) {
			return false
		}
		best = c
		return true
	}
	shrinkEnd(s, try)
	for size := max(1, len(s.Ops)/2); ; size /= 2 {
		for at := 0; at < len(best.Ops); {
			if !try(func(c *Scenario) bool {
				c.Ops = slices.Delete(c.Ops, at, min(at+size, len(c.Ops)))
				return true
			}) {
				at += size
			}
		}
		if size <= 1 {
			break
		}
	}
	shrinkPods(best, try)
	shrinkProbes(best, try)
	shrinkOps(best, try)
	if best == s {
		return nil
	}
	return best
}

// shrinkEnd moves the end of a scenario closer to its last op.
func shrinkEnd(s *Scenario, try func(func(*Scenario) bool) bool) {
	for cut := time.Duration(s.End); cut > 50*time.Millisecond; cut /= 2 {
		for try(func(c *Scenario) bool {
			c.End -= Duration(cut)
			return len(c.Ops) == 0 || c.End > c.Ops[len(c.Ops)-1].At
		}) {
		}
	}
}

func shrinkPods(s *Scenario, try func(func(*Scenario) bool) bool) {
	for i := len(s.Pods) - 1; i >= 0; i-- {
		try(func(c *Scenario) bool { return c.withoutPod(i) })
	}
	for i, p := range s.Pods {
		for _, list := range p.lists() {
			for _, removed := range list {
				try(func(c *Scenario) bool { return c.withoutContainer(i, removed.Name) })
			}
		}
	}
	for i := range s.Pods {
		try(func(c *Scenario) bool { return i < len(c.Pods) && reset(&c.Pods[i].RestartPolicy) })
		for j := range s.Pods[i].Containers {
			at := func(c *Scenario) *Container {
				if i < len(c.Pods) && j < len(c.Pods[i].Containers) {
					return &c.Pods[i].Containers[j]
				}
				return new(Container)
			}
			try(func(c *Scenario) bool { return len(at(c).Rules) > 0 && reset(&at(c).RestartPolicy) })
			try(func(c *Scenario) bool { had := len(at(c).Rules); at(c).Rules = nil; return had > 0 })
			try(func(c *Scenario) bool { return len(at(c).Rules) == 0 && reset(&at(c).RestartPolicy) })
		}
	}
}

// shrinkOps sets optional fields of the ops to their zero values.
func shrinkOps(s *Scenario, try func(func(*Scenario) bool) bool) {
	for i, op := range s.Ops {
		if op.Do != OpStart && op.Do != OpExit {
			try(func(c *Scenario) bool { return op.callsWithPod() && reset(&c.Ops[i].Container) })
		}
		try(func(c *Scenario) bool { return reset(&c.Ops[i].SameID) })
		try(func(c *Scenario) bool { return reset(&c.Ops[i].Age) })
		try(func(c *Scenario) bool { return reset(&c.Ops[i].Changed) })
		try(func(c *Scenario) bool { return op.Do != OpStarted && reset(&c.Ops[i].Started) })
	}
}

func (op Op) callsWithPod() bool {
	return slices.Contains([]string{OpAdd, OpStop, OpRemove, OpPeek, OpSync}, op.Do)
}

// reset sets *p to its zero value, and reports whether it had another value.
func reset[T comparable](p *T) bool {
	var zero T
	old := *p
	*p = zero
	return old != zero
}

// withoutPod removes a pod, unless it is the only one. The indices of later pods decrease by one.
func (s *Scenario) withoutPod(i int) bool {
	if len(s.Pods) < 2 {
		return false
	}
	s.Pods = slices.Delete(s.Pods, i, i+1)
	s.Ops = slices.DeleteFunc(s.Ops, func(op Op) bool { return op.Pod == i && op.Do != OpCleanup })
	for j := range s.Ops {
		op := &s.Ops[j]
		if op.Pod > i {
			op.Pod--
		}
		op.Keep = slices.DeleteFunc(op.Keep, func(k int) bool { return k == i })
		for k := range op.Keep {
			if op.Keep[k] > i {
				op.Keep[k]--
			}
		}
	}
	return true
}

// withoutContainer removes a container. It returns false if the pod has no regular container then.
func (s *Scenario) withoutContainer(pod int, name string) bool {
	if pod >= len(s.Pods) {
		return false
	}
	p := &s.Pods[pod]
	matches := func(c Container) bool { return c.Name == name }
	p.Containers = slices.DeleteFunc(p.Containers, matches)
	p.InitContainers = slices.DeleteFunc(p.InitContainers, matches)
	p.Ephemeral = slices.DeleteFunc(p.Ephemeral, matches)
	s.Ops = slices.DeleteFunc(s.Ops, func(op Op) bool { return op.Pod == pod && op.Container == name })
	return len(p.Containers) > 0
}

// shrinkProbes removes probes, and simplifies the fields of the others.
func shrinkProbes(s *Scenario, try func(func(*Scenario) bool) bool) {
	s.eachProbe(func(pod int, container, kind string, p **Probe) {
		if *p == nil {
			return
		}
		on := func(change func(p **Probe)) bool {
			return try(func(c *Scenario) bool {
				before := c.String()
				c.eachProbe(func(otherPod int, otherContainer, otherKind string, p **Probe) {
					if otherPod == pod && otherContainer == container && otherKind == kind && *p != nil {
						change(p)
					}
				})
				return c.String() != before
			})
		}
		if on(func(p **Probe) { *p = nil }) {
			return
		}
		on(func(p **Probe) { (*p).Handler = "" })
		on(func(p **Probe) { (*p).Delay = 0 })
		on(func(p **Probe) { (*p).Timeout = 1 })
		on(func(p **Probe) { (*p).Success = 1 })
		on(func(p **Probe) { (*p).Failure = 1 })
		on(func(p **Probe) { (*p).Script = (*p).Script[:min(1, len((*p).Script))] })
		for i := range (*p).Script {
			on(func(p **Probe) {
				if i < len((*p).Script) {
					(*p).Script[i].Sleep, (*p).Script[i].Late, (*p).Script[i].Output = 0, false, ""
				}
			})
			on(func(p **Probe) {
				if i < len((*p).Script) {
					(*p).Script[i].Do = StepOK
				}
			})
		}
	})
}
