package agent

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/notify"
	"github.com/daeace23/prober/agent/pauses"
	"github.com/daeace23/prober/agent/reply"
	"github.com/daeace23/prober/agent/secrets"
	"github.com/daeace23/prober/agent/stream"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/plugin/live"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/probe"
)

// listHead has the fields before the items of a list in the Kubernetes API.
type listHead struct {
	Kind       string       `json:"kind"`
	APIVersion string       `json:"apiVersion"`
	Metadata   api.ListMeta `json:"metadata"`
}

func (a *Agent) servePods(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery("pods", r.URL.Query(), "namespace", "pod")
	if err != nil {
		reply.Fail(w, http.StatusBadRequest, "%v", err)
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
		reply.Fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	events := pager[*v1.Event]{query: &q}
	all := a.events.List()
	for i := range all {
		e := &all[i]
		object, container := &e.InvolvedObject, q.filters["container"]
		key := sortKey{fmt.Sprintf("%020d", e.LastTimestamp.UnixNano()), e.Name}
		if q.matches("namespace", object.Namespace) && q.matches("pod", object.Name) && q.matches("reason", e.Reason) && q.matches("type", e.Type) &&
			(container == "" || strings.HasSuffix(object.FieldPath, "{"+container+"}")) && !events.passed(&key) {
			events.add(key, e)
		}
	}
	page, meta := events.page()
	writeList(w, listHead{"EventList", "v1", meta}, page, func(e *v1.Event) (any, bool) { return e, true })
}

// probeList is the response of /api/v1/probes. Metadata is empty unless a limit was set.
type probeList struct {
	Metadata api.ListMeta      `json:"metadata,omitzero"`
	Items    []api.ProbeStatus `json:"items"`
}

func (a *Agent) serveProbes(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery("probes", r.URL.Query(), "namespace", "pod", "container", "kind", "handler", "result", "state")
	if err == nil {
		err = checkProbeFilters(&q)
	}
	if err != nil {
		reply.Fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	probes := pager[manager.Key]{query: &q}
	a.selectProbes(q.filters["pod"], func(i *worker.Info) bool {
		if key := probeName(i); selects(&q, i) && !probes.passed(&key) && a.isSelected(&q, i) {
			probes.add(key, keyOf(i))
		}
		return false
	})
	page, meta := probes.page()
	writeList(w, probeHead{meta}, page, func(key manager.Key) (any, bool) {
		s, ok := a.probe(key)
		return &s, ok && q.matches("result", s.Result) && q.matches("state", s.Counted())
	})
}

// selectProbes returns the probes for which match returns true, in pods called pod or, if pod is "", in all
// pods. For all pods it yields the processor regularly, so that ticks that are due run.
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

// selects reports whether i passes the filters of q, except those for results and states.
func selects(q *query, i *worker.Info) bool {
	return q.matches("namespace", i.Namespace) && q.matches("pod", i.Pod) && q.matches("container", i.Container) &&
		q.matches("kind", i.Kind.String()) && q.matches("handler", i.Handler)
}

// isSelected reports whether a probe passes the filters of q for results and states.
func (a *Agent) isSelected(q *query, i *worker.Info) bool {
	if q.filters["result"] == "" && q.filters["state"] == "" {
		return true
	}
	s, ok := a.latest(keyOf(i))
	return ok && q.matches("result", s.Result) && q.matches("state", s.Counted())
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
	return cmp.Or(
		q.oneOf("result", []string{results.Failure.Word(), results.Success.Word(), results.Unknown.Word()}),
		q.oneOf("state", api.States),
	)
}

// probeName returns the sort key of a probe in lists.
func probeName(i *worker.Info) sortKey {
	return sortKey{i.Namespace, i.Pod, i.PodUID, i.Container, i.Kind.String()}
}

// probesOf returns the probes of pods called pod for which match returns true, sorted by [probeName].
func (a *Agent) probesOf(pod string, match func(*worker.Info) bool) []worker.Info {
	all := a.selectProbes(pod, match)
	slices.SortFunc(all, func(a, b worker.Info) int {
		x, y := probeName(&a), probeName(&b)
		return x.compare(&y)
	})
	return all
}

// hasProbe reports whether a probe of that name exists. Before the pods are applied it returns true, as any
// probe may follow.
func (a *Agent) hasProbe(key notify.Key) bool {
	if !a.running.Load() {
		return true
	}
	return len(a.selectProbes(key.Pod, exactly(key.Namespace, key.Pod, key.Container, key.Kind.String()))) > 0
}

// targetOf returns the target of the probe, "" if there is no such probe.
func (a *Agent) targetOf(namespace, pod, container, kind string) string {
	for _, info := range a.selectProbes(pod, exactly(namespace, pod, container, kind)) {
		if target := a.manager.Target(keyOf(&info)); target != "" {
			return target
		}
	}
	return ""
}

// labelsOf returns the labels of a probe's pod or target, which are read-only; false if the probe does not
// exist.
func (a *Agent) labelsOf(podUID, container string, kind probe.Kind) (labels map[string]string, ok bool) {
	return a.manager.Labels(manager.Key{PodUID: types.UID(podUID), Container: container, Kind: kind})
}

func keyOf(i *worker.Info) manager.Key {
	return manager.Key{PodUID: types.UID(i.PodUID), Container: i.Container, Kind: i.Kind}
}

// serveStream returns the handler of GET /api/v1/stream, which sends the present state and then changes.
func (a *Agent) serveStream() http.HandlerFunc {
	follow := func(view stream.View) http.HandlerFunc {
		return a.shares(maxStreams, slotWait, "too many streams are open").Limit(func(w http.ResponseWriter, r *http.Request) {
			reader := a.hub.Attach(view)
			defer reader.Close()
			_ = reader.Serve(r.Context(), w) // the client has left, or does not read
		})
	}
	full, summary := follow(stream.Full), follow(stream.Summary)
	return func(w http.ResponseWriter, r *http.Request) {
		view, err := requestedView(r)
		switch {
		case err != nil:
			reply.Fail(w, http.StatusBadRequest, "%v", err)
		case view == stream.Summary:
			summary(w, r)
		default:
			full(w, r)
		}
	}
}

// requestedView returns the view of a stream that r requests.
func requestedView(r *http.Request) (stream.View, error) {
	for parameter := range r.URL.Query() {
		if parameter != "view" {
			return 0, fmt.Errorf("unknown parameter %q; known: view", parameter)
		}
	}
	switch view := r.URL.Query().Get("view"); view {
	case "", "full":
		return stream.Full, nil
	case "summary":
		return stream.Summary, nil
	default:
		return 0, fmt.Errorf("unknown view %q; known: full, summary", view)
	}
}

// serveAgent responds with the status of the agent.
func (a *Agent) serveAgent(w http.ResponseWriter, _ *http.Request) {
	status := api.AgentStatus{Version: a.cfg.Version, Revision: a.cfg.Revision, Started: a.started.UTC(), Ready: true, Checks: []api.Check{}}
	for _, c := range a.troubles() {
		status.Ready = status.Ready && c.Result != "failure"
		status.Checks = append(status.Checks, c)
	}
	reply.JSON(w, status)
}

// streamState returns the sources of the state that streams send.
func (a *Agent) streamState() stream.State {
	selectAll := func(match func(*worker.Info) bool) []worker.Info { return a.selectProbes("", match) }
	return stream.State{Select: selectAll, Probe: a.latest, Watch: a.source.Watch, Events: a.events.List}
}

// targetHead has the fields before the items of an [api.TargetList].
type targetHead struct {
	Metadata api.ListMeta       `json:"metadata,omitzero"`
	Sources  []api.TargetSource `json:"sources"`
}

func (a *Agent) serveTargets(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery("targets", r.URL.Query(), "group", "namespace", "pod", "state")
	if err == nil {
		err = q.oneOf("state", pods.TargetStates)
	}
	if err != nil {
		reply.Fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	all := a.targets()
	targets := pager[*pods.Target]{query: &q}
	for i := range all.Items {
		t := &all.Items[i]
		key := sortKey{t.Group, t.Name, t.State, t.Source, fmt.Sprintf("%06d", i)}
		if q.matches("group", t.Group) && q.matches("namespace", t.Namespace) && q.matches("pod", t.Pod) && q.matches("state", t.State) && !targets.passed(&key) {
			targets.add(key, t)
		}
	}
	page, meta := targets.page()
	head := targetHead{meta, []api.TargetSource{}}
	for _, s := range all.Sources {
		if !q.matches("group", s.Group) {
			continue
		}
		shown := api.TargetSource{
			Group: s.Group, Source: s.Source, Probed: s.Probed, Dropped: s.Dropped, Failures: s.Failures, Refreshed: s.Refreshed.UTC(),
		}
		if s.Err != nil {
			shown.Error = s.Err.Error()
		}
		head.Sources = append(head.Sources, shown)
	}
	writeList(w, head, page, func(t *pods.Target) (any, bool) {
		return api.Target{
			Group: t.Group, Name: t.Name, Address: t.Address, Source: t.Source, Labels: t.Labels, State: t.State, Reason: t.Reason,
			Namespace: t.Namespace, Pod: t.Pod, Since: t.Since.UTC(),
		}, true
	})
}

// serveProbe responds with the status of one probe.
func (a *Agent) serveProbe(w http.ResponseWriter, r *http.Request) {
	if p, _, ok := a.namedProbe(w, r); ok {
		reply.JSON(w, p)
	}
}

// serveExplain responds with an explanation of the result of one probe.
func (a *Agent) serveExplain(w http.ResponseWriter, r *http.Request) {
	_, p, ok := a.namedProbe(w, r)
	if !ok {
		return
	}
	x, ok := a.manager.Explain(p)
	if !ok {
		reply.Fail(w, http.StatusNotFound, "the probe has just ended")
		return
	}
	reply.JSON(w, a.apiExplanation(&x))
}

// troubles returns the checks of /readyz that do not pass.
func (a *Agent) troubles() (checks []api.Check) {
	for _, c := range a.ready() {
		if result := map[string]string{"!": "warning", "-": "failure"}[c.mark]; result != "" {
			checks = append(checks, api.Check{Name: c.name, Result: result, Text: c.text})
		}
	}
	return checks
}

// namedProbe returns the probe that the path of r names. While its pod is replaced there are two: it returns
// the one that ticked last. If there is none, or r has a parameter, it responds with the error.
func (a *Agent) namedProbe(w http.ResponseWriter, r *http.Request) (newest *api.ProbeStatus, key manager.Key, ok bool) {
	kind, err := probe.ParseKind(r.PathValue("kind"))
	if err != nil {
		reply.Fail(w, http.StatusBadRequest, "%v", err)
		return nil, key, false
	}
	for parameter := range r.URL.Query() {
		reply.Fail(w, http.StatusBadRequest, "unknown parameter %q; no parameters are known", parameter)
		return nil, key, false
	}
	namespace, pod, container := r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container")
	for _, info := range a.probesOf(pod, exactly(namespace, pod, container, kind.String())) {
		if p, ok := a.probe(keyOf(&info)); ok && (newest == nil || newest.Last == nil || p.Last != nil && p.Last.Time.After(newest.Last.Time)) {
			newest, key = &p, keyOf(&info)
		}
	}
	if newest == nil {
		reply.Fail(w, http.StatusNotFound, "%s", a.whyNoProbe(namespace, pod, container, kind))
		return nil, key, false
	}
	return newest, key, true
}

// whyNoProbe returns a message that explains why the probe does not exist.
func (a *Agent) whyNoProbe(namespace, pod, container string, kind probe.Kind) string {
	var containers, kinds []string
	for _, i := range a.probesOf(pod, func(i *worker.Info) bool { return i.Pod == pod && i.Namespace == namespace }) {
		containers = append(containers, i.Container)
		if i.Container == container {
			kinds = append(kinds, i.Kind.String())
		}
	}
	known := func(names []string) string { return strings.Join(slices.Compact(names), ", ") }
	switch {
	case len(kinds) > 0:
		return fmt.Sprintf("container %q of pod %s/%s has no %s probe; it has: %s", container, namespace, pod, kind, known(kinds))
	case len(containers) > 0:
		return fmt.Sprintf("container %q of pod %s/%s has no %s probe; containers with probes: %s", container, namespace, pod, kind, known(containers))
	}
	for _, p := range a.source.Pods() {
		if p.Namespace == namespace && p.Name == pod {
			return fmt.Sprintf("pod %s/%s has no probe", namespace, pod)
		}
	}
	if why := a.whyNoTarget(namespace, pod); why != "" {
		return fmt.Sprintf("there is no pod %s/%s: %s", namespace, pod, why)
	}
	return fmt.Sprintf("there is no pod %s/%s", namespace, pod)
}

func (a *Agent) serveAction(w http.ResponseWriter, r *http.Request) {
	if !slices.Contains(probeActions, r.PathValue("action")) {
		reply.Fail(w, http.StatusNotFound, "unknown action %q; known: %s", r.PathValue("action"), strings.Join(probeActions, ", "))
		return
	}
	kind, err := probe.ParseKind(r.PathValue("kind"))
	var act func(manager.Key) error
	if err == nil {
		act, err = a.probeAction(r)
	}
	if err != nil {
		reply.Fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	defer a.incidents.Wake()
	namespace, pod, container := r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container")
	list, acted := probeList{Items: []api.ProbeStatus{}}, false
	var refused error
	for _, info := range a.probesOf(pod, exactly(namespace, pod, container, kind.String())) {
		key := keyOf(&info)
		switch err := act(key); {
		case err == nil:
			acted = true
		case errors.Is(err, pauses.ErrConfigured), errors.Is(err, pauses.ErrKind): // any other error means that the probe has ended
			refused = err
		}
		a.hub.Probe(key)
		if status, ok := a.probe(key); ok {
			list.Items = append(list.Items, status)
		}
	}
	switch {
	case acted:
		reply.JSON(w, list)
	case refused != nil:
		reply.Fail(w, http.StatusConflict, "%v", refused)
	default:
		reply.Fail(w, http.StatusNotFound, "%s", a.whyNoProbe(namespace, pod, container, kind))
	}
}

// exactly matches the probes with these names. There may be two while a pod is replaced.
func exactly(namespace, pod, container, kind string) func(*worker.Info) bool {
	return func(i *worker.Info) bool {
		return i.Pod == pod && i.Container == container && i.Namespace == namespace && i.Kind.String() == kind
	}
}

func (a *Agent) servePlugins(w http.ResponseWriter, _ *http.Request) {
	reply.JSON(w, api.PluginList{Items: a.handlers.Statuses(), MemoryBytes: a.handlers.Memory()})
}

func (a *Agent) servePromote(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	status, err := a.handlers.Promote(r.Context(), name)
	switch {
	case errors.Is(err, live.ErrNoPlugin):
		reply.Fail(w, http.StatusNotFound, "plugin %q: %v", name, err)
	case err != nil:
		reply.Fail(w, http.StatusConflict, "%v", err)
	default:
		a.promoted()
		reply.JSON(w, status)
	}
}

func (a *Agent) serveReload(w http.ResponseWriter, r *http.Request) {
	if err := a.Reload(r.Context()); err != nil {
		reply.Fail(w, http.StatusInternalServerError, "%v", err)
		return
	}
	w.WriteHeader(http.StatusOK)
}
