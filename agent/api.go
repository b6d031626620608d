package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/secrets"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/plugin/live"
	"github.com/daeace23/prober/probe"
)

func (a *Agent) servePods(w http.ResponseWriter, _ *http.Request) {
	answer(w, v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: secrets.MaskAll(a.source.Pods())})
}

func (a *Agent) serveEvents(w http.ResponseWriter, _ *http.Request) {
	answer(w, v1.EventList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "EventList"}, Items: a.events.List()})
}

// probeList is the response of /api/v1/probes.
type probeList struct {
	Items []manager.ProbeStatus `json:"items"`
}

func (a *Agent) serveProbes(w http.ResponseWriter, r *http.Request) {
	filter, err := parseFilter(r.URL.Query())
	if err != nil {
		fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	answer(w, probeList{a.probesOf(filter)})
}

// filter selects probes; empty fields match everything.
type filter struct{ namespace, pod, container, kind string }

func parseFilter(query url.Values) (filter, error) {
	var f filter
	fields := map[string]*string{"namespace": &f.namespace, "pod": &f.pod, "container": &f.container, "kind": &f.kind}
	for name, values := range query {
		field, ok := fields[name]
		switch {
		case !ok:
			return filter{}, fmt.Errorf("unknown parameter %q; known: container, kind, namespace, pod", name)
		case len(values) > 1:
			return filter{}, fmt.Errorf("parameter %q is set %d times", name, len(values))
		}
		*field = values[0]
	}
	if f.kind != "" {
		if _, err := probe.ParseKind(f.kind); err != nil {
			return filter{}, err
		}
	}
	return f, nil
}

func (f filter) matches(p *manager.ProbeStatus) bool {
	equal := func(want, got string) bool { return want == "" || want == got }
	return equal(f.namespace, p.Namespace) && equal(f.pod, p.Pod) && equal(f.container, p.Container) && equal(f.kind, p.Kind.String())
}

func (a *Agent) probesOf(f filter) []manager.ProbeStatus {
	return slices.DeleteFunc(a.probes(), func(p manager.ProbeStatus) bool { return !f.matches(&p) })
}

// probes returns the status of all probes, for JSON.
func (a *Agent) probes() []manager.ProbeStatus {
	all := a.manager.Probes()
	for i := range all {
		if last := all[i].Last; last != nil {
			last.Metrics = finite(last.Metrics)
		}
		for j := range all[i].History {
			all[i].History[j].Metrics = finite(all[i].History[j].Metrics)
		}
	}
	return all
}

// finite returns metrics without NaN and infinite values, which JSON cannot represent.
func finite(metrics []probe.Metric) []probe.Metric {
	odd := func(m probe.Metric) bool { return math.IsNaN(m.Value) || math.IsInf(m.Value, 0) }
	if !slices.ContainsFunc(metrics, odd) {
		return metrics
	}
	return slices.DeleteFunc(slices.Clone(metrics), odd)
}

func (a *Agent) serveAction(w http.ResponseWriter, r *http.Request) {
	act, ok := map[string]func(manager.Key) error{
		"trigger": a.manager.Trigger, "pause": a.manager.Pause, "resume": a.manager.Resume,
	}[r.PathValue("action")]
	if !ok {
		fail(w, http.StatusNotFound, "unknown action %q; known: pause, resume, trigger", r.PathValue("action"))
		return
	}
	f := filter{r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container"), r.PathValue("kind")}
	if _, err := probe.ParseKind(f.kind); err != nil {
		fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	acted := false
	for _, p := range a.probesOf(f) {
		acted = act(p.Key()) == nil || acted // an error means that the probe has ended
	}
	if !acted {
		fail(w, http.StatusNotFound, "container %q of pod %s/%s has no %s probe", f.container, f.namespace, f.pod, f.kind)
		return
	}
	answer(w, probeList{a.probesOf(f)})
}

func (a *Agent) servePlugins(w http.ResponseWriter, _ *http.Request) {
	answer(w, api.PluginList{Items: a.handlers.Statuses()})
}

func (a *Agent) servePromote(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	status, err := a.handlers.Promote(r.Context(), name)
	switch {
	case errors.Is(err, live.ErrNoPlugin):
		fail(w, http.StatusNotFound, "plugin %q: %v", name, err)
	case err != nil:
		fail(w, http.StatusConflict, "%v", err)
	default:
		a.promoted()
		answer(w, status)
	}
}

func (a *Agent) serveReload(w http.ResponseWriter, r *http.Request) {
	if err := a.Reload(r.Context()); err != nil {
		fail(w, http.StatusInternalServerError, "%v", err)
		return
	}
	w.WriteHeader(http.StatusOK)
}

// answer writes v as JSON.
func answer(w http.ResponseWriter, v any) {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(v); err != nil {
		fail(w, http.StatusInternalServerError, "%v", err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(b.Bytes()) // fails if the caller has left
}

// fail writes an error as JSON.
func fail(w http.ResponseWriter, status int, format string, args ...any) {
	text, err := json.Marshal(map[string]string{"error": fmt.Sprintf(format, args...)})
	if err != nil {
		text = []byte(`{"error":"internal"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n'))
}
