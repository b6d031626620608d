// Package conditions says what the states of a pod's probes mean for its conditions, and writes
// those that have changed. Read Decide first: it is the rule.
package conditions

import (
	"context"
	"log/slog"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/probe"
)

// The types of the conditions that are written.
const (
	Ready v1.PodConditionType = "prober.dev/ready" // the readiness gate
	Live  v1.PodConditionType = "prober.dev/live"  // of pods with liveness probes
	// Prefix begins the types of the conditions of single probes: prober.dev/readiness.web.
	Prefix = "prober.dev/"
)

// The reasons of the conditions.
const (
	ProbeSucceeded = "ProbeSucceeded"
	ProbeWarning   = "ProbeWarning"
	ProbeFailed    = "ProbeFailed"
	ProbeUnknown   = "ProbeUnknown"
	Paused         = "Paused"
	AgentLost      = "AgentLost"
)

// Probe is the state of one probe of a pod.
type Probe struct {
	Container string
	Kind      probe.Kind
	State     states.State
	Decided   bool // an attempt has decided its result since the container started, or an earlier agent has
	Failed    bool // the decided result is a failure; it stays so while State is unknown
	Paused    bool
	Text      string // output or error of the attempt that decided, without secrets
}

// Pod is what the conditions of a pod are made of.
type Pod struct {
	api.Pod
	Gated     bool              // it has the readiness gate
	PerProbe  bool              // it asks for a condition for each probe
	Frozen    string            // why no condition may turn false at present, "" if it may
	Probes    []Probe           // in a stable order
	Published []v1.PodCondition // of the pod, as the API server last told
}

// Decide returns the conditions of prober that the pod should have, without times: those that
// are to be left alone are not among them.
func Decide(pod *Pod) []v1.PodCondition { return nil }

// Patcher is what a [Writer] writes to: [api.Client].
type Patcher interface {
	PatchConditions(ctx context.Context, pod api.Pod, conditions []v1.PodCondition) error
}

// Config is what a [Writer] needs.
type Config struct {
	Patcher Patcher
	Logger  *slog.Logger
	DryRun  bool // log what would be written
}

// Writer writes the conditions of pods when they change. It is safe for concurrent use, and
// blocks no caller.
type Writer struct{}

// NewWriter returns a writer. Nothing is written before Run.
func NewWriter(Config) *Writer { return &Writer{} }

// Set gives the newest state of a pod. What is not written yet of older ones is dropped.
func (w *Writer) Set(pod Pod) {}

// Remove forgets a pod.
func (w *Writer) Remove(uid types.UID) {}

// Run writes until ctx ends.
func (w *Writer) Run(ctx context.Context) { <-ctx.Done() }

// Counts are the counts of a [Writer] since its start.
type Counts struct {
	Written, Failed, Denied uint64 // patches
	Pending                 int    // pods whose conditions are not written yet
}

// Counts returns the counts.
func (w *Writer) Counts() Counts { return Counts{} }
