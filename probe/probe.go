// Package probe has the types that the core and the handlers share: what a probe is, what a
// handler gets and returns. It imports the standard library and one internal package of a few
// lines, so that a handler depends on nothing else of the module.
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

// MaxOutput is the largest number of bytes in the output of an outcome. Longer output is cut,
// never an error (kubelet: maxReadLength of the exec and HTTP probes).
const MaxOutput = 10 * 1024

// MaxAttempts is the largest number of attempts of one tick. Only an error is retried (kubelet:
// maxProbeRetries).
const MaxAttempts = 3

// Result is the verdict of one attempt about its target.
type Result uint8

// The four results. The zero value is Unknown, so that a forgotten result never
// counts as a success.
const (
	Unknown Result = iota
	Success
	Warning // counts as a success, with something to report
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

// ExitCode returns the exit code for r of Nagios plugins and prober's commands: 0 Success, 1
// Warning, 2 Failure, 3 Unknown.
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

// ErrorPolicy is what to do with a tick whose last attempt ended in an error.
type ErrorPolicy uint8

const (
	// Discard drops the tick, as the kubelet does: it is counted in metrics, an event is sent,
	// and the thresholds do not count it.
	Discard ErrorPolicy = iota
	// CountAsFailure makes the thresholds count the tick as a Failure.
	CountAsFailure
)

// Spec is the schedule and the thresholds of a probe.
type Spec struct {
	InitialDelay     time.Duration // no attempts earlier than this after the container's start
	Period           time.Duration // from one due time to the next; above 0
	Timeout          time.Duration // of each attempt; 0 means none
	SuccessThreshold int           // consecutive successes that decide Success; at least 1
	FailureThreshold int           // consecutive failures that decide Failure; at least 1
	WarningIsFailure bool          // count Warning as Failure, not as Success
	ErrorPolicy      ErrorPolicy
}

// Target is the address that a probe connects to. Host is a name or an IP address without
// brackets. Unix is the path of a socket; if it is set, Host and Port are not used.
type Target struct {
	Host string `json:"host,omitzero"`
	Port int    `json:"port,omitzero"`
	Unix string `json:"unix,omitzero"`
}

// UnknownHost stands in texts for a host that is not known yet, such as the IP of a pod that waits for one.
const UnknownHost = "HOST"

// Address returns t for people: "HOST:PORT", "HOST" without a port, or "unix:PATH"; "" for the zero value. A
// port without a host is one of [UnknownHost].
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
	Labels    map[string]string
	Ports     []Port // of all containers
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

// Request has the arguments of one attempt. Handlers must not modify what it points to, and must
// not keep it after they return.
type Request struct {
	Kind        Kind
	Attempt     int // 1 to [MaxAttempts]
	Spec        Spec
	LastResult  Result // of the tick before this one; Unknown at first
	Target      Target // resolved for this attempt
	PodIP       string // "" while the pod has none
	Pod         *Pod
	Container   *Container
	ContainerID string
	// Trace gets what happens inside the attempt; nil if nobody keeps that. It must not change
	// how the attempt is made. Of a success without Debug, only phases and calls with their times
	// are kept: their texts need not be formatted.
	Trace Tracer
	// Debug means that someone looks at this attempt: an operator has asked for it, or the tick
	// before was not a success. Its trace has every text, and log lines of every level.
	Debug bool
	// Redact removes the secrets of the probe's config from a text. The worker redacts
	// outcome, error and trace. A handler that writes elsewhere, to a log for example,
	// calls Redact itself, also with locks held: it must not block. Nil means that the
	// config has no secrets. See [Request.Redacted].
	Redact func(text string) string
}

// Redacted returns text without the secrets of the probe's config.
func (r *Request) Redacted(text string) string {
	if r.Redact == nil {
		return text
	}
	return r.Redact(text)
}

// Outcome is the result of an attempt and what the handler reports with it.
type Outcome struct {
	Result Result
	Output string // text for people, cut to MaxOutput bytes
	Reason Reason // why the result is not Success; "" if no reason of the list fits
	// Metrics and their Labels must not be modified after the attempt: they are read concurrently.
	Metrics []Metric
	// Details is a JSON object with more information for programs, or "". A longer one than
	// MaxOutput is dropped, since a cut JSON object is not valid.
	Details string
}

// Metric is one number that a handler measured.
type Metric struct {
	Name   string            `json:"name"`
	Value  float64           `json:"value"`
	Unit   string            `json:"unit,omitzero"`
	Labels map[string]string `json:"labels,omitzero"`
}

// Handler carries out probes.
//
// The outcome is the verdict about the target. The error means that there is no verdict: a
// program is missing, a plugin is broken, or the host has a fault. Only an error is retried, at
// once, with up to [MaxAttempts] attempts in all. After the last one the [ErrorPolicy] of the
// probe applies. An Outcome of Unknown without an error is not retried and counts as a Failure.
//
// A missed deadline is a verdict: if ctx expires before the target has answered, Probe returns
// Failure and a nil error. If ctx is cancelled for any other reason, the outcome is ignored. In
// both cases Probe returns promptly and leaves nothing running. Code must not begin to use ctx after
// that: it may belong to another attempt. Probe must not call [runtime.Goexit]. It must not return with its
// goroutine locked to a thread, see [runtime.LockOSThread]: attempts of other probes run in it too.
//
// Output is at most [MaxOutput] bytes; see [Cut]. Probe is called concurrently.
type Handler interface {
	Probe(ctx context.Context, req Request) (Outcome, error)
}

// Preparer is a Handler with a configuration. Prepare is called once for each probe, outside of
// ticks. It validates config, a JSON object ("{}" if the probe has none), and the configured
// target, whose zero fields are filled in from the pod at each attempt. It returns the handler
// bound to both. Its errors name the invalid field.
type Preparer interface {
	Handler
	Prepare(config []byte, target Target) (Handler, error)
}

// HandlerFunc is a function that is a [Handler].
type HandlerFunc func(ctx context.Context, req Request) (Outcome, error)

// Probe calls f.
func (f HandlerFunc) Probe(ctx context.Context, req Request) (Outcome, error) { return f(ctx, req) }

var _ Handler = HandlerFunc(nil)

// Cut returns s cut to [MaxOutput] bytes. It does not split a valid UTF-8 sequence. The result
// does not keep the rest of s in memory.
func Cut(s string) string {
	if len(s) <= MaxOutput {
		return s
	}
	cut := MaxOutput
	for back := 0; back < 3 && cut > 0 && s[cut]&0xC0 == 0x80; back++ {
		cut--
	}
	if s[cut]&0xC0 == 0x80 { // not valid UTF-8
		cut = MaxOutput
	}
	return strings.Clone(s[:cut])
}

// TimedOut returns the outcome of an attempt that has missed its deadline.
func TimedOut(timeout time.Duration) Outcome {
	return Outcome{Result: Failure, Reason: ReasonDeadline, Output: "timed out after " + timeout.String()}
}
