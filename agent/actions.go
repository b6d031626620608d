package agent

import (
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/agent/access"
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
			next.ServeHTTP(answered, r)
			a.acted(act, caller, actionResult(answered.status))
		}
	})
}

// action is a request that changes something.
type action struct {
	name   string // one of [metrics.Actions]; "" for a request that only reads
	object string // the probe, as NAMESPACE/POD/CONTAINER/KIND, or the plugin
}

// actionOf returns the action of r.
func actionOf(r *http.Request) action {
	if r.Method != http.MethodPost {
		return action{}
	}
	if r.URL.Path == "/-/reload" {
		return action{name: "reload"}
	}
	dir, name := path.Split(r.URL.Path)
	if plugin, ok := strings.CutPrefix(dir, "/api/v1/plugins/"); ok && name == "promote" {
		return action{name: name, object: strings.TrimSuffix(plugin, "/")}
	}
	probe, ok := strings.CutPrefix(strings.TrimSuffix(dir, "/"), "/api/v1/probes/")
	if !ok || !slices.Contains([]string{"trigger", "pause", "resume"}, name) {
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

// doneReasons are the reasons of the events of actions that succeeded.
var doneReasons = map[string]string{
	"trigger": "ProbeTriggered", "pause": "ProbePaused", "resume": "ProbeResumed",
	"promote": "PluginPromoted", "reload": "Reloaded",
}

// acted logs and counts an action that was allowed, and adds an event.
func (a *Agent) acted(act action, by access.Caller, result string) {
	a.metrics.Acted(act.name, result)
	eventType, reason, say := v1.EventTypeNormal, doneReasons[act.name], a.log.Info
	if result != "ok" {
		eventType, reason, say = v1.EventTypeWarning, "ActionFailed", a.log.Warn
	}
	text := fmt.Sprintf("%s by %s, with the %s: %s", strings.TrimSpace(act.name+" "+act.object), by.From, by.Via, result)
	a.events.Add(a.objectOf(act), eventType, reason, text, 1, time.Now())
	attrs := []any{"action", act.name, "object", act.object, "result", result, "via", by.Via, "from", by.From}
	if by.PID > 0 {
		attrs = append(attrs, "pid", by.PID)
	}
	say("action", attrs...)
}

// objectOf returns the object of the event about act: the container of its probe, or the host.
func (a *Agent) objectOf(act action) v1.ObjectReference {
	parts := strings.Split(act.object, "/")
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

// refuse responds to a request that is refused, and reports it.
func (a *Agent) refuse(w http.ResponseWriter, act action, by access.Caller, r *access.Refusal) {
	if act.name != "" {
		a.metrics.Acted(act.name, "denied")
	}
	if n := a.refused.note(refusalKey{act.name, r.Reason}, time.Now()); n > 0 {
		a.reportRefused(n, act, by, r)
	}
	if r.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="prober"`)
	}
	fail(w, r.Status, "%s", r.Text)
}

// reportRefused logs n requests that were refused for the same reason; r is the last of them. The
// event has no text that the caller chose, so that equal ones are counted as one.
func (a *Agent) reportRefused(n int, act action, by access.Caller, r *access.Refusal) {
	why := r.Text
	if r.Err != nil {
		why = r.Err.Error()
	}
	if act.name == "" {
		a.log.Warn("request refused", "reason", string(r.Reason), "from", by.From, "count", n, "error", why)
		return
	}
	a.log.Warn("action", "action", act.name, "object", clipped(act.object), "result", "denied", "reason", string(r.Reason),
		"from", by.From, "count", n, "error", why)
	a.events.Add(a.events.Node(), v1.EventTypeWarning, "ActionDenied",
		fmt.Sprintf("%s was denied over TCP: %s", act.name, r.Reason), n, time.Now())
}

// maxObject is the limit of the path of a refused request in the log, in bytes.
const maxObject = 256

func clipped(object string) string { return object[:min(len(object), maxObject)] }

// refusalWindow is the minimum time between two log lines about the same kind of refusal.
const refusalWindow = 10 * time.Second

// refusals counts refused requests, so that callers without credentials cannot fill the log.
type refusals struct {
	mu   sync.Mutex
	seen map[refusalKey]refusalCount
}

// refusalKey has few values, none of which the caller chooses.
type refusalKey struct {
	action string
	reason access.Reason
}

type refusalCount struct {
	reported time.Time
	since    int // refusals since then
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
