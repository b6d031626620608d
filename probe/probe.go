// Package probe has the types that the core and the handlers share: probes, requests and outcomes. It
// imports only the standard library and one small internal package, so a handler depends on nothing else of
// the module.
//
// Start with [Handler], whose comment is the contract between the core and a handler.
package probe

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// MaxOutput is the maximum length in bytes of the output of an outcome. Longer output is truncated, and
// never an error (kubelet: maxReadLength of the exec and HTTP probes).
const MaxOutput = 10 * 1024

// MaxAttempts is the maximum number of attempts of one tick. Only an error is retried (kubelet:
// maxProbeRetries).
// See RATIONALE.md, "Why are errors discarded?"
const MaxAttempts = 3

// Result is the verdict of one attempt about its target.
type Result uint8

// The four results. The zero value is Unknown, so that a forgotten result never
// counts as a success.
const (
	Unknown Result = iota
	Success
	Warning // counts as a success, but should be reported
	Failure
)

var resultNames = [...]string{Unknown: "unknown", Success: "success", Warning: "warning", Failure: "failure"}

// String returns the kubelet's word for r: "success", "warning", "failure" or "unknown".
func (r Result) String() string {
	if int(r) < len(resultNames) {
		return resultNames[r]
	}
	return fmt.Sprintf("Result(%d)", uint8(r))
}

// ExitCode returns the exit code for r, as in Nagios plugins and prober's commands: 0 for Success, 1 for
// Warning, 2 for Failure, 3 for Unknown.
func (r Result) ExitCode() int {
	switch r {
	case Success:
		return 0
	case Warning:
		return 1
	case Failure:
		return 2
	default:
		return 3
	}
}

// FromExitCode is the inverse of [Result.ExitCode]; ok is false for any other code.
func FromExitCode(code int) (r Result, ok bool) {
	switch code {
	case 0:
		return Success, true
	case 1:
		return Warning, true
	case 2:
		return Failure, true
	case 3:
		return Unknown, true
	default:
		return Unknown, false
	}
}

// MarshalText implements [encoding.TextMarshaler].
func (r Result) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (r *Result) UnmarshalText(text []byte) error {
	for i, name := range resultNames {
		if string(text) == name {
			*r = Result(i)
			return nil
		}
	}
	return fmt.Errorf("unknown result %q; known: failure, success, unknown, warning", text)
}

// Kind is the purpose of a probe. The numbers are the kubelet's.
type Kind uint8

// The three kinds of the kubelet.
const (
	Liveness Kind = iota
	Readiness
	Startup
)

// Kinds lists the kinds in the order of their numbers.
var Kinds = [...]Kind{Liveness, Readiness, Startup}

var (
	kindNames  = [...]string{Liveness: "liveness", Readiness: "readiness", Startup: "startup"}
	kindTitles = [...]string{Liveness: "Liveness", Readiness: "Readiness", Startup: "Startup"}
)

// String returns "liveness", "readiness" or "startup".
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// Title returns the kubelet's spelling in events and metrics: "Liveness",
// "Readiness", "Startup", and "UNKNOWN" for any other number.
func (k Kind) Title() string {
	if int(k) < len(kindTitles) {
		return kindTitles[k]
	}
	return "UNKNOWN"
}

// MarshalText implements [encoding.TextMarshaler].
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (k *Kind) UnmarshalText(text []byte) error {
	kind, err := ParseKind(string(text))
	if err != nil {
		return err
	}
	*k = kind
	return nil
}

// ParseKind returns the kind named s.
func ParseKind(s string) (Kind, error) {
	for i, name := range kindNames {
		if s == name {
			return Kind(i), nil
		}
	}
	return 0, fmt.Errorf("unknown kind %q; known: liveness, readiness, startup", s)
}

// ErrorPolicy decides about a tick whose last attempt ended in an error.
type ErrorPolicy uint8

const (
	// Discard ignores the tick, as the kubelet does. It counts in metrics and sends an event, but does not
	// count for the thresholds.
	Discard ErrorPolicy = iota
	// CountAsFailure counts the tick as a Failure for the thresholds, unless the error has [ReasonDependency]
	// or is a fault of the host; see [IsHostTrouble]. With [CompatHostTrouble] a fault of the host counts too.
	CountAsFailure
)

// Spec has the schedule and the thresholds of a probe.
type Spec struct {
	InitialDelay     time.Duration // time after the container's start before the first attempt
	Period           time.Duration // time between due times; above 0
	Timeout          time.Duration // timeout of each attempt; 0 means none
	SuccessThreshold int           // number of consecutive successes that decide Success; at least 1
	FailureThreshold int           // number of consecutive failures that decide Failure; at least 1
	WarningIsFailure bool          // count Warning as Failure instead of Success
	ErrorPolicy      ErrorPolicy
	// UnhealthyPeriod replaces Period while the decided result is not Success, or the last counted result was
	// a Failure; 0 means Period.
	UnhealthyPeriod time.Duration
	// Jitter is the largest share of the period, from 0 to 1, by which two due times are closer together or
	// further apart. They are never closer than Timeout, and their mean distance is the period.
	Jitter float64
	// Initial is the decided result of a new container before the first attempt decides one: Success or
	// Failure, and only for readiness. Unknown means the kubelet's, which is shown as the state unknown.
	Initial Result
}

// Target is the address that a probe connects to. Host is a name or an IP address without brackets. Unix is
// the path of a socket; if it is set, Host and Port are ignored.
type Target struct {
	Host string `json:"host,omitzero"`
	Port int    `json:"port,omitzero"`
	Unix string `json:"unix,omitzero"`
}

// UnknownHost is shown in descriptions for a host that is not known yet, such as the IP of a pod without
// one.
const UnknownHost = "HOST"

