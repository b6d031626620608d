package attempt

import (
	"errors"
	"sync/atomic"

	"github.com/daeace23/prober/internal/perfdata"
	"github.com/daeace23/prober/probe"
)

// WarnOfPerfdata tells that a part of performance data is ignored, and returns this as an error for hosts that accept
// no such part; nil if all of it was read. told is the probe's own: the first attempt calls warn, and only it and
// attempts with Debug are traced.
func WarnOfPerfdata(req *probe.Request, read *perfdata.Reading, told *atomic.Bool, warn func(text string)) error {
	text := read.Ignored()
	if text == "" {
		return nil
	}
	first := told != nil && told.CompareAndSwap(false, true)
	if first {
		warn(text)
	}
	if req.Trace != nil && (first || req.Debug) {
		req.Trace.Emit(probe.TraceEvent{Type: probe.TraceLog, Name: "warn", Detail: text})
	}
	return &probe.Error{Reason: probe.ReasonProtocol, Err: errors.New(text)}
}

// ProbeOf returns the attributes of a log line that name the probe of a request.
func ProbeOf(req *probe.Request) []any {
	attrs := []any{"kind", req.Kind.String()}
	if req.Pod != nil {
		attrs = append(attrs, "pod", req.Pod.Namespace+"/"+req.Pod.Name)
	}
	if req.Container != nil {
		attrs = append(attrs, "container", req.Container.Name)
	}
	return attrs
}
