package logs

import (
	"log/slog"
	"strings"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/probe"
)

// Explainer logs the operation that a failed probe was waiting for at its deadline, and the body of the
// response if the operator allows it. It logs the same failure once, until the probe succeeds or fails in
// another way. The texts of events are the kubelet's, and have neither.
type Explainer struct{ Logger *slog.Logger }

var _ worker.Observer = Explainer{}

// Observe implements [worker.Observer].
func (e Explainer) Observe(info worker.Info) worker.ProbeObserver {
	return &explainedProbe{log: e.Logger, subject: info.Subject, kind: info.Kind}
}

// explainedProbe logs the failures of one probe. The probe's ticks own it.
type explainedProbe struct {
	log     *slog.Logger
	subject results.Subject
	kind    probe.Kind
	last    string // kind of the failure that was last logged; "" after a success
}

// Tick implements [worker.ProbeObserver].
func (p *explainedProbe) Tick(t *worker.Tick) {
	if t.Outcome.Result != probe.Failure {
		p.last = ""
		return
	}
	d := explain.Read(t.Outcome.Details)
	call, _, _ := strings.Cut(d.Waiting, " ")
	var attrs []any
	if d.Waiting != "" {
		attrs = append(attrs, "waiting", d.Waiting)
	}
	if d.Body != "" {
		call += "+body"
		attrs = append(attrs, "body", d.Body)
	}
	same := call == p.last
	if p.last = call; same || call == "" {
		return
	}
	p.log.Warn("probe failed", append([]any{
		"namespace", p.subject.Namespace, "pod", p.subject.Pod, "container", p.subject.Container, "kind", p.kind.String(), "handler", t.Handler,
	}, attrs...)...)
}

// Skipped implements [worker.ProbeObserver].
func (*explainedProbe) Skipped(worker.SkipReason, int) {}

// Close implements [worker.ProbeObserver].
func (*explainedProbe) Close() {}
