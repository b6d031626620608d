package oracle

import (
	"encoding/json"
	"fmt"
	"time"
)

// Scenario is the input of both sides. testdata/scenarios and the report of a divergence have scenarios as
// JSON.
type Scenario struct {
	// Why is the reason to keep the scenario.
	Why  string   `json:"why,omitzero"`
	Pods []Pod    `json:"pods"`
	Ops  []Op     `json:"ops"` // in the order of their times
	End  Duration `json:"end"`
}

// Pod has the fields of a pod that concern probes. Its name is "p" and its index.
type Pod struct {
	RestartPolicy  string      `json:"restartPolicy,omitzero"`
	Containers     []Container `json:"containers"`
	InitContainers []Container `json:"initContainers,omitzero"`
	// Ephemeral containers have statuses, and probes that the API refuses.
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

// Rule is a restart rule of a container, see v1.ContainerRestartRule.
type Rule struct {
	Action   string  `json:"action"` // Restart, RestartAllContainers, or an unknown one
	NotIn    bool    `json:"notIn,omitzero"`
	Operator string  `json:"operator,omitzero"` // instead of In and NotIn
	Codes    []int32 `json:"codes"`             // null: the rule has no exit codes
}

// Probe is a probe and the results of its attempts. Times are in seconds, as in v1.Probe.
// Attempts take the steps of the script in order, and start again after the last.
type Probe struct {
	Delay   int32 `json:"delay,omitzero"`
	Period  int32 `json:"period"`
	Timeout int32 `json:"timeout"`
	Success int32 `json:"success"`
	Failure int32 `json:"failure"`
	// Handler is "" for exec, or "http", "grpc" or "tcp". "refused" is tcp and "grpc-refused" is grpc on a
	// port without a listener. A "grpc-refused" attempt lasts until the timeout.
	Handler string `json:"handler,omitzero"`
	Script  []Step `json:"script"`
}

// Step is the result of one attempt.
type Step struct {
	Do    string   `json:"do"`             // one of the Step constants
	Sleep Duration `json:"sleep,omitzero"` // duration; if it is not below the probe's timeout, the attempt times out
	// Late means that the runtime does not enforce the timeout, and may answer after it.
	Late bool `json:"late,omitzero"`
	// Output is "" for text, "none", or "binary".
	Output string `json:"output,omitzero"`
}

// The results of an attempt, as exec probes have them. See web.go for the other handlers, whose attempts
// take no time.
const (
	StepOK      = "ok"      // exit code 0
	StepZero    = "zero"    // an exit error with code 0
	StepFail    = "fail"    // exit code 1
	StepError   = "error"   // the command could not be run
	StepTimeout = "timeout" // the runtime returns at the timeout
	StepPanic   = "panic"
	StepBig     = "big" // exit code 1 and more output than both sides keep
)

// Op is an operation at one instant.
type Op struct {
	At  Duration `json:"at"` // since the start of the manager
	Do  string   `json:"do"` // one of the Op constants
	Pod int      `json:"pod,omitzero"`
	// Container is the name of a container of the pod. An op that passes a pod to the manager omits that
	// container from it.
	Container string `json:"container,omitzero"`
	// Code is the exit code of OpExit.
	Code int32 `json:"code,omitzero"`
	// SameID means that OpStart keeps the container's ID.
	SameID bool `json:"sameID,omitzero"`
	// Age is how long before the op the container of OpStart was started. It is negative if the
	// runtime's clock is ahead.
	Age Duration `json:"age,omitzero"`
	// Started is the field started of the status after OpStart and OpStarted: "true",
	// "false", "nil", or "" for no change.
	Started string `json:"started,omitzero"`
	// Value is the new phase of OpPhase, and "true" or "false" of conditions.
	Value string `json:"value,omitzero"`
	// Changed makes the op pass other thresholds and periods than the scenario's to the manager.
	Changed bool `json:"changed,omitzero"`
	// Keep has the indices of the pods that OpCleanup does not remove.
	Keep []int `json:"keep,omitzero"`
	// Until is the end of the kubelet's attempt, if the op stops workers during an attempt. [Oracle.Calm]
	// sets it. The stopped probes are not compared until then.
	Until Duration `json:"until,omitzero"`
}

// The values of Op.Do. The first group calls the manager, the second changes the status in the status
// source, the third changes the pod object.
const (
	OpAdd     = "add"     // AddPod
	OpStop    = "stop"    // StopLivenessAndStartup
	OpRemove  = "remove"  // RemovePod
	OpCleanup = "cleanup" // CleanupPods
	OpPeek    = "peek"    // UpdatePodStatus with a copy of the status
	OpSync    = "sync"    // UpdatePodStatus with the status itself, which it changes

	OpStart      = "start"      // a container runs, with a new ID
	OpExit       = "exit"       // a container has terminated
	OpWait       = "wait"       // a container waits with the same ID
	OpCreate     = "create"     // a container waits and has no ID yet
	OpVanish     = "vanish"     // a container has no status
	OpEmpty      = "empty"      // no container has a status
	OpReverse    = "reverse"    // the statuses of containers change their order
	OpStarted    = "started"    // the field started of a container's status changes
	OpPhase      = "phase"      // the phase of the pod changes
	OpLose       = "lose"       // the status source has no status of the pod
	OpFind       = "find"       // the status source has the status again
	OpReady      = "ready"      // the condition PodReady changes
	OpRestarting = "restarting" // the condition AllContainersRestarting changes

	OpPublish = "publish" // the pod object gets the status from the status source
	OpDelete  = "delete"  // the pod object gets a deletion time
)

// Duration is a time.Duration that is a string in JSON.
type Duration time.Duration

// String returns the duration in the format of time.ParseDuration.
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
		panic(fmt.Sprintf("unmarshal the JSON of a scenario: %v", err))
	}
	return c
}

// String returns the scenario as JSON, with one op or container on each line.
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

// eachProbe calls f for every probe of every container.
func (s *Scenario) eachProbe(f func(pod int, container, kind string, p **Probe)) {
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
