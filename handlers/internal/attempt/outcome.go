package attempt

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// DecodeResult decodes a result document, which may be empty. It replaces bytes that are not UTF-8.
// If strict is true, unknown fields are an error.
func DecodeResult(doc []byte, strict bool) (abi.Result, error) {
	switch {
	case len(doc) == 0:
		return abi.Result{}, nil
	case !utf8.Valid(doc):
		doc = bytes.ToValidUTF8(doc, []byte("\uFFFD"))
	}
	if strict {
		return abi.DecodeStrictResult(doc)
	}
	return abi.DecodeResult(doc)
}

// Outcome returns the outcome of an attempt from the plugin's answer, a code and a result document. It
// cuts or drops parts that exceed limits, and calls hit with the index of each such limit. A negative
// code is an error with [probe.ReasonGuest].
func Outcome(req *probe.Request, code int, answer *abi.Result, limits *plugin.Limits, hit func(limit int)) (probe.Outcome, error) {
	message, details, metrics := cut(req, answer.Message, limits, hit), answer.Details, answer.Metrics
	if len(details) > limits.Message { // dropped, because a cut object cannot be decoded
		hit(plugin.LimitMessage)
		details = nil
	}
	if len(metrics) > limits.Series {
		hit(plugin.LimitSeries)
		metrics = metrics[:limits.Series]
	}
	if code < 0 {
		text := cmp.Or(message, fmt.Sprintf("the plugin returned %d", code))
		return probe.Outcome{}, &probe.Error{Reason: probe.ReasonGuest, Err: errors.New(text)}
	}
	result, ok := probe.FromExitCode(code)
	if !ok {
		return probe.Outcome{}, ProtocolError("the plugin returned %d; want 0 to 3, or a negative number", code)
	}
	if answer.HasResult && answer.Result != result {
		return probe.Outcome{}, ProtocolError("the plugin returned %d (%v), but its result says %v", code, result, answer.Result)
	}
	out := probe.Outcome{Result: result, Output: message, Metrics: metrics, Details: string(details)}
	if reason := probe.Reason(answer.Reason); result == probe.Failure && slices.Contains(ofTargets, reason) {
		out.Reason = reason
	}
	return out, nil
}

// ofTargets are the reasons that a plugin can set for a Failure. Only the host can set others.
var ofTargets = []probe.Reason{
	probe.ReasonDNS, probe.ReasonConnectRefused, probe.ReasonConnectTimeout, probe.ReasonTLS, probe.ReasonHTTPStatus,
	probe.ReasonBody, probe.ReasonDeadline, probe.ReasonExecExit, probe.ReasonProtocol,
}

// cut cuts a message to its limit. It redacts secrets before the cut, because the rest of a cut secret
// could not be found.
func cut(req *probe.Request, message string, limits *plugin.Limits, hit func(limit int)) string {
	if len(message) <= limits.Message {
		return message
	}
	hit(plugin.LimitMessage)
	return clip.Bytes(req.Redacted(message), limits.Message)
}

// FailureOf returns a Failure in place of err if the error policy is "failure". ok is false if the policy
// is another one, if the attempt is not the last of its tick, or if err does not mean that the plugin is
// broken.
func FailureOf(m *plugin.Manifest, req *probe.Request, err error) (out probe.Outcome, ok bool) {
	if m.ErrorPolicy != plugin.PolicyFailure || req.Attempt < probe.MaxAttempts {
		return probe.Outcome{}, false
	}
	switch reason := probe.ReasonOf(err); reason {
	case probe.ReasonTrap, probe.ReasonMemory, probe.ReasonInstantiate:
		return probe.Outcome{Result: probe.Failure, Reason: reason, Output: probe.Cut(req.Redacted(err.Error()))}, true
	default:
		return probe.Outcome{}, false
	}
}

// TimedOut returns the outcome of an attempt that reached its deadline. took is its duration, which is
// shown if the request has no timeout.
func TimedOut(req *probe.Request, took time.Duration) probe.Outcome {
	return probe.TimedOut(cmp.Or(req.Spec.Timeout, took.Round(time.Millisecond)))
}
