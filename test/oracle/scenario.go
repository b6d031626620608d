package oracle

import (
	"encoding/json"
	"fmt"
	"time"
)

// Scenario is what both sides play. Its JSON is in testdata/scenarios, and in the report of a
// divergence.
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

// Rule is a restart rule of a container.
type Rule struct {
	Action   string  `json:"action"` // Restart, RestartAllContainers, or an unknown one
	NotIn    bool    `json:"notIn,omitzero"`
	Operator string  `json:"operator,omitzero"` // instead of In and NotIn
	Codes    []int32 `json:"codes"`             // null: the rule has no exit codes
}

// Probe is a probe and the results of its attempts. Times are in seconds, as in v1.Probe.
// Attempts take the steps in turn, and begin again after the last.
type Probe struct {
	Delay   int32 `json:"delay,omitzero"`
	Period  int32 `json:"period"`
	Timeout int32 `json:"timeout"`
	Success int32 `json:"success"`
	Failure int32 `json:"failure"`
	// Handler is "" for exec, "http", "grpc" or "tcp". Without a listener it is "refused" for
	// tcp, or "grpc-refused", which lasts until the timeout.
	Handler string `json:"handler,omitzero"`
	Script  []Step `json:"script"`
}

// Step is the end of one attempt.
type Step struct {
	Do    string   `json:"do"`             // one of the Step constants
	Sleep Duration `json:"sleep,omitzero"` // how long it takes; a timeout when the probe's is shorter
	// Late means that the runtime does not enforce the timeout, and answers after it.
	Late bool `json:"late,omitzero"`
	// Output is "" for text, "none", or "binary".
	Output string `json:"output,omitzero"`
}

// The ends of an attempt, as exec has them. Those of the other handlers take no time; see
// web.go.
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
	// Container is the name of a container of the pod. An op that calls the manager with a
	// pod leaves that container out.
	Container string `json:"container,omitzero"`
	// Code is the exit code of OpExit.
	Code int32 `json:"code,omitzero"`
	// SameID means that OpStart keeps the container's ID.
	SameID bool `json:"sameID,omitzero"`
	// Age is how long before the op the container of OpStart was started. It is negative if
	// the runtime's clock is ahead.
	Age Duration `json:"age,omitzero"`
	// Started is the field started of the status after OpStart and OpStarted: "true",
	// "false", "nil", or "" for no change.
	Started string `json:"started,omitzero"`
	// Value is the new phase of OpPhase, and "true" or "false" of conditions.
	Value string `json:"value,omitzero"`
	// Changed makes OpAdd use other thresholds and periods than those of the scenario.
	Changed bool `json:"changed,omitzero"`
	// Keep are the pods that OpCleanup does not remove.
	Keep []int `json:"keep,omitzero"`
	// Until is set by [Oracle.Calm] on an op that stops workers during an attempt. It is the
	// end of the kubelet's attempt. The stopped probes are not compared until then.
	Until Duration `json:"until,omitzero"`
}

// The ops. The first group calls the manager, the second changes the status in the status source,
// the third changes the pod object.
const (
	OpAdd     = "add"     // AddPod
	OpStop    = "stop"    // StopLivenessAndStartup
	OpRemove  = "remove"  // RemovePod
	OpCleanup = "cleanup" // CleanupPods
	OpPeek    = "peek"    // UpdatePodStatus of a copy
	OpSync    = "sync"    // UpdatePodStatus; its result becomes the status

	OpStart      = "start"      // a container runs, with a new ID
	OpExit       = "exit"       // a container has terminated
	OpWait       = "wait"       // a container waits with the same ID
	OpCreate     = "create"     // a container waits and has no ID yet
	OpVanish     = "vanish"     // a container has no status
	OpEmpty      = "empty"      // no container has a status
	OpReverse    = "reverse"    // the statuses of containers change their order
	OpStarted    = "started"    // the field started of a container's status changes
	OpPhase      = "phase"      // of the pod
	OpLose       = "lose"       // the pod has no status
	OpFind       = "find"       // the pod has its status again
	OpReady      = "ready"      // the condition PodReady of the status
	OpRestarting = "restarting" // the condition AllContainersRestarting of the status

	OpPublish = "publish" // the pod object gets the status of the status source
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
		panic(fmt.Sprintf("a scenario does not survive its own JSON: %v", err))
	}
	return c
}

// String returns the scenario as JSON, with one op or container a line.
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
