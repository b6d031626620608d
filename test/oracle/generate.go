package oracle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Generate returns the scenario for a seed.
func Generate(seed uint64) *Scenario {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0x70726f626572))}
	g.patient, g.slow = g.chance(12), g.chance(10)
	s := new(Scenario)
	for range pick(g, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4) {
		s.Pods = append(s.Pods, g.pod())
	}
	g.scenario = s
	g.addOps()
	return s
}

// generator generates one scenario.
type generator struct {
	*rand.Rand
	scenario *Scenario
	names    int  // number of container names in the current pod
	strict   bool // only rules restart the pod's containers
	now      time.Duration
	wild     bool // many ops come from disturb
	patient  bool // numbers are large, and the scenario is long
	slow     bool // attempts take most of a second, and many ops stop probes
}

// number returns one of the usual numbers, or in long scenarios sometimes one of the large ones.
func (g *generator) number(large []int32, usual ...int32) int32 {
	if g.patient && g.chance(40) {
		return pick(g, large...)
	}
	return pick(g, usual...)
}

// chance returns true with a probability of p percent.
func (g *generator) chance(p int) bool { return g.IntN(100) < p }

// seldom returns name with a probability of p percent, and "" otherwise.
func (g *generator) seldom(p int, name string) string {
	if g.chance(p) {
		return name
	}
	return ""
}

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

func (g *generator) pod() Pod {
	g.names = 0
	p := Pod{RestartPolicy: pick(g, "Always", "Always", "OnFailure", "Never", "")}
	if g.strict = g.chance(20); g.strict {
		p.RestartPolicy = "Never"
	}
	regular := 1 + g.IntN(4)
	if regular > 2 && g.chance(50) {
		regular = 1
	}
	for range regular {
		p.Containers = append(p.Containers, g.container(pick(g, "", "", "", "Always", "OnFailure", "Never")))
	}
	for range max(0, g.IntN(4)-1) {
		p.InitContainers = append(p.InitContainers, g.container(pick(g, "Always", "Always", "Always", "", "OnFailure", "Never")))
	}
	if g.chance(5) {
		p.Ephemeral = append(p.Ephemeral, g.container(""))
	}
	return p
}

func (g *generator) container(policy string) Container {
	g.names++
	rules := 50
	if g.strict {
		rules = 90
	}
	if g.strict && policy != "Always" {
		policy = pick(g, "", "Never")
	}
	c := Container{Name: fmt.Sprintf("c%d", g.names), RestartPolicy: policy}
	if policy != "" && g.chance(rules) || g.chance(15) {
		for range 1 + g.IntN(2) {
			c.Rules = append(c.Rules, g.rule())
		}
	}
	if g.chance(40) {
		c.Startup = g.probe("startup")
	}
	if g.chance(60) {
		c.Readiness = g.probe("readiness")
	}
	if g.chance(60) {
		c.Liveness = g.probe("liveness")
	}
	return c
}

func (g *generator) rule() Rule {
	return Rule{
		Action: pick(g, "Restart", "Restart", "RestartAllContainers", "RestartAllContainers", "Rest"), NotIn: g.chance(30),
		Operator: g.seldom(20, "Near"), Codes: pick(g, []int32{1}, []int32{1}, []int32{0, 42}, []int32{42}, []int32{}, nil),
	}
}

func (g *generator) probe(kind string) *Probe {
	p := &Probe{
		Delay:   g.number([]int32{6, 10, 30, 60}, 0, 0, 0, 1, 2, 4),
		Period:  g.number([]int32{6, 10, 30}, 1, 1, 1, 2, 2, 3, 5),
		Timeout: g.number([]int32{6, 15}, 1, 1, 2, 3),
		Success: 1, Failure: g.number([]int32{6, 8, 12}, 1, 1, 2, 3, 4),
	}
	if g.chance(8) {
		p.Handler = pick(g, "http", "http", "grpc", "grpc", "tcp", "refused")
	}
	if kind == "readiness" {
		p.Success = g.number([]int32{6, 8}, 1, 1, 1, 2, 3)
	}
	usual := pick(g, []string{StepOK}, []string{StepOK}, []string{StepOK, StepZero, StepFail}, []string{StepFail},
		[]string{StepOK, StepFail, StepError, StepTimeout, StepPanic, StepBig})
	slow, longest := pick(g, 0, 0, 10, 40), 260
	if g.slow {
		slow, longest = 90, 90
	}
	for range 1 + g.IntN(9) {
		step := Step{Do: pick(g, usual...)}
		if g.chance(15) {
			step.Do = pick(g, StepOK, StepFail, StepError, StepTimeout, StepPanic, StepZero, StepBig)
		}
		if g.chance(slow) {
			// Not a multiple of 10 ns, so that no attempt ends at the instant of a tick.
			step.Sleep = Duration(time.Duration(1+g.IntN(longest))*10*time.Millisecond + 3)
			step.Late = g.chance(40)
		}
		step.Output = g.seldom(10, pick(g, "none", "binary"))
		again := 1
		if step.Do == StepError { // an error is visible only if all attempts of a tick have it
			again += g.IntN(4)
		}
		p.Script = append(p.Script, slices.Repeat([]Step{step}, again)...)
	}
	return p
}

