package logs

import (
	"log/slog"
	"strings"

	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/probe"
)

// Explainer logs what a failed probe was waiting for at its deadline, and the body of its
// answer with the operator's consent: once, until the probe succeeds or fails otherwise.
// Events have the kubelet's texts, which say neither.
type Explainer struct{ Logger *slog.Logger }

var _ worker.Observer = Explainer{}

// Observe implements [worker.Observer].
func (e Explainer) Observe(info worker.Info) worker.ProbeObserver {
	return &explainedProbe{log: e.Logger, info: info}
}

// explainedProbe is what was logged of one probe. It belongs to the probe's ticks.
type explainedProbe struct {
	log  *slog.Logger
	info worker.Info
	told string // the kind of what was last told; "" since a success
}

// Tick implements [worker.ProbeObserver].
func (p *explainedProbe) Tick(t *worker.Tick) {
	if t.Outcome.Result != probe.Failure {
		p.told = ""
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
	same := call == p.told
	if p.told = call; same || call == "" {
		return
	}
	p.log.Warn("probe failed", append([]any{
		"namespace", p.info.Namespace, "pod", p.info.Pod, "container", p.info.Container, "kind", p.info.Kind.String(), "handler", t.Handler,
	}, attrs...)...)
}

// Skipped implements [worker.ProbeObserver].
func (*explainedProbe) Skipped(worker.SkipReason, int) {}

// Close implements [worker.ProbeObserver].
func (*explainedProbe) Close() {}
