package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/agent/access"
	"github.com/daeace23/prober/agent/pauses"
	"github.com/daeace23/prober/agent/reply"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/internal/clip"
)

// guarded passes allowed requests to next. It logs and counts actions.
func (a *Agent) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		access.SetHeaders(w.Header())
		act := actionOf(r)
		caller, refusal := a.guard.Check(r)
		switch {
		case refusal != nil:
			a.refuse(w, act, caller, refusal)
		case act.name == "":
			next.ServeHTTP(w, r)
		default:
			answered := &statusWriter{ResponseWriter: w, status: http.StatusOK}
			act.by = caller
			if readBody(w, answered, r) {
				next.ServeHTTP(answered, r.WithContext(context.WithValue(r.Context(), actionKey{}, &act)))
			}
			a.recordAction(&act, actionResult(answered.status))
		}
	})
}

// maxBody is the limit of the body of an action, in bytes.
const maxBody = 4096

// readBody reads the body of an action into memory, also for actions that need none. If that fails, it
// responds with the error and returns false. A body that is too long closes the connection of conn.
func readBody(conn, w http.ResponseWriter, r *http.Request) bool {
	text, err := io.ReadAll(http.MaxBytesReader(conn, r.Body, maxBody))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		reply.Fail(w, http.StatusRequestEntityTooLarge, "the body has more than %d bytes", maxBody)
		return false
	}
	if err != nil {
		reply.Fail(w, http.StatusBadRequest, "body: %v", err)
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(text))
	return true
}

// throttled passes requests to next, which checks passwords, unless too many passwords were wrong.
func (a *Agent) throttled(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, refusal := a.guard.CheckRate(r)
		if refusal == nil {
			next.ServeHTTP(w, r)
			return
		}
		access.SetHeaders(w.Header())
		a.refuse(w, actionOf(r), caller, refusal)
	})
}

// action is a request that changes something.
type action struct {
	name   string // one of [metrics.Actions]; "" for a request that only reads
	object string // the probe as NAMESPACE/POD/CONTAINER/KIND, the plugin, the receiver, the incident, or the maintenance window
	by     access.Caller
	detail string // duration and reason of a pause or a maintenance window, text of a note; "" for none
}

// actionKey is the context key of an allowed action, an *action.
type actionKey struct{}

// actionFrom returns the action in the context of a request.
func actionFrom(ctx context.Context) *action {
	if act, ok := ctx.Value(actionKey{}).(*action); ok {
		return act
	}
	return new(action)
}

// probeActions are the actions on a probe.
var probeActions = []string{"force", "pause", "resume", "trigger"}

// actionOf returns the action that r requests.
func actionOf(r *http.Request) action {
	name, isWindow := strings.CutPrefix(r.URL.Path, "/api/v1/maintenance/")
	if isWindow && r.Method == http.MethodDelete {
		return action{name: "end_maintenance", object: name}
	}
	if r.Method != http.MethodPost {
		return action{}
	}
	if r.URL.Path == "/-/reload" {
		return action{name: "reload"}
	}
	if r.URL.Path == "/api/v1/maintenance" {
		return action{name: "maintain"}
	}
	dir, name := path.Split(r.URL.Path)
	if plugin, ok := strings.CutPrefix(dir, "/api/v1/plugins/"); ok && name == "promote" {
		return action{name: name, object: strings.TrimSuffix(plugin, "/")}
	}
	if receiver, ok := strings.CutPrefix(dir, "/api/v1/notifications/"); ok && name == "test" {
		return action{name: name, object: strings.TrimSuffix(receiver, "/")}
	}
	if incident, ok := strings.CutPrefix(dir, "/api/v1/incidents/"); ok && name == "notes" {
		return action{name: "note", object: strings.TrimSuffix(incident, "/")}
	}
	probe, ok := strings.CutPrefix(strings.TrimSuffix(dir, "/"), "/api/v1/probes/")
	if !ok || !slices.Contains(probeActions, name) {
		return action{}
	}
	return action{name: name, object: probe}
}