// Address returns a description of t: "HOST:PORT", "HOST" without a port, or "unix:PATH"; "" for the zero
// value. If only the port is set, the host is [UnknownHost].
func (t Target) Address() string {
	host := cmp.Or(t.Host, UnknownHost)
	switch {
	case t.Unix != "":
		return "unix:" + t.Unix
	case t.Port == 0:
		return t.Host
	case strings.Contains(host, ":"):
		return "[" + host + "]:" + strconv.Itoa(t.Port)
	default:
		return host + ":" + strconv.Itoa(t.Port)
	}
}

// Pod is the pod of a probed container. It is shared between probes and read-only.
type Pod struct {
	Namespace string
	Name      string
	UID       string
	Labels    map[string]string // a target has labels that are not valid for a v1.Pod too
	Ports     []Port            // ports of all containers
}

// Container is a probed container. It is shared between probes and read-only.
type Container struct {
	Name  string
	Ports []Port
}

// Port is one declared port of a container.
type Port struct {
	Name     string `json:"name,omitzero"`
	Number   int    `json:"port"`
	Protocol string `json:"protocol,omitzero"` // "TCP", "UDP" or "SCTP"
}

// Request has the arguments of one attempt. A handler must not modify the data that it points to, and must
// not keep it after Probe has returned.
type Request struct {
	Kind        Kind
	Attempt     int // from 1 to [MaxAttempts]
	Spec        Spec
	LastResult  Result // result of the previous tick; Unknown at first
	Target      Target // resolved for this attempt
	PodIP       string // "" if the pod has none yet
	Pod         *Pod
	Container   *Container
	ContainerID string
	// Trace gets the events of the attempt; nil if they are not kept. It must not influence the attempt. If
	// an attempt without Debug succeeds, only phases and calls with their durations are kept, so their
	// texts need not be formatted.
	Trace Tracer
	// Debug means that the trace of this attempt should be complete: an operator has requested it, or the
	// previous tick did not succeed. The trace then has every text, and log lines of every level.
	Debug bool
	// Redact removes the secrets of the probe's config from a text. The worker redacts outcome, error and
	// trace. A handler that writes elsewhere, for example to a log, must call Redact itself, possibly with
	// locks held: it must not block. Nil means that the config has no secrets. See [Request.Redacted].
	Redact func(text string) string
}

// Redacted returns text without the secrets of the probe's config.
func (r *Request) Redacted(text string) string {
	if r.Redact == nil {
		return text
	}
	return r.Redact(text)
}

// Outcome is the result of an attempt, with the information that the handler reports.
type Outcome struct {
	Result Result
	Output string // text for users, truncated to MaxOutput bytes
	Reason Reason // why the result is not Success; "" if no reason of the list applies
	// Metrics and their Labels must not be modified after the attempt, because they are read concurrently.
	Metrics []Metric
	// Details is a JSON object with more information for programs, or "". It is dropped if it is longer
	// than MaxOutput, because truncated JSON is invalid.
	Details string
}

// Metric is a number measured by a handler.
type Metric struct {
	Name   string            `json:"name"`
	Value  float64           `json:"value"`
	Unit   string            `json:"unit,omitzero"`
	Labels map[string]string `json:"labels,omitzero"`
}

// Handler carries out probes.
//
// The outcome is the verdict about the target. An error means that there is no verdict: a program is
// missing, a plugin is broken, or the host has a fault. Only an error is retried, at once, up to
// [MaxAttempts] attempts in total. After the last attempt the [ErrorPolicy] of the probe applies. An
// Outcome of Unknown without an error is not retried, and counts as a Failure.
//
// A missed deadline is a verdict: if ctx expires before the target has answered, Probe must return Failure
// and a nil error. If ctx is cancelled for any other reason, the outcome is ignored. In both cases Probe
// must return promptly and leave nothing running. Goroutines must not start to use ctx after Probe has
// returned, because ctx may then belong to another attempt.
//
// Probe must not call [runtime.Goexit]. It must not return with its goroutine locked to a thread (see
// [runtime.LockOSThread]), because attempts of other probes run in the same goroutine.
//
// Output must have at most [MaxOutput] bytes; see [Cut]. Probe is called concurrently.
type Handler interface {
	Probe(ctx context.Context, req Request) (Outcome, error)
}

// Preparer is a Handler with a configuration. Prepare is called once for each probe, outside of ticks. It
// validates config, a JSON object ("{}" if the probe has none), and target, whose zero fields are filled in
// from the pod at each attempt. It returns the handler bound to both. Its errors name the invalid field.
type Preparer interface {
	Handler
	Prepare(config []byte, target Target) (Handler, error)
}

// HandlerFunc is a function that implements [Handler].
type HandlerFunc func(ctx context.Context, req Request) (Outcome, error)

// Probe calls f.
func (f HandlerFunc) Probe(ctx context.Context, req Request) (Outcome, error) { return f(ctx, req) }

var _ Handler = HandlerFunc(nil)

// Cut returns s truncated to [MaxOutput] bytes. It does not split a valid UTF-8 sequence. The result does
// not keep the rest of s in memory.
func Cut(s string) string {
	if len(s) <= MaxOutput {
		return s
	}
	cut := MaxOutput
	for back := 0; back < 3 && cut > 0 && s[cut]&0xC0 == 0x80; back++ {
		cut--
	}
	if s[cut]&0xC0 == 0x80 { // invalid UTF-8
		cut = MaxOutput
	}
	return strings.Clone(s[:cut])
}

// TimedOut returns the outcome of an attempt that missed its deadline.
func TimedOut(timeout time.Duration) Outcome {
	return Outcome{Result: Failure, Reason: ReasonDeadline, Output: "timed out after " + timeout.String()}
}
