package oracle

import (
	"encoding/json"
	"fmt"
	"time"
)

// Scenario is one story, told to both sides. Its JSON is what a divergence is printed
// as, and what testdata/scenarios keeps.
type Scenario struct {
	// Why says what the scenario is about, when someone keeps it.
	Why  string   `json:"why,omitzero"`
	Pods []Pod    `json:"pods"`
	Ops  []Op     `json:"ops"` // in the order of their times
	End  Duration `json:"end"`
}

// Pod is the part of a pod that matters to probes. Its name is "p" and its index.
type Pod struct {
	RestartPolicy  string      `json:"restartPolicy,omitzero"`
	Containers     []Container `json:"containers"`
	InitContainers []Container `json:"initContainers,omitzero"`
	// Ephemeral containers have statuses, and probes that the API would refuse.
	Ephemeral []Container `json:"ephemeral,omitzero"`
}

// lists returns the containers in the order in which they are started.
func (p *Pod) lists() [3][]Container {
	return [...][]Container{p.InitContainers, p.Containers, p.Ephemeral}
}

// Container is a container. Names are unique in a pod.
type Container struct {
	Name          string `json:"name"`
	RestartPolicy string `json:"restartPolicy,omitzero"` // of the container; Always makes an init container a sidecar
	Rules         []Rule `json:"rules,omitzero"`
	Liveness      *Probe `json:"liveness,omitzero"`
	Readiness     *Probe `json:"readiness,omitzero"`
	Startup       *Probe `json:"startup,omitzero"`
}

// Rule is a restart rule of a container.
type Rule struct {
	Action   string  `json:"action"` // Restart, RestartAllContainers, or one that no one knows
	NotIn    bool    `json:"notIn,omitzero"`
	Operator string  `json:"operator,omitzero"` // instead of In and NotIn
	Codes    []int32 `json:"codes"`             // null: the rule has no exit codes
}

// Probe is a probe and the ends of its attempts. Times are in seconds, as in
// v1.Probe. Attempts take the steps in turn, and begin again after the last.
type Probe struct {
	Delay   int32 `json:"delay,omitzero"`
	Period  int32 `json:"period"`
	Timeout int32 `json:"timeout"`
	Success int32 `json:"success"`
	Failure int32 `json:"failure"`
	// Handler is "" for exec, "http", "grpc", "tcp", or, where no one listens, "refused"
	// for tcp and "grpc-refused", which lasts until the timeout.
	Handler string `json:"handler,omitzero"`
	Script  []Step `json:"script"`
}

// Step is how one attempt ends.
type Step struct {
	Do    string   `json:"do"`             // one of the Step constants
	Sleep Duration `json:"sleep,omitzero"` // how long it takes; a timeout when the probe's is shorter
	// Late lets a runtime that does not enforce the timeout answer after it.
	Late bool `json:"late,omitzero"`
	// Output is "" for a text, "none", or "binary".
	Output string `json:"output,omitzero"`
}

// The ends of an attempt, in the words of exec. Those of the other handlers take no
// time; web.go says what they are.
const (
	StepOK      = "ok"      // exit code 0
	StepZero    = "zero"    // an exit error whose code is 0
	StepFail    = "fail"    // exit code 1
	StepError   = "error"   // the command could not be run
	StepTimeout = "timeout" // the runtime gives up at the timeout
	StepPanic   = "panic"
	StepBig     = "big" // exit code 1 and more output than is kept
)

// Op is something that happens at one moment.
type Op struct {
	At  Duration `json:"at"` // since the managers were made
	Do  string   `json:"do"` // one of the Op constants
	Pod int      `json:"pod,omitzero"`
	// Container names a container of the pod. An op that calls the manager with a pod
	// leaves that container out of it.
	Container string `json:"container,omitzero"`
	// Code is the exit code of OpExit.
	Code int32 `json:"code,omitzero"`
	// SameID lets OpStart keep the container's ID.
	SameID bool `json:"sameID,omitzero"`
	// Age is how long before the op a container that OpStart starts was started; it is
	// negative where the runtime's clock is ahead.
	Age Duration `json:"age,omitzero"`
	// Started is what the status says after OpStart and OpStarted: "true", "false",
	// "nil", or as before when empty.
	Started string `json:"started,omitzero"`
	// Value is the new phase of OpPhase, and "true" or "false" of conditions.
	Value string `json:"value,omitzero"`
	// Changed lets OpAdd call with other thresholds and periods than the scenario's.
	Changed bool `json:"changed,omitzero"`
	// Keep are the pods that OpCleanup leaves alone.
	Keep []int `json:"keep,omitzero"`
	// Until is set by [Oracle.Calm] on an op that stops workers during an attempt: it is
	// when the kubelet's attempt is over. Until then nothing is compared of the stopped
	// probes.
	Until Duration `json:"until,omitzero"`
}

