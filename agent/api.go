package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/secrets"
	"github.com/daeace23/prober/agent/stream"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/plugin/live"
	"github.com/daeace23/prober/probe"
)

// listHead has the fields of a list of the Kubernetes API before its items.
type listHead struct {
	Kind       string       `json:"kind"`
	APIVersion string       `json:"apiVersion"`
	Metadata   api.ListMeta `json:"metadata"`
}

func (a *Agent) servePods(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery("pods", r.URL.Query(), "namespace", "pod")
	if err != nil {
		fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	pods := pager[*v1.Pod]{query: &q}
	all := a.source.Pods()
	for i := range all {
		pod := &all[i]
		key := sortKey{pod.Namespace, pod.Name, string(pod.UID)}
		if q.matches("namespace", pod.Namespace) && q.matches("pod", pod.Name) && !pods.passed(&key) {
			pods.add(key, pod)
		}
	}
	page, meta := pods.page()
	writeList(w, listHead{"PodList", "v1", meta}, page, func(p *v1.Pod) (any, bool) { return secrets.Mask(p), true })
}

func (a *Agent) serveEvents(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery("events", r.URL.Query(), "namespace", "pod", "container", "reason", "type")
	if err != nil {
		fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	events := pager[*v1.Event]{query: &q}
	all := a.events.List()
	for i := range all {
		e := &all[i]
		of, container := &e.InvolvedObject, q.filters["container"]
		key := sortKey{fmt.Sprintf("%020d", e.LastTimestamp.UnixNano()), e.Name}
		if q.matches("namespace", of.Namespace) && q.matches("pod", of.Name) && q.matches("reason", e.Reason) && q.matches("type", e.Type) &&
			(container == "" || strings.HasSuffix(of.FieldPath, "{"+container+"}")) && !events.passed(&key) {
			events.add(key, e)
		}
	}
	page, meta := events.page()
	writeList(w, listHead{"EventList", "v1", meta}, page, func(e *v1.Event) (any, bool) { return e, true })
}

// probeList is the response of /api/v1/probes. Metadata is empty unless a limit was set.
type probeList struct {
	Metadata api.ListMeta          `json:"metadata,omitzero"`
	Items    []manager.ProbeStatus `json:"items"`
}

func (a *Agent) serveProbes(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery("probes", r.URL.Query(), "namespace", "pod", "container", "kind", "handler", "result")
	if err == nil {
		err = checkProbeFilters(&q)
	}
	if err != nil {
		fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	probes := pager[manager.Key]{query: &q}
	a.selectProbes(q.filters["pod"], func(i *worker.Info) bool {
		if key := probeName(i); selects(&q, i) && !probes.passed(&key) && a.hasResult(keyOf(i), q.filters["result"]) {
			probes.add(key, keyOf(i))
		}
		return false
	})
	page, meta := probes.page()
	writeList(w, probeHead{meta}, page, func(key manager.Key) (any, bool) {
		s, ok := a.probe(key)
		return &s, ok && q.matches("result", s.Result.Word())
	})
}

// selectProbes returns the probes that match of the pods called pod, and of all pods if pod is "".
// With all pods, ticks that are due go first.
func (a *Agent) selectProbes(pod string, match func(*worker.Info) bool) (selected []worker.Info) {
	if pod != "" {
		for _, uid := range a.hub.Pods(pod) {
			selected = append(selected, a.manager.SelectPod(uid, match)...)
		}
		return selected
	}
	seen := 0
	return a.manager.Select(func(i *worker.Info) bool {
		if seen++; seen%1000 == 0 {
			runtime.Gosched()
		}
		return match(i)
	})
}

// selects reports whether i passes the filters of q, without that for results.
func selects(q *query, i *worker.Info) bool {
	return q.matches("namespace", i.Namespace) && q.matches("pod", i.Pod) && q.matches("container", i.Container) &&
		q.matches("kind", i.Kind.String()) && q.matches("handler", i.Handler)
}

// hasResult reports whether a probe has a decided result; "" is any.
func (a *Agent) hasResult(key manager.Key, result string) bool {
	if result == "" {
		return true
	}
	s, ok := a.manager.Latest(key)
	return ok && s.Result.Word() == result
}

// probeHead has the fields of a [probeList] before its items.
type probeHead struct {
	Metadata api.ListMeta `json:"metadata,omitzero"`
}

func checkProbeFilters(q *query) error {
	if kind := q.filters["kind"]; kind != "" {
		if _, err := probe.ParseKind(kind); err != nil {
			return err
		}
	}
	words := []string{results.Failure.Word(), results.Success.Word(), results.Unknown.Word()}
	if result := q.filters["result"]; result != "" && !slices.Contains(words, result) {
		return fmt.Errorf("unknown result %q; known: %s", result, strings.Join(words, ", "))
	}
	return nil
}

// probeName is what lists of probes are sorted by.
func probeName(i *worker.Info) sortKey {
	return sortKey{i.Namespace, i.Pod, i.PodUID, i.Container, i.Kind.String()}
}

// probesOf returns the probes that match of the pods called pod, sorted by [probeName].
func (a *Agent) probesOf(pod string, match func(*worker.Info) bool) []worker.Info {
	all := a.selectProbes(pod, match)
	slices.SortFunc(all, func(a, b worker.Info) int {
		x, y := probeName(&a), probeName(&b)
		return x.compare(&y)
	})
	return all
}

func keyOf(i *worker.Info) manager.Key {
	return manager.Key{PodUID: types.UID(i.PodUID), Container: i.Container, Kind: i.Kind}
}

// probe returns the status of a probe, for JSON.
func (a *Agent) probe(key manager.Key) (manager.ProbeStatus, bool) {
	return representable(a.manager.Probe(key))
}

// latest returns the status of a probe without its history, for JSON.
func (a *Agent) latest(key manager.Key) (manager.ProbeStatus, bool) {
	return representable(a.manager.Latest(key))
}

// representable removes from s what JSON cannot represent.
func representable(s manager.ProbeStatus, ok bool) (manager.ProbeStatus, bool) {
	if s.Last != nil {
		s.Last.Metrics = finite(s.Last.Metrics)
	}
	for i := range s.History {
		s.History[i].Metrics = finite(s.History[i].Metrics)
	}
	return s, ok
}

// serveStream responds to GET /api/v1/stream with the present state, and then with changes.
func (a *Agent) serveStream(w http.ResponseWriter, r *http.Request) {
	reader := a.hub.Attach()
	if reader == nil {
		fail(w, http.StatusServiceUnavailable, "too many streams are open")
		return
	}
	defer reader.Close()
	_ = reader.Serve(r.Context(), w) // the caller has left, or does not read
}

// streamed returns the state that streams have.
func (a *Agent) streamed() stream.State {
	all := func(match func(*worker.Info) bool) []worker.Info { return a.selectProbes("", match) }
	return stream.State{Select: all, Probe: a.latest, Watch: a.source.Watch, Events: a.events.List}
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
	kind, err := probe.ParseKind(r.PathValue("kind"))
	if err != nil {
		fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	namespace, pod, container := r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container")
	list, acted := probeList{Items: []manager.ProbeStatus{}}, false
	for _, info := range a.probesOf(pod, exactly(namespace, pod, container, kind.String())) {
		key := keyOf(&info)
		acted = act(key) == nil || acted // an error means that the probe has ended
		a.hub.Probe(key)
		if status, ok := a.probe(key); ok {
			list.Items = append(list.Items, status)
		}
	}
	if !acted {
		fail(w, http.StatusNotFound, "container %q of pod %s/%s has no %s probe", container, namespace, pod, kind)
		return
	}
	answer(w, list)
}

// exactly matches the probes of one kind of the containers of one name. There is more than one while
// a pod is replaced.
func exactly(namespace, pod, container, kind string) func(*worker.Info) bool {
	return func(i *worker.Info) bool {
		return i.Pod == pod && i.Container == container && i.Namespace == namespace && i.Kind.String() == kind
	}
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