// addOps adds the ops. No other op, tick or attempt is at the same instant, because each op has its own
// remainder of nanoseconds. The exception is pairs of ops at the same instant.
func (g *generator) addOps() {
	g.now = g.startAge()
	g.wild = g.chance(30)
	for i := range g.scenario.Pods {
		g.firstOps(i)
	}
	length := time.Duration(10+g.IntN(25)) * time.Second
	if g.patient {
		length *= 4
	}
	end := g.now + length
	for g.now < end {
		g.pause()
		g.event(g.IntN(len(g.scenario.Pods)))
	}
	g.scenario.End = Duration(end + 5*time.Second)
}

// startAge returns the age from which on a manager probes added pods without a random delay. It is longer
// than the longest period, to which [Op.Changed] adds one second.
func (g *generator) startAge() time.Duration {
	longest := int32(5)
	g.scenario.eachProbe(func(_ int, _, _ string, p **Probe) {
		if *p != nil {
			longest = max(longest, (*p).Period)
		}
	})
	return time.Duration(longest+1) * time.Second
}

// instant returns the time of the next op.
func (g *generator) instant() time.Duration {
	return g.now + time.Duration(1000*len(g.scenario.Ops)+1)
}

func (g *generator) op(op Op) {
	op.At = Duration(g.instant())
	g.scenario.Ops = append(g.scenario.Ops, op)
}

// together adds an op after the last one, at the same instant.
func (g *generator) together(op Op) {
	op.At = g.scenario.Ops[len(g.scenario.Ops)-1].At
	g.scenario.Ops = append(g.scenario.Ops, op)
}

// pause advances the time to the next op. It is mostly short, so that several ops happen between two ticks,
// and sometimes long.
func (g *generator) pause() {
	d := time.Duration(1+g.IntN(90)) * 10 * time.Millisecond
	if g.chance(25) {
		d += time.Duration(g.IntN(400)) * 10 * time.Millisecond
	}
	if g.patient {
		d *= 4
	}
	g.now += d
}

// firstOps adds the first ops of a pod, mostly in the usual order.
func (g *generator) firstOps(pod int) {
	running := g.chance(25) // since before the start of the agent
	if running {
		g.eachContainer(pod, func(c string) { g.start(pod, c, true) })
		if g.chance(70) {
			g.op(Op{Do: OpReady, Pod: pod, Value: pick(g, "true", "true", "false")})
		}
		g.op(Op{Do: OpPublish, Pod: pod})
	}
	if g.chance(3) {
		g.op(Op{Do: OpDelete, Pod: pod})
	}
	if g.chance(90) {
		g.op(Op{Do: OpAdd, Pod: pod, Container: g.seldom(10, g.anyContainer(pod))})
	}
	if !running {
		g.eachContainer(pod, func(c string) {
			if g.chance(85) {
				g.pause()
				g.start(pod, c, false)
			}
		})
	}
	g.pause()
	g.op(Op{Do: OpSync, Pod: pod})
}

// eachContainer calls f for the containers of a pod in the order in which they are started.
func (g *generator) eachContainer(pod int, f func(container string)) {
	for _, list := range g.scenario.Pods[pod].lists() {
		for _, c := range list {
			f(c.Name)
		}
	}
}

func (g *generator) anyContainer(pod int) string {
	var names []string
	g.eachContainer(pod, func(c string) { names = append(names, c) })
	return pick(g, names...)
}