// What can happen. The first group calls the manager, the second changes what the
// status source says, the third what the pod object says.
const (
	OpAdd     = "add"     // AddPod
	OpStop    = "stop"    // StopLivenessAndStartup
	OpRemove  = "remove"  // RemovePod
	OpCleanup = "cleanup" // CleanupPods
	OpPeek    = "peek"    // UpdatePodStatus of a copy
	OpSync    = "sync"    // UpdatePodStatus, and its answer becomes the status

	OpStart      = "start"      // a container runs, with a new ID
	OpExit       = "exit"       // a container has terminated
	OpWait       = "wait"       // a container waits, its ID stays
	OpCreate     = "create"     // a container waits and has no ID yet
	OpVanish     = "vanish"     // a container has no status
	OpEmpty      = "empty"      // no container has a status
	OpReverse    = "reverse"    // the statuses of containers change their order
	OpStarted    = "started"    // a container's status says that it has started, or not
	OpPhase      = "phase"      // of the pod
	OpLose       = "lose"       // the pod has no status
	OpFind       = "find"       // and has it again
	OpReady      = "ready"      // the condition PodReady of the status
	OpRestarting = "restarting" // the condition AllContainersRestarting of the status

	OpPublish = "publish" // the pod object's status becomes what the status source says
	OpDelete  = "delete"  // the pod object gets a deletion time
)

// Duration is a time.Duration that is text in JSON.
type Duration time.Duration

// String returns the duration as time.ParseDuration takes it.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// Clone returns a deep copy.
func (s *Scenario) Clone() *Scenario {
	c := new(Scenario)
	if err := json.Unmarshal([]byte(s.String()), c); err != nil {
		panic(fmt.Sprintf("a scenario does not survive its own JSON: %v", err))
	}
	return c
}

// String returns the scenario as JSON, one op and one container a line.
func (s *Scenario) String() string {
	out := []byte("{\n")
	if s.Why != "" {
		out = fmt.Appendf(out, "  \"why\": %s,\n", compact(s.Why))
	}
	out = append(out, "  \"pods\": [\n"...)
	for i, p := range s.Pods {
		out = fmt.Appendf(out, "    {%s\"containers\": [\n%s    ]", policyField(p), lines(p.Containers, "      "))
		if len(p.InitContainers) > 0 {
			out = fmt.Appendf(out, ", \"initContainers\": [\n%s    ]", lines(p.InitContainers, "      "))
		}
		if len(p.Ephemeral) > 0 {
			out = fmt.Appendf(out, ", \"ephemeral\": [\n%s    ]", lines(p.Ephemeral, "      "))
		}
		out = append(out, "}"+comma(i, len(s.Pods))+"\n"...)
	}
	out = fmt.Appendf(out, "  ],\n  \"ops\": [\n%s  ],\n  \"end\": %q\n}\n", lines(s.Ops, "    "), s.End.String())
	return string(out)
}

func policyField(p Pod) string {
	if p.RestartPolicy == "" {
		return ""
	}
	return fmt.Sprintf("\"restartPolicy\": %q, ", p.RestartPolicy)
}

func lines[T any](items []T, indent string) string {
	var out []byte
	for i, item := range items {
		out = append(out, indent+compact(item)+comma(i, len(items))+"\n"...)
	}
	return string(out)
}

func comma(i, n int) string {
	if i < n-1 {
		return ","
	}
	return ""
}

func compact(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("marshal %T: %v", v, err))
	}
	return string(text)
}

// probes calls f for every probe of every container.
func (s *Scenario) probes(f func(pod int, container, kind string, p **Probe)) {
	for i := range s.Pods {
		for _, list := range s.Pods[i].lists() {
			for j := range list {
				c := &list[j]
				f(i, c.Name, "startup", &c.Startup)
				f(i, c.Name, "readiness", &c.Readiness)
				f(i, c.Name, "liveness", &c.Liveness)
			}
		}
	}
}
