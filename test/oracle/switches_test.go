package oracle

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/probe"
)

// coreSwitches are the switches of the core with an effect that the oracle can observe. The switches of the
// built-in handlers have no effect on exec probes. CompatSeedStaleStarted lets a tick set a result twice,
// which cannot be observed between ticks. CompatHostTrouble concerns an agent that is stopped, or out of
// processor time, descriptors or memory: hosttrouble_linux_test.go tests it in real time.
var coreSwitches = []struct {
	name   string
	compat manager.Compat
}{
	{"KeepRun", probe.CompatKeepRun},
	{"AddPodStops", probe.CompatAddPodStops},
	{"StopSkipsSidecars", probe.CompatStopSkipsSidecars},
	{"TriggerAlways", probe.CompatTriggerAlways},
	{"InheritReplaced", probe.CompatInheritReplaced},
	{"StatusFromWorkers", probe.CompatStatusFromWorkers},
	{"Herd", probe.CompatHerd},
	{"LateStart", probe.CompatLateStart},
	{"WallClock", probe.CompatWallClock},
	{"PanicSkips", probe.CompatPanicSkips},
	{"InitialFailure", probe.CompatInitialFailure},
	{"ExactTimer", probe.CompatExactTimer},
}

// TestDefaultProfileDiffersByCoreSwitchesOnly checks that the sides diverge with the default profile, and
// that some of coreSwitches remove each divergence.
func TestDefaultProfileDiffersByCoreSwitchesOnly(t *testing.T) {
	o := newOracle(t)
	scenarios := max(*count/5, 1)
	t.Logf("%d scenarios from seed %d", scenarios, *seed)
	needed := make(map[string]int)
	var mu sync.Mutex // guards needed
	eachSeed(t, scenarios, func(t *testing.T, seed uint64) {
		names := neededBy(t, o, seed)
		mu.Lock()
		defer mu.Unlock()
		for _, name := range names {
			needed[name]++
		}
	})
	t.Logf("scenarios that need a switch: %v", needed)
	if scenarios < 200 {
		return
	}
	for _, s := range coreSwitches { // one scenario in thirty needs the rarest switch
		for i := scenarios; needed[s.name] == 0 && i < 10*scenarios; i++ {
			for _, name := range neededBy(t, o, *seed+uint64(i)) {
				needed[name]++
			}
		}
		if needed[s.name] == 0 {
			t.Errorf("no scenario shows the effect of the switch %s", s.name)
		}
	}
}

// TestDefaultProfileWithPublishedStatuses checks that published statuses have the same effect as PodStatus.
// Three differences of the default profile are excluded by switches. With published statuses it learns of a
// start earlier, so a probe without an initial delay may come earlier, and a start in the future counts as
// now. It spreads ticks randomly, unless [probe.CompatHerd] is set. It delays a tick to run it together with
// others, unless [probe.CompatExactTimer] is set.
func TestDefaultProfileWithPublishedStatuses(t *testing.T) {
	o, ours := newOracle(t), Ours(probe.CompatHerd|probe.CompatLateStart|probe.CompatWallClock|probe.CompatExactTimer)
	eachSeed(t, max(*count/5, 1), func(t *testing.T, seed uint64) {
		s := Generate(seed)
		called := o.Run(t, s, ours)
		if d := Compare(called, o.RunPublished(t, s, ours, called)); d != nil {
			t.Errorf("seed %d: the second record is the one with published statuses:\n%v\n%v", seed, d, s)
		}
	})
}

// neededBy returns the names of the switches without which the sides diverge on the scenario for a seed.
func neededBy(t *testing.T, o *Oracle, seed uint64) []string {
	t.Helper()
	s := Generate(seed)
	kubelet := o.Calm(t, s)
	if Compare(kubelet, o.Run(t, s, Ours(0))) == nil {
		return []string{"none"}
	}
	if checkScenario(t, o, s, Ours(manager.KubeletV1_36)) != agreed {
		return nil // the kubelet is not deterministic here
	}
	return explain(t, o, s, kubelet)
}

// explain returns the names of the switches without which the sides diverge on s.
func explain(t *testing.T, o *Oracle, s *Scenario, kubelet *Record) (needed []string) {
	t.Helper()
	compat := manager.Compat(manager.KubeletV1_36)
	for _, one := range coreSwitches {
		if Compare(kubelet, o.Run(t, s, Ours(compat&^one.compat))) == nil {
			compat &^= one.compat
		} else {
			needed = append(needed, one.name)
		}
	}
	return needed
}

// TestSwitchScenarios checks the scenario of each switch: the sides agree with all switches set, and diverge
// without this one.
func TestSwitchScenarios(t *testing.T) {
	o := newOracle(t)
	for _, one := range coreSwitches {
		t.Run(one.name, func(t *testing.T) {
			file := filepath.Join("testdata", "switches", one.name+".json")
			if *update {
				writeScenario(t, file, findSwitch(t, o, one.name, one.compat))
			}
			s := readScenario(t, file)
			if checkScenario(t, o, s, Ours(manager.KubeletV1_36)) == ambiguous {
				t.Error("the kubelet does not agree with itself on this scenario")
			}
			if d, _ := o.Check(t, s, Ours(manager.KubeletV1_36&^one.compat)); d == nil {
				t.Error("the scenario does not show the switch")
			}
		})
	}
}

