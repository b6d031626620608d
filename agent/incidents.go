package agent

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/incidents"
	"github.com/daeace23/prober/agent/pauses"
	"github.com/daeace23/prober/agent/reply"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/pods/targets"
	"github.com/daeace23/prober/probe"
)

// podPlaces has the addresses and labels of pods, for incidents. It is safe for concurrent use. The zero value is
// empty.
type podPlaces struct {
	mu   sync.RWMutex
	pods map[types.UID]podPlace
}

type podPlace struct {
	address string
	labels  map[string]string // of the pod; read-only
}

func (p *podPlaces) changed(c pods.Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.Removed {
		delete(p.pods, c.Pod.UID)
		return
	}
	if p.pods == nil {
		p.pods = make(map[types.UID]podPlace)
	}
	p.pods[c.Pod.UID] = podPlace{c.Pod.Status.PodIP, c.Pod.Labels}
}

func (p *podPlaces) of(uid string) podPlace {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.pods[types.UID(uid)]
}

// isIncident reports whether a probe in a state is a part of an incident, unless it is paused: it has failed, or
// gives no verdict.
func isIncident(s *states.Status) bool {
	return s.State == states.Failure || s.State == states.Unknown && s.Cause != (states.Cause{}) && s.Reason != string(probe.ReasonUndecided)
}

func (a *Agent) stateOf(i *worker.Info) states.Status {
	return a.states.Of(i.PodUID, i.Container, i.Kind)
}

// openIncidents creates the watch of incidents, with the file of the state directory.
func (a *Agent) openIncidents() {
	a.incidents = incidents.NewWatch(a.incidentProbes)
	if a.cfg.StateDir != "" {
		a.incidents.Open(filepath.Join(a.cfg.StateDir, "incidents.json"), a.log)
	}
}

// incidentProbes returns the probes that fail, and the others.
func (a *Agent) incidentProbes() (failing []incidents.Probe, healthy iter.Seq[*incidents.Probe]) {
	for _, info := range a.selectProbes("", func(i *worker.Info) bool { s := a.stateOf(i); return isIncident(&s) }) {
		status, ok := a.manager.Latest(keyOf(&info))
		now := a.stateOf(&info)
		if !ok || status.Paused || status.Last == nil || !isIncident(&now) {
			continue
		}
		p := a.incidentProbe(&info)
		p.State, p.Since, p.Cause = now.State, now.Since, now.Cause
		a.addDependencies(&p)
		failing = append(failing, p)
	}
	return failing, a.healthyProbes
}

// healthyProbes yields the probes that are no part of an incident.
func (a *Agent) healthyProbes(yield func(*incidents.Probe) bool) {
	more := true
	a.selectProbes("", func(i *worker.Info) bool {
		if s := a.stateOf(i); more && !isIncident(&s) {
			p := a.incidentProbe(i)
			more = yield(&p)
		}
		return false
	})
}

// incidentProbe returns the features of a probe, without its state.
func (a *Agent) incidentProbe(i *worker.Info) incidents.Probe {
	place := a.places.of(i.PodUID)
	return incidents.Probe{
		Key:     incidents.Key{Namespace: i.Namespace, Pod: i.Pod, UID: i.PodUID, Container: i.Container, Kind: i.Kind},
		Handler: i.Handler, Plugin: !declared.IsBuiltin(i.Handler) && !slices.Contains(ownHandlers, i.Handler), Target: a.manager.Target(keyOf(i)),
		Address: place.address, Labels: place.labels, Group: place.labels[targets.GroupLabel],
	}
}

// ownHandlers are handlers that are no plugins, and are not in the table of built-in handlers.
var ownHandlers = []string{declared.Checks, pods.PushHandler, pods.EndpointHandler}

