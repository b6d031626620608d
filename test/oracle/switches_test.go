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

// coreSwitches are the switches of the core whose effect can be seen here. Those of
// the built-in handlers have none on exec probes. CompatSeedStaleStarted lets a tick
// set a result twice, which cannot be observed between ticks. CompatHostTrouble concerns an
// agent that is stopped or starved, or out of descriptors or memory: hosttrouble_linux_test.go
// tests it, in real time.
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

// With the default profile the sides diverge, and each divergence goes when some of
// the named switches are turned back.
func TestDefaultProfileIsTheKubeletSaveForNamedSwitches(t *testing.T) {
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
	for _, s := range coreSwitches { // one in thirty needs the rarest of them
		for i := scenarios; needed[s.name] == 0 && i < 10*scenarios; i++ {
			for _, name := range neededBy(t, o, *seed+uint64(i)) {
				needed[name]++
			}
		}
		if needed[s.name] == 0 {
			t.Errorf("no scenario shows what the switch %s does", s.name)
		}
	}
}

// The default profile does the same with published statuses as with those that it asks for, but for the
// moment when it learns of a start: a probe without an initial delay may come earlier, and a start in the future
// is now. The phases of ticks are random in it, unless [probe.CompatHerd] is set. A tick waits for those of workers that
// are awake, unless [probe.CompatExactTimer] is set.
func TestDefaultProfileWithPublishedStatuses(t *testing.T) {
	o, ours := newOracle(t), Ours(probe.CompatHerd|probe.CompatLateStart|probe.CompatWallClock|probe.CompatExactTimer)
	eachSeed(t, max(*count/5, 1), func(t *testing.T, seed uint64) {
		s := Generate(seed)
		asks := o.Run(t, s, ours)
		if d := Compare(asks, o.RunPublished(t, s, ours, asks)); d != nil {
			t.Errorf("seed %d: the second record is that with published statuses:\n%v\n%v", seed, d, s)
		}
	})
}

// neededBy returns the names of the switches without which ours and the kubelet diverge
// on the scenario of a seed.
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

// explain returns the switches without which ours and the kubelet diverge on s.
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

// Each switch has a smallest scenario that shows it: the sides agree with all
// switches turned back, and diverge when this one is not.
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
			s.Why = fmt.Sprintf("what Compat%s turns back", name)
			return s
		}
	}
	t.Fatal("no scenario shows the switch")
	return nil
}

// crowd returns s with 24 of each container. If ticks are spread, the phase of one probe is a
// hash with another seed in each process, and may be the kubelet's by chance. Only probes of one
// shard wait for each other, and there are as many shards as processors.
func crowd(s *Scenario) *Scenario {
	crowd := &Scenario{Pods: slices.Clone(s.Pods), End: s.End + Duration(10*time.Second)} // a phase may show late
	for i := range crowd.Pods {
		pod := &crowd.Pods[i]
		pod.Containers, pod.InitContainers = many(pod.Containers), many(pod.InitContainers)
	}
	for _, op := range s.Ops {
		if op.Container == "" {
			crowd.Ops = append(crowd.Ops, op)
			continue
		}
		for _, c := range many([]Container{{Name: op.Container}}) {
			op.Container = c.Name
			crowd.Ops = append(crowd.Ops, op)
		}
	}
	return crowd
}

func many(containers []Container) (many []Container) {
	for _, c := range containers {
		name := c.Name
		for i := range 24 {
			c.Name = fmt.Sprintf("%s.%d", name, i+1)
			many = append(many, c)
		}
	}
	return many
}

// The comparison finds a fault of one in one number.
func TestFaultsAreCaught(t *testing.T) {
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
				t.Logf("found in scenario %d, of %d ops; smallest has %d", i+1, len(s.Ops), len(small.Ops))
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

// A kubelet with the old feature gate is ours with one switch more.
func TestStatusOnRestartIsTheOldFeatureGate(t *testing.T) {
	o := newOracle(t)
	setGate(t, true)
	scenarios := max(*count/10, 1)
	playRandom(t, o, scenarios, Ours(manager.KubeletV1_36|probe.CompatStatusOnRestart))
	var different atomic.Int64
	eachSeed(t, scenarios, func(t *testing.T, seed uint64) {
		s := Generate(seed)
		if Compare(o.Calm(t, s), o.Run(t, s, Ours(manager.KubeletV1_36))) != nil {
			different.Add(1)
		}
	})
	t.Logf("the gate changed %d scenarios", different.Load())
	if scenarios >= 100 && different.Load() == 0 {
		t.Error("the gate changed no scenario: it was not set, or nothing tests it")
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
