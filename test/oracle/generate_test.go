package oracle

import (
	"slices"
	"testing"
)

// generated are the features that some scenarios must have.
var generated = map[string]func(s *Scenario) bool{
	"several pods":              func(s *Scenario) bool { return len(s.Pods) > 1 },
	"three pods":                func(s *Scenario) bool { return len(s.Pods) > 2 },
	"a container ahead of time": ops(func(op Op) bool { return op.Do == OpStart && op.Age < 0 }),
	"a pod added twice at once": pairs(func(a, b Op) bool { return a.Do == OpAdd && b.Do == OpAdd }),
	"a pod removed and added":   pairs(func(a, b Op) bool { return a.Do == OpRemove && b.Do == OpAdd }),
	"reversed statuses":         ops(func(op Op) bool { return op.Do == OpReverse }),
	"no statuses":               ops(func(op Op) bool { return op.Do == OpEmpty }),
	"a long period":             probes(func(p *Probe) bool { return p.Period > 5 }),
	"a long delay":              probes(func(p *Probe) bool { return p.Delay > 5 }),
	"a long timeout":            probes(func(p *Probe) bool { return p.Timeout > 5 }),
	"a high failure threshold":  probes(func(p *Probe) bool { return p.Failure > 5 }),
	"a high success threshold":  probes(func(p *Probe) bool { return p.Success > 5 }),
	"a late success":            steps(func(p *Probe, s Step) bool { return s.isLate(p) && s.Do == StepOK }),
	"a late exit code":          steps(func(p *Probe, s Step) bool { return s.isLate(p) && s.Do == StepFail }),
	"a late error":              steps(func(p *Probe, s Step) bool { return s.isLate(p) && s.Do == StepError }),
	"no output":                 steps(func(_ *Probe, s Step) bool { return s.Output == "none" && s.Do == StepFail }),
	"binary output":             steps(func(_ *Probe, s Step) bool { return s.Output == "binary" && s.Do == StepFail }),
	"an ephemeral container":    func(s *Scenario) bool { return len(s.Pods[0].Ephemeral) > 0 },
	"a plain init container with a probe": inits(func(c Container) bool {
		return c.RestartPolicy != "Always" && (c.Startup != nil || c.Readiness != nil || c.Liveness != nil)
	}),
	"a plain init container with a policy and rules": inits(func(c Container) bool {
		return c.RestartPolicy != "Always" && c.RestartPolicy != "" && len(c.Rules) > 0
	}),
	"rules without a policy":          rules(func(c Container, _ Rule) bool { return c.RestartPolicy == "" }),
	"a rule with an unknown operator": rules(func(_ Container, r Rule) bool { return r.Operator != "" }),
	"a rule with an unknown action":   rules(func(_ Container, r Rule) bool { return r.Action == "Rest" }),
	"a rule without exit codes":       rules(func(_ Container, r Rule) bool { return r.Codes == nil }),
}

func ops(f func(Op) bool) func(*Scenario) bool {
	return func(s *Scenario) bool { return slices.ContainsFunc(s.Ops, f) }
}

// pairs returns a predicate for two ops at the same instant.
func pairs(f func(a, b Op) bool) func(*Scenario) bool {
	return func(s *Scenario) bool {
		for i := range s.Ops[1:] {
			if a, b := s.Ops[i], s.Ops[i+1]; a.At == b.At && f(a, b) {
				return true
			}
		}
		return false
	}
}

func probes(f func(*Probe) bool) func(*Scenario) bool {
	return func(s *Scenario) (found bool) {
		s.eachProbe(func(_ int, _, _ string, p **Probe) { found = found || *p != nil && f(*p) })
		return found
	}
}

func steps(f func(*Probe, Step) bool) func(*Scenario) bool {
	return probes(func(p *Probe) bool { return slices.ContainsFunc(p.Script, func(s Step) bool { return f(p, s) }) })
}

func (s Step) isLate(p *Probe) bool { return s.Late && s.Sleep > Duration(p.Timeout)*1e9 }

func inits(f func(Container) bool) func(*Scenario) bool {
	return func(s *Scenario) bool {
		return slices.ContainsFunc(s.Pods, func(p Pod) bool { return slices.ContainsFunc(p.InitContainers, f) })
	}
}

func rules(f func(Container, Rule) bool) func(*Scenario) bool {
	return func(s *Scenario) bool {
		return slices.ContainsFunc(s.Pods, func(p Pod) bool {
			return slices.ContainsFunc(slices.Concat(p.InitContainers, p.Containers), func(c Container) bool {
				return slices.ContainsFunc(c.Rules, func(r Rule) bool { return f(c, r) })
			})
		})
	}
}

// TestGenerateHasEveryFeature checks that each feature is in at least five of 1000 scenarios.
func TestGenerateHasEveryFeature(t *testing.T) {
	const scenarios = 1000
	counts := make(map[string]int)
	for i := range uint64(scenarios) {
		s := Generate(1 + i)
		for name, has := range generated {
			if has(s) {
				counts[name]++
			}
		}
	}
	t.Logf("of %d scenarios: %v", scenarios, counts)
	for name := range generated {
		if counts[name] < scenarios/200 {
			t.Errorf("%d of %d scenarios have %s", counts[name], scenarios, name)
		}
	}
}

// TestCalmKeepsStopsDuringAttempts checks that Calm keeps some of the ops that stop a probe during an
// attempt.
func TestCalmKeepsStopsDuringAttempts(t *testing.T) {
	o, stops := newOracle(t), 0
	for i := range uint64(100) {
		s := Generate(1 + i)
		o.Calm(t, s)
		if slices.ContainsFunc(s.Ops, func(op Op) bool { return op.Until > 0 }) {
			stops++
		}
	}
	t.Logf("%d of 100 scenarios", stops)
	if stops == 0 {
		t.Error("no scenario stops a probe during an attempt")
	}
}
