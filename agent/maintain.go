package agent

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/maintenance"
	"github.com/daeace23/prober/agent/reply"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/metrics/agentmetrics"
)

// openMaintenance creates the table of maintenance windows, with the file of the state directory.
func (a *Agent) openMaintenance() {
	a.maintenance = maintenance.New(maintenance.Config{
		Changed: a.maintained, Log: a.log,
		Began: func(w *maintenance.Window) { a.windowTurned(w, "MaintenanceBegan", "has begun") },
		Ended: func(w *maintenance.Window) { a.windowTurned(w, "MaintenanceEnded", "has ended") },
	})
	if a.cfg.StateDir != "" {
		a.maintenance.Open(filepath.Join(a.cfg.StateDir, "maintenance.json"))
	}
}

// maintained passes on that the maintenance of probes has begun, changed or ended.
func (a *Agent) maintained(changes []maintenance.Change) {
	for i := range changes {
		c := &changes[i]
		a.notifier.Maintain(&c.Info, c.Now != nil, c.Receivers, time.Now())
		if a.history != nil {
			a.history.Spare(&c.Info, c.Now != nil && c.Now.Spared)
		}
		a.slos.Spare(&c.Info, c.Now != nil && c.Now.Spared)
		a.hub.Probe(keyOf(&c.Info))
	}
}

// windowTurned reports that a window has begun or ended.
func (a *Agent) windowTurned(w *maintenance.Window, reason, what string) {
	text := fmt.Sprintf("the maintenance window %s %s", w.Name, what)
	attrs := []any{"name", w.Name}
	if !w.Until.IsZero() {
		until := w.Until.UTC().Format(time.RFC3339)
		text += ", until " + until
		attrs = append(attrs, "until", until)
	}
	if len(w.Receivers) > 0 {
		receivers := strings.Join(w.Receivers, ", ")
		text += ", receivers: " + receivers
		attrs = append(attrs, "receivers", receivers)
	}
	if w.Reason != "" {
		text += ", reason: " + w.Reason
		attrs = append(attrs, "reason", w.Reason)
	}
	a.events.Add(a.events.Node(), v1.EventTypeNormal, reason, text, 1, time.Now())
	a.log.Info("maintenance window "+what, attrs...)
}

// maintenanceOf returns the maintenance of a probe; nil if it is in no window.
func (a *Agent) maintenanceOf(key manager.Key) *api.Maintenance {
	m := a.maintenance.Of(key)
	if m == nil {
		return nil
	}
	return &api.Maintenance{Name: m.Name, Until: m.Until.UTC(), Reason: m.Reason}
}

func (a *Agent) serveMaintenance(w http.ResponseWriter, r *http.Request) {
	for parameter := range r.URL.Query() {
		reply.Fail(w, http.StatusBadRequest, "unknown parameter %q; no parameters are known", parameter)
		return
	}
	list := api.MaintenanceList{Items: []api.MaintenanceWindow{}}
	windows, probes := a.maintenance.Windows()
	for i := range windows {
		list.Items = append(list.Items, apiWindow(&windows[i], probes[i]))
	}
	reply.JSON(w, list)
}

// apiWindow returns a window that selects a number of probes.
func apiWindow(w *maintenance.Window, probes int) api.MaintenanceWindow {
	from, until := w.Next(time.Now())
	return api.MaintenanceWindow{
		Name: w.Name, Active: !w.Until.IsZero(), From: from.UTC(), Until: until.UTC(), Reason: w.Reason, Uptime: string(w.Uptime),
		Match: maintenance.APIMatch(w.Match), Probes: probes, By: w.By, Receivers: w.Receivers,
	}
}

// serveNotifications responds with the status of the receivers, and their maintenance windows.
func (a *Agent) serveNotifications(w http.ResponseWriter, _ *http.Request) {
	list := a.notifier.Status()
	for i := range list.Items {
		r := &list.Items[i]
		if silence, ok := a.maintenance.Silence(r.Name); ok {
			r.Maintenance = &api.Maintenance{Name: silence.Name, Until: silence.Until.UTC(), Reason: silence.Reason}
		}
	}
	reply.JSON(w, list)
}

func (a *Agent) serveStartMaintenance(w http.ResponseWriter, r *http.Request) {
	for parameter := range r.URL.Query() {
		reply.Fail(w, http.StatusBadRequest, "unknown parameter %q; the body has the window", parameter)
		return
	}
	asked, err := maintenance.Read(r.Body, time.Now(), a.notifier.Names)
	if err != nil {
		reply.Fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	act := actionFrom(r.Context())
	act.object, asked.By = asked.Name, callerText(&act.by)
	from, until := asked.Next(time.Now())
	act.detail = fmt.Sprintf("from %s until %s", from.UTC().Format(time.RFC3339), until.UTC().Format(time.RFC3339))
	if len(asked.Receivers) > 0 {
		act.detail += ", receivers: " + strings.Join(asked.Receivers, ", ")
	}
	if asked.Reason != "" {
		act.detail += ", reason: " + asked.Reason
	}
	started, probes, err := a.maintenance.Start(asked)
	switch {
	case errors.Is(err, maintenance.ErrOver):
		reply.Fail(w, http.StatusBadRequest, "%v", err)
	case err != nil:
		reply.Fail(w, http.StatusConflict, "%s: %v", asked.Name, err)
	default:
		reply.JSON(w, apiWindow(&started, probes))
	}
}

func (a *Agent) serveEndMaintenance(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	switch err := a.maintenance.End(name); {
	case errors.Is(err, maintenance.ErrMissing):
		reply.Fail(w, http.StatusNotFound, "%s: %v", name, err)
	case err != nil:
		reply.Fail(w, http.StatusConflict, "%s: %v", name, err)
	default:
		w.WriteHeader(http.StatusOK)
	}
}

// activeWindows returns by the names of windows whether they are active, for the metrics.
func (a *Agent) activeWindows() map[string]bool {
	all := make(map[string]bool)
	windows, _ := a.maintenance.Windows()
	for i := range windows {
		w := &windows[i]
		all[w.Name] = all[w.Name] || !w.Until.IsZero()
	}
	return all
}

// registerMaintenance registers the metrics of maintenance windows.
func (a *Agent) registerMaintenance() error {
	return errors.Join(agentmetrics.RegisterMaintenance(a.registry, a.activeWindows), metrics.RegisterMaintained(a.registry, a.maintenance.Probes))
}