// addDependencies adds what a failing probe may depend on.
func (a *Agent) addDependencies(p *incidents.Probe) {
	if p.Cause.Reason == string(probe.ReasonDependency) {
		p.DependsOn = a.judge.DependsOn(p.Group)
	}
	if p.Handler != pods.EndpointHandler {
		return
	}
	for _, m := range a.endpoints.Deciding(manager.Key{PodUID: types.UID(p.UID), Container: p.Container, Kind: p.Kind}) {
		s := &m.Subject
		p.Behind = append(p.Behind, incidents.Key{Namespace: s.Namespace, Pod: s.Pod, UID: s.PodUID, Container: s.Container, Kind: m.Kind})
	}
}

// serveIncidents responds with all incidents. There are no pages: their number is bounded, and their order changes.
func (a *Agent) serveIncidents(w http.ResponseWriter, r *http.Request) {
	q := query{filters: make(map[string]string)}
	for name, values := range r.URL.Query() {
		if !slices.Contains([]string{"namespace", "parts", "state"}, name) {
			reply.Fail(w, http.StatusBadRequest, "unknown parameter %q; known: namespace, parts, state", name)
			return
		}
		q.filters[name] = values[0]
	}
	most, err := itemsLimit("parts", q.filters["parts"])
	if err := cmp.Or(err, q.oneOf("state", []string{api.IncidentOpen, api.IncidentEnded})); err != nil {
		reply.Fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	items := []pageItem[*incidents.Incident]{}
	for _, n := range a.incidents.Log().All() {
		items = append(items, pageItem[*incidents.Incident]{value: n})
	}
	writeList(w, struct{}{}, items, func(n *incidents.Incident) (any, bool) {
		converted := most
		if q.filters["namespace"] != "" {
			converted = math.MaxInt // parts of other namespaces do not count
		}
		all := a.apiIncident(n, converted)
		s, ok := all.Only(func(p *api.IncidentPart) bool { return q.matches("namespace", p.Namespace) })
		s.Parts = s.Parts[:min(len(s.Parts), most)]
		return &s, ok && q.matches("state", s.State)
	})
}

// itemsLimit returns the limit that the parameter called name requests with text; "" is no limit.
func itemsLimit(name, text string) (int, error) {
	if text == "" {
		return math.MaxInt, nil
	}
	most, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%s %q must be an integer, at least 0", name, text)
	}
	return int(most), nil
}

// serveIncident responds with one incident.
func (a *Agent) serveIncident(w http.ResponseWriter, r *http.Request) {
	for parameter := range r.URL.Query() {
		reply.Fail(w, http.StatusBadRequest, "unknown parameter %q; no parameters are known", parameter)
		return
	}
	for _, n := range a.incidents.Log().All() {
		if n.ID == r.PathValue("id") {
			reply.JSON(w, a.apiIncident(n, math.MaxInt))
			return
		}
	}
	reply.Fail(w, http.StatusNotFound, "there is no incident %q", r.PathValue("id"))
}

// serveNote adds a note to an incident, and responds with the incident.
func (a *Agent) serveNote(w http.ResponseWriter, r *http.Request) {
	for parameter := range r.URL.Query() {
		reply.Fail(w, http.StatusBadRequest, "unknown parameter %q; the body has the note", parameter)
		return
	}
	var asked api.NoteRequest
	err := pauses.ReadBody(r.Body, &asked)
	if err == nil && strings.TrimSpace(asked.Text) == "" {
		err = errors.New("text is required")
	}
	if err == nil {
		asked.Text, err = config.ParseReason(asked.Text)
	}
	if err != nil {
		reply.Fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	act, id := actionFrom(r.Context()), r.PathValue("id")
	act.detail = asked.Text
	n, err := a.incidents.AddNote(id, incidents.Note{Time: time.Now().UTC().Truncate(time.Second), By: callerText(&act.by), Text: asked.Text})
	switch {
	case errors.Is(err, incidents.ErrMissing):
		reply.Fail(w, http.StatusNotFound, "there is no incident %q", id)
	case err != nil:
		reply.Fail(w, http.StatusConflict, "%s: %v", id, err)
	default:
		reply.JSON(w, a.apiIncident(n, math.MaxInt))
	}
}