func (g *generator) start(pod int, container string, early bool) {
	op := Op{Do: OpStart, Pod: pod, Container: container, SameID: g.chance(10)}
	switch {
	case early:
		op.Age = Duration(g.now + 20*time.Second)
	case g.chance(20): // the agent learns of a container some time after its start
		op.Age = Duration(time.Duration(g.IntN(300)) * 10 * time.Millisecond)
	case g.chance(5): // the runtime's clock is ahead
		op.Age = -Duration(time.Duration(1+g.IntN(600)) * 10 * time.Millisecond)
	case g.chance(5): // about ten seconds before the agent's start
		op.Age = Duration(g.instant() + 10*time.Second + time.Duration(g.IntN(3)-1))
	}
	switch {
	case early:
		op.Started = pick(g, "true", "true", "false", "nil")
	case g.chance(30):
		op.Started = pick(g, "true", "false", "nil")
	}
	g.op(op)
}

// event adds one op for a pod.
func (g *generator) event(pod int) {
	roll := g.IntN(100)
	if !g.wild && roll >= 70 {
		roll = g.IntN(100)
	}
	c := g.anyContainer(pod)
	switch {
	case g.slow && g.chance(20):
		g.disturb(pod, 93+g.IntN(7))
	case roll < 35:
		g.op(Op{Do: OpSync, Pod: pod, Container: g.seldom(2, c)})
	case roll < 42:
		g.op(Op{Do: OpPeek, Pod: pod})
	case roll < 58:
		g.op(Op{Do: OpExit, Pod: pod, Container: c, Code: pick[int32](g, 0, 1, 1, 42)})
		if g.chance(75) {
			g.pause()
			g.start(pod, c, false)
		}
	case roll < 66:
		g.start(pod, c, g.chance(5))
	case roll < 70:
		g.op(Op{Do: OpStarted, Pod: pod, Container: c, Started: pick(g, "true", "true", "false", "nil")})
	case roll < 78:
		g.op(Op{Do: OpAdd, Pod: pod, Container: g.seldom(20, c), Changed: g.chance(20)})
		if g.chance(20) {
			g.together(Op{Do: OpAdd, Pod: pod, Changed: g.chance(50)})
		}
	case roll < 81:
		g.op(Op{Do: pick(g, OpWait, OpCreate, OpVanish), Pod: pod, Container: c})
	case roll < 83:
		g.op(Op{Do: OpPublish, Pod: pod})
	case roll < 84:
		g.op(Op{Do: pick(g, OpEmpty, OpReverse, OpReverse), Pod: pod})
	default:
		g.disturb(pod, roll)
	}
}

// disturb adds a rare op, from which a pod may not recover.
func (g *generator) disturb(pod, roll int) {
	switch {
	case roll < 86:
		g.op(Op{Do: OpReady, Pod: pod, Value: pick(g, "true", "false")})
	case roll < 88:
		g.op(Op{Do: OpRestarting, Pod: pod, Value: pick(g, "true", "false")})
	case roll < 90:
		g.op(Op{Do: OpPhase, Pod: pod, Value: pick(g, "Running", "Running", "Pending", "Succeeded", "Failed", "Unknown")})
	case roll < 92:
		g.op(Op{Do: pick(g, OpLose, OpFind, OpFind), Pod: pod})
	case roll < 93:
		g.op(Op{Do: OpDelete, Pod: pod})
		if g.chance(50) { // only new workers use the deletion time
			g.pause()
			g.op(Op{Do: OpRemove, Pod: pod})
			g.together(Op{Do: OpAdd, Pod: pod})
		}
	case roll < 95:
		g.op(Op{Do: OpStop, Pod: pod, Container: g.seldom(20, g.anyContainer(pod))})
	case roll < 98:
		g.op(Op{Do: OpRemove, Pod: pod, Container: g.seldom(20, g.anyContainer(pod))})
		switch add := (Op{Do: OpAdd, Pod: pod}); {
		case g.chance(30):
			g.together(add)
		case g.chance(50):
			g.pause()
			g.op(add)
		}
	default:
		op := Op{Do: OpCleanup}
		for i := range g.scenario.Pods {
			if g.chance(50) {
				op.Keep = append(op.Keep, i)
			}
		}
		g.op(op)
	}
}