// findSwitch returns a small scenario that shows a switch.
func findSwitch(t *testing.T, o *Oracle, name string, one manager.Compat) *Scenario {
	t.Helper()
	shows := func(s *Scenario) bool {
		d, _ := o.Check(t, s, Ours(manager.KubeletV1_36&^one))
		return d != nil
	}
	for i := range uint64(5000) {
		if s := Generate(1 + i); shows(s) {
			s = Shrink(s, shows)
			if one == probe.CompatHerd || one == probe.CompatExactTimer { // probes of one shard
				s = crowd(s)
			}
			s.Why = fmt.Sprintf("the effect of Compat%s", name)
			return s
		}
	}
	t.Fatal("no scenario shows the switch")
	return nil
}

// crowd returns s with 24 copies of each container. When ticks are spread, the phase of a probe is a hash
// with a different seed in each process, and may be equal to the kubelet's by chance. And only probes of the
// same shard wait for each other; there are as many shards as processors.
func crowd(s *Scenario) *Scenario {
	crowd := &Scenario{Pods: slices.Clone(s.Pods), End: s.End + Duration(10*time.Second)} // time for all phases to have an effect
	for i := range crowd.Pods {
		pod := &crowd.Pods[i]
		pod.Containers, pod.InitContainers = copies(pod.Containers), copies(pod.InitContainers)
	}
	for _, op := range s.Ops {
		if op.Container == "" {
			crowd.Ops = append(crowd.Ops, op)
			continue
		}
		for _, c := range copies([]Container{{Name: op.Container}}) {
			op.Container = c.Name
			crowd.Ops = append(crowd.Ops, op)
		}
	}
	return crowd
}

// copies returns 24 copies of each container, with different names.
func copies(containers []Container) (all []Container) {
	for _, c := range containers {
		name := c.Name
		for i := range 24 {
			c.Name = fmt.Sprintf("%s.%d", name, i+1)
			all = append(all, c)
		}
	}
	return all
}

// TestOracleCatchesFaults checks that random scenarios catch a probe field that is wrong by one.
func TestOracleCatchesFaults(t *testing.T) {
	o := newOracle(t)
	for name, tamper := range map[string]func(*v1.Probe){
		"failure threshold": func(p *v1.Probe) { p.FailureThreshold++ },
		"success threshold": func(p *v1.Probe) { p.SuccessThreshold++ },
		"period":            func(p *v1.Probe) { p.PeriodSeconds++ },
		"initial delay":     func(p *v1.Probe) { p.InitialDelaySeconds++ },
		"timeout":           func(p *v1.Probe) { p.TimeoutSeconds++ },
	} {
		t.Run(name, func(t *testing.T) {
			faulty := Tampered(manager.KubeletV1_36, func(pod *v1.Pod) { eachReadiness(pod, tamper) })
			diverges := func(s *Scenario) bool {
				d, _ := o.Check(t, s, faulty)
				return d != nil
			}
			for i := range uint64(50) {
				s := Generate(1 + i)
				if !diverges(s) {
					continue
				}
				small := Shrink(s, diverges)
				t.Logf("scenario %d with %d ops caught it; the smallest one has %d", i+1, len(s.Ops), len(small.Ops))
				if len(small.Ops) > 5 || len(small.Pods) > 1 {
					t.Errorf("a scenario of %d ops and %d pods is not small:\n%v", len(small.Ops), len(small.Pods), small)
				}
				return
			}
			t.Error("50 scenarios did not catch the fault")
		})
	}
}

func eachReadiness(pod *v1.Pod, f func(*v1.Probe)) {
	for _, list := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for _, c := range list {
			if c.ReadinessProbe != nil {
				f(c.ReadinessProbe)
			}
		}
	}
}

// TestStatusOnRestartMatchesFeatureGate compares CompatStatusOnRestart with a kubelet whose feature gate
// ChangeContainerStatusOnKubeletRestart is on.
func TestStatusOnRestartMatchesFeatureGate(t *testing.T) {
	o := newOracle(t)
	setGate(t, true)
	scenarios := max(*count/10, 1)
	runRandom(t, o, scenarios, Ours(manager.KubeletV1_36|probe.CompatStatusOnRestart))
	var different atomic.Int64
	eachSeed(t, scenarios, func(t *testing.T, seed uint64) {
		s := Generate(seed)
		if Compare(o.Calm(t, s), o.Run(t, s, Ours(manager.KubeletV1_36))) != nil {
			different.Add(1)
		}
	})
	t.Logf("the gate changed %d scenarios", different.Load())
	if scenarios >= 100 && different.Load() == 0 {
		t.Error("the gate changed no scenario: it was not set, or the scenarios do not test it")
	}
}

func setGate(t *testing.T, on bool) {
	t.Helper()
	gate := map[string]bool{string(features.ChangeContainerStatusOnKubeletRestart): on}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gate); err != nil {
		t.Fatal(err)
	}
	if on {
		t.Cleanup(func() { setGate(t, false) })
	}
}

func writeScenario(t *testing.T, file string, s *Scenario) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(s.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