// statusWriter records the status of a response.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements [http.ResponseWriter].
func (s *statusWriter) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

// Unwrap is for [http.ResponseController].
func (s *statusWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// actionResult returns one of [metrics.ActionResults].
func actionResult(status int) string {
	switch {
	case status < http.StatusBadRequest:
		return "ok"
	case status == http.StatusNotFound:
		return "not_found"
	default:
		return "error"
	}
}

// doneReasons are the event reasons of successful actions.
var doneReasons = map[string]string{
	"trigger": "ProbeTriggered", "pause": "ProbePaused", "force": "ProbeForced", "resume": "ProbeResumed",
	"promote": "PluginPromoted", "reload": "Reloaded", "test": "NotificationTested",
	"note": "IncidentNoted", "maintain": "MaintenanceAdded", "end_maintenance": "MaintenanceRemoved",
}

// recordAction logs and counts an allowed action, and adds an event.
func (a *Agent) recordAction(act *action, result string) {
	by := &act.by
	a.metrics.Acted(act.name, result)
	eventType, reason, logAt := v1.EventTypeNormal, doneReasons[act.name], a.log.Info
	if result != "ok" {
		eventType, reason, logAt = v1.EventTypeWarning, "ActionFailed", a.log.Warn
	}
	text := fmt.Sprintf("%s by %s: %s", strings.TrimSpace(act.name+" "+act.object), callerText(by), result)
	attrs := []any{"action", act.name, "object", act.object, "result", result, "via", by.Via, "from", by.From}
	if act.detail != "" {
		text += ", " + act.detail
		attrs = append(attrs, "detail", act.detail)
	}
	a.events.Add(a.objectOf(act.object), eventType, reason, text, 1, time.Now())
	if by.PID > 0 {
		attrs = append(attrs, "pid", by.PID)
	}
	logAt("action", attrs...)
}

func callerText(c *access.Caller) string { return c.From + ", with the " + c.Via }

// probeAction returns the function that applies the action of r to a probe. It returns an error if the
// parameters are invalid.
func (a *Agent) probeAction(r *http.Request) (func(manager.Key) error, error) {
	name := r.PathValue("action")
	if name == "pause" || name == "force" {
		read := pauses.Read
		if name == "force" {
			read = pauses.ReadForce
		}
		p, err := read(r)
		if err != nil {
			return nil, err
		}
		act := actionFrom(r.Context())
		p.By, act.detail = callerText(&act.by), pauseText(&p)
		return func(key manager.Key) error { return a.pauses.Pause(key, p) }, nil
	}
	for parameter := range r.URL.Query() {
		return nil, fmt.Errorf("unknown parameter %q; %s has none", parameter, name)
	}
	if name == "resume" {
		return a.pauses.Resume, nil
	}
	return a.manager.Trigger, nil
}

// pauseText returns the forced state, the duration and the reason of a pause.
func pauseText(p *pauses.Pause) string {
	var parts []string
	if p.Force != worker.Open {
		parts = append(parts, p.Force.String())
	}
	if p.For > 0 {
		parts = append(parts, "for "+p.For.String())
	}
	if p.Reason != "" {
		parts = append(parts, "reason: "+p.Reason)
	}
	return strings.Join(parts, ", ")
}

// pauseEnded reports that a pause or a forced state has expired.
func (a *Agent) pauseEnded(key manager.Key, p pauses.Pause) {
	a.hub.Probe(key)
	a.incidents.Wake()
	s, ok := a.manager.Latest(key)
	if !ok {
		return
	}
	object := strings.Join([]string{s.Namespace, s.Pod, s.Container, s.Kind.String()}, "/")
	what := "pause"
	if p.Force != worker.Open {
		what = "forced state"
	}
	text := fmt.Sprintf("the %s of %s by %s has ended, %s", what, object, p.By, pauseText(&p))
	a.events.Add(a.objectOf(object), v1.EventTypeNormal, doneReasons["resume"], text, 1, time.Now())
	a.log.Info(what+" ended", "object", object, "by", p.By, "detail", pauseText(&p))
}

// objectOf returns the object of an event about a probe or a plugin: the probe's container, or the host.
func (a *Agent) objectOf(object string) v1.ObjectReference {
	parts := strings.Split(object, "/")
	if len(parts) != 4 {
		return a.events.Node()
	}
	for _, p := range a.probesOf(parts[1], exactly(parts[0], parts[1], parts[2], parts[3])) {
		return v1.ObjectReference{
			Kind: "Pod", APIVersion: "v1", Namespace: p.Namespace, Name: p.Pod, UID: types.UID(p.PodUID),
			FieldPath: "spec.containers{" + p.Container + "}",
		}
	}
	return a.events.Node()
}

// refuse responds to a refused request, and reports it.
func (a *Agent) refuse(w http.ResponseWriter, act action, by access.Caller, r *access.Refusal) {
	if act.name != "" {
		a.metrics.Acted(act.name, "denied")
	}
	if n := a.refused.note(refusalKey{act.name, r.Reason}, time.Now()); n > 0 {
		a.reportRefused(n, act, by, r)
	}
	switch r.Status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="prober"`)
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "1")
	}
	reply.Fail(w, r.Status, "%s", r.Text)
}

// reportRefused logs n requests that were refused for the same reason; r is the last of them. The event has
// no text that the caller chose, so that equal events are counted as one.
func (a *Agent) reportRefused(n int, act action, by access.Caller, r *access.Refusal) {
	why := r.Text
	if r.Err != nil {
		why = r.Err.Error()
	}
	if act.name == "" {
		a.log.Warn("request refused", "reason", string(r.Reason), "from", by.From, "count", n, "error", why)
		return
	}
	a.log.Warn("action", "action", act.name, "object", clip.Bytes(act.object, maxObject), "result", "denied", "reason", string(r.Reason),
		"from", by.From, "count", n, "error", why)
	a.events.Add(a.events.Node(), v1.EventTypeWarning, "ActionDenied",
		fmt.Sprintf("%s was denied over TCP: %s", act.name, r.Reason), n, time.Now())
}

// crowded counts and logs a connection that was closed to make room for others.
func (a *Agent) crowded(from string) {
	a.noteClosed("", from, "too many are open: idle ones are closed first")
}

// cut counts and logs a request that was aborted in favor of another client.
func (a *Agent) cut(from string) {
	a.noteClosed("request", from, "other clients wait, and this one has the most requests in progress")
}

// noteClosed counts and logs a connection that was closed.
func (a *Agent) noteClosed(what, from, why string) {
	a.closed.Add(1)
	if n := a.refused.note(refusalKey{what, access.Crowded}, time.Now()); n > 0 {
		a.log.Warn("connections closed", "reason", string(access.Crowded), "from", from, "count", n, "error", why)
	}
}

// maxObject is the limit of the path of a refused request in the log, in bytes.
const maxObject = 256

// refusalWindow is the minimum time between two log lines about the same kind of refusal.
const refusalWindow = 10 * time.Second

// refusals counts refused requests, so that callers without credentials cannot flood the log.
type refusals struct {
	mu   sync.Mutex
	seen map[refusalKey]refusalCount
}

// refusalKey has few values, and callers cannot choose them.
type refusalKey struct {
	action string
	reason access.Reason
}

type refusalCount struct {
	reported time.Time
	since    int // number of refusals since reported
}

// note counts a refusal and returns how many to report now: 0 for none.
func (f *refusals) note(key refusalKey, now time.Time) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen == nil {
		f.seen = make(map[refusalKey]refusalCount)
	}
	c := f.seen[key]
	c.since++
	if now.Sub(c.reported) >= refusalWindow {
		n, c = c.since, refusalCount{reported: now}
	}
	f.seen[key] = c
	return n
}
