package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daeace23/prober/agent/access"
	"github.com/daeace23/prober/agent/blackbox"
	"github.com/daeace23/prober/agent/history/reports"
	"github.com/daeace23/prober/agent/hostwatch"
	"github.com/daeace23/prober/agent/page"
	"github.com/daeace23/prober/agent/reply"
	"github.com/daeace23/prober/docs"
	"github.com/daeace23/prober/internal/joined"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/metrics/agentmetrics"
	"github.com/daeace23/prober/plugin/live"
)

// newServer returns an HTTP server of an agent.
func (a *Agent) newServer() *http.Server {
	streams, cancel := context.WithCancel(context.Background())
	server := &http.Server{
		Handler:           a.guarded(a.router()),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second, // lists, streams and profiles set their own
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10, // parsed headers of 16 KiB take about 1 MiB
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 32},
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return streams },
	}
	server.RegisterOnShutdown(cancel) // otherwise open streams delay the shutdown
	return server
}

// route is a pattern of [http.ServeMux] with its handler.
type route struct {
	pattern string
	handler http.HandlerFunc
}

// The paths of the health endpoints.
var (
	livePaths  = []string{"/healthz", "/livez", "/-/healthy"}
	readyPaths = []string{"/readyz", "/-/ready"}
)

func isHealth(path string) bool {
	return slices.Contains(livePaths, path) || slices.Contains(readyPaths, path)
}

// router returns the handler of all requests.
func (a *Agent) router() http.Handler {
	mux := http.NewServeMux()
	for _, r := range a.routes() {
		mux.HandleFunc(r.pattern, r.handler)
	}
	return reply.Router(mux)
}

// Limits of concurrent requests of a listener.
const (
	maxScrapes = 1000 // of /probe
	maxMetrics = 4    // of /metrics
	maxPushes  = 100  // reports to pushes
	maxStreams = 64   // of each view
	slotWait   = 3 * time.Second
)

// shares returns a limit of concurrent requests. A request waits for a slot, and gets status 503 with the
// text full after the time wait.
func (a *Agent) shares(slots int, wait time.Duration, full string) *access.Shares {
	return &access.Shares{Slots: slots, Wait: wait, Cut: a.cut, Full: func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", "1")
		reply.Fail(w, http.StatusServiceUnavailable, "%s; try again later", full)
	}}
}

const oneProbe = "/api/v1/probes/{namespace}/{pod}/{container}/{kind}"

// pastRoutes returns the routes that read the history.
func (a *Agent) pastRoutes() []route {
	slow := a.shares(maxReports, listWait, "too many reports are being read")
	history := &reports.Server{Store: a.history, Target: a.targetOf}
	return []route{
		{"GET " + oneProbe + "/history", slow.Limit(history.Probe)},
		{"GET " + oneProbe + "/durations", slow.Limit(history.Durations)},
		{"GET /api/v1/report", slow.Limit(history.Report)},
		{"GET /api/v1/changes", slow.Limit(history.Changes)},
	}
}

// routes returns all routes of the agent. internal/openapidoc describes each but /debug/.
func (a *Agent) routes() []route {
	lists := a.shares(maxLists, listWait, "too many lists are being read")
	pushes := a.shares(maxPushes, slotWait, "too many reports are being stored")
	byToken := pushes.Limit(a.pushes.ServeToken)
	all := append(a.pastRoutes(), []route{
		{"GET /{$}", page.OrElse(serveIndex)},
		{"GET /page/{file}", page.File},
		{"GET /docs/{file...}", page.Document},
		{"GET /api/v1/{$}", serveIndex},
		{"GET /openapi.json", serveOpenAPI},
		{"GET /api/v1/pods", lists.Limit(a.servePods)},
		{"GET /api/v1/probes", lists.Limit(a.serveProbes)},
		{"GET " + oneProbe, a.serveProbe},
		{"GET " + oneProbe + "/explain", a.serveExplain},
		{"POST " + oneProbe + "/{action}", a.serveAction},
		{"POST /api/v1/push", pushes.Limit(a.pushes.ServeLines)},
		{"POST /api/v1/push/{name}", pushes.Limit(a.pushes.ServeName)},
		{"GET /api/v1/endpoints", lists.Limit(a.serveEndpoints)},
		{"GET /api/v1/slos", a.serveSLOs},
		{"GET /api/v1/incidents", lists.Limit(a.serveIncidents)},
		{"GET /api/v1/incidents/{id}", a.serveIncident},
		{"POST /api/v1/incidents/{id}/notes", a.serveNote},
		{"GET /api/v1/certificates", lists.Limit(a.serveCertificates)},
		{"GET /api/v1/targets", lists.Limit(a.serveTargets)},
		{"GET /api/v1/events", lists.Limit(a.serveEvents)},
		{"GET /api/v1/stream", a.serveStream()},
		{"GET /api/v1/agent", a.serveAgent},
		{"GET /api/v1/plugins", a.servePlugins},
		{"POST /api/v1/plugins/{name}/promote", a.servePromote},
		{"GET /api/v1/notifications", a.serveNotifications},
		{"POST /api/v1/notifications/{receiver}/test", withoutWriteTimeout(a.notifier.ServeTest)},
		{"GET /api/v1/maintenance", a.serveMaintenance},
		{"POST /api/v1/maintenance", a.serveStartMaintenance},
		{"DELETE /api/v1/maintenance/{name}", a.serveEndMaintenance},
		{"POST /-/reload", withoutWriteTimeout(a.serveReload)},
		{"GET " + access.ScrapePath, a.shares(maxScrapes, slotWait, "too many scrapes are under way").Limit(blackbox.NewServer(blackbox.Config{
			File: a.scrapes.File, Prepare: a.handlers.PrepareWithin, Listeners: a.cfg.listeners, Allows: a.mayScrape,
		}).ServeHTTP)},
		{"GET /metrics", a.shares(maxMetrics, slotWait, "too many clients read the metrics").Limit(a.metrics.Handler(metrics.HandlerConfig{Rest: a.registry}).ServeHTTP)},
	}...)
	for _, path := range []string{access.PushPath + "{token}", access.PushPath + "{token}/{what}"} {
		all = append(all, route{"GET " + path, byToken}, route{"POST " + path, byToken})
	}
	for _, path := range livePaths {
		all = append(all, route{"GET " + path, health(path, a.live)})
	}
	for _, path := range readyPaths {
		all = append(all, route{"GET " + path, health(path, a.ready)})
	}
	if a.cfg.Profiling {
		all = append(all,
			route{"GET /debug/pprof/", pprof.Index}, route{"GET /debug/pprof/cmdline", pprof.Cmdline}, route{"GET /debug/pprof/profile", pprof.Profile},
			route{"GET /debug/pprof/symbol", pprof.Symbol}, route{"GET /debug/pprof/trace", pprof.Trace})
	}
	return all
}

// index is the response of /api/v1/, and of / to clients other than browsers.
const index = `prober

GET  /                            the status page, in a browser
GET  /api/v1/pods                 a v1.PodList with live status; ?namespace= pod=
GET  /api/v1/probes               decided results, last ticks, history; ?namespace= pod= container= kind= handler= state= result=
GET  /api/v1/probes/NAMESPACE/POD/CONTAINER/KIND           one probe
GET  /api/v1/probes/NAMESPACE/POD/CONTAINER/KIND/explain   the reason for its result, and the events of its ticks
GET  /api/v1/probes/NAMESPACE/POD/CONTAINER/KIND/history   its changes and the minutes of its ticks, with --state-dir; ?since= until=
GET  /api/v1/probes/NAMESPACE/POD/CONTAINER/KIND/durations   percentiles of its ticks and their phases by hour, with --state-dir; ?since= until=
GET  /api/v1/report               uptime and incidents of probes, with --state-dir; ?since= until= namespace= pod= container= kind= format= incidents=
GET  /api/v1/changes              changes of the states of probes, with --state-dir; ?since= until= namespace= pod= container= kind=
GET  /api/v1/slos                 SLOs of prober.yaml: error budgets and burn rates; ?namespace= pod= container= kind=
GET  /api/v1/incidents            failing probes, grouped by what they share, with /ID for one; ?namespace= state= parts=
GET  /api/v1/targets              targets of prober.yaml: probed, dropped, gone; ?group= namespace= pod= state=
GET  /api/v1/certificates         certificates that servers show to probes, the first to end first; ?namespace= pod= container= kind= probes=
GET  /api/v1/endpoints            endpoints of prober.yaml with their checks, and pushes; ?namespace= name= type= state=
GET  /api/v1/events               a v1.EventList; ?namespace= pod= container= reason= type=
                                  lists take ?limit= continue=, as the Kubernetes API does
GET  /api/v1/stream               server-sent events: probe, pod, event; ?view=summary
GET  /api/v1/agent                version, and problems of the agent
GET  /api/v1/plugins              versions, generations, errors, shadows
GET  /api/v1/maintenance          maintenance windows
GET  /api/v1/notifications        receivers of notifications, and their status
GET  /openapi.json                describes all of this
GET  /metrics                     for Prometheus
GET  /probe                       ?module=&target=, as blackbox_exporter has it, with --blackbox-config; debug=true
GET  /healthz /livez /readyz      each with ?verbose

Over the unix socket of --socket, or with the token of --token-file:
POST /api/v1/probes/NAMESPACE/POD/CONTAINER/KIND/ACTION    trigger, pause (?for= reason=), force (?state= for= reason=) or resume one
POST /api/v1/incidents/ID/notes   add a note to an incident, in JSON: text
POST /api/v1/maintenance          start a maintenance window, in JSON: name, match, receivers, from, until, for, reason, uptime
DELETE /api/v1/maintenance/NAME   end it
POST /api/v1/plugins/NAME/promote replace a plugin by its shadow
POST /api/v1/notifications/RECEIVER/test                   send a test message to a receiver
POST /api/v1/push/NAME            a report to a push; ?result= message= started=
POST /api/v1/push                 lines of reports, in the format of send_nsca
POST /-/reload                    read everything again, as SIGHUP does

With the token of a push:
POST /push/TOKEN                  GET too: a report; /start /fail /log /CODE, ?result= message=
`

func serveIndex(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	text := index
	if page.HasDocuments() {
		text = strings.Replace(text, "GET  /metrics ", "GET  /docs/                       the documents of this version\nGET  /metrics ", 1)
	}
	_, _ = w.Write([]byte(text))
}

func serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, docs.OpenAPI)
}

// withoutWriteTimeout removes the time limit of a response that waits for registries and compilers.
func withoutWriteTimeout(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // on an error the limit stays
		h(w, r)
	}
}

// serveHTTP starts to serve over TCP and the socket, and calls failed if a server fails. stop
// shuts the servers down and returns their errors.
func (a *Agent) serveHTTP(failed func(error)) (stop func() error) {
	tcp, local := a.newServer(), a.newServer()
	local.ConnContext = access.SocketContext
	servers := []*http.Server{tcp}
	serve := []func() error{func() error {
		return a.guard.Web.Serve(a.listener, tcp, access.ServeConfig{Log: a.log, First: a.throttled, Health: isHealth, Crowded: a.crowded})
	}}
	if a.socket != nil {
		servers = append(servers, local)
		serve = append(serve, func() error { return local.Serve(a.socket) })
	}
	errs := make([]error, len(servers))
	var serving sync.WaitGroup
	for i := range servers {
		serving.Go(func() {
			if err := serve[i](); !errors.Is(err, http.ErrServerClosed) {
				errs[i] = err
				failed(err)
			}
		})
	}
	return func() error {
		var ending sync.WaitGroup
		for _, server := range servers {
			ending.Go(func() { shutdown(server) })
		}
		ending.Wait()
		serving.Wait()
		return errors.Join(errs...)
	}
}

func shutdown(server *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		_ = server.Close() // ends the other requests
	}
}

// healthCheck is a line of a verbose health response.
type healthCheck struct {
	name string
	mark string // "+" passed, "-" failed, "!" a warning
	text string
}

// hostTrouble reports attempts that failed because of trouble on this host.
func (a *Agent) hostTrouble(about *hostwatch.Trouble, attempts int, last error) {
	a.events.Host(about.Event, about.Message, attempts)
	a.log.Warn("attempts failed because of trouble of this host", "reason", string(about.Reason),
		"attempts", attempts, "error", last.Error())
}

// hostChecks returns the checks of /readyz about the host.
func (a *Agent) hostChecks() (checks []healthCheck) {
	for _, text := range a.host.Recent() {
		checks = append(checks, healthCheck{"host", "!", text})
	}
	return checks
}

func (a *Agent) live() []healthCheck { return []healthCheck{{"ping", "+", "ok"}} }

func (a *Agent) ready() []healthCheck {
	pods := healthCheck{"pods", "+", "applied"}
	switch {
	case a.stopping.Load():
		pods = healthCheck{"pods", "-", "being stopped"}
	case !a.running.Load():
		pods = healthCheck{"pods", "-", "not applied yet"}
	}
	last := a.lastReload()
	checks := append(a.live(), pods, a.reloadCheck("reload", a.podsTrigger, &last.pods),
		a.reloadCheck("plugins", a.pluginsTrigger, last.plugins.withoutConfig()))
	if last.plugins.ofConfig() {
		checks = append(checks, healthCheck{"config", "!", last.plugins.failed()})
	}
	if last.modules != nil {
		checks = append(checks, healthCheck{"modules", "!", "the modules of /probe cannot be used, the last good ones are kept: " + joined.Line(last.modules)})
	}
	for _, p := range a.handlers.Statuses() {
		if p.State == "withdrawn" {
			checks = append(checks, healthCheck{"plugin " + p.Name, "!", live.ErrWithdrawn.Error()})
		}
		if p.Stale != "" {
			checks = append(checks, healthCheck{"plugin " + p.Name, "!", "its source is not available, the last good version is kept: " + p.Stale})
		}
	}
	return slices.Concat(checks, a.troubleChecks(), a.targetChecks(), a.stateChecks(), a.notifyChecks(), a.selectorChecks(), a.hostChecks())
}

// stateChecks returns warnings about state that could not be saved, and about the history.
func (a *Agent) stateChecks() (checks []healthCheck) {
	if saving := a.saving(); saving.Err != nil {
		checks = append(checks, healthCheck{"state", "!", fmt.Sprintf("could not be saved since %s: %s",
			saving.Since.Format(time.RFC3339), joined.Line(saving.Err))})
	}
	if a.history != nil {
		for _, trouble := range a.history.Trouble() {
			checks = append(checks, healthCheck{"history", "!", trouble})
		}
	}
	return checks
}

// notifyChecks returns warnings about receivers of notifications.
func (a *Agent) notifyChecks() (checks []healthCheck) {
	for name, text := range a.notifier.Trouble(time.Now()) {
		checks = append(checks, healthCheck{name, "!", text})
	}
	return checks
}

// reloadCheck returns a check that warns if a reload takes long, and about the error of the last one.
func (a *Agent) reloadCheck(name string, t *trigger, last *reloadAttempt) healthCheck {
	var wrong []string
	if started := t.started.Load(); started != nil && time.Since(*started) >= a.cfg.longReload {
		wrong = append(wrong, "under way since "+started.Format(time.RFC3339))
	}
	if last.err != nil {
		wrong = append(wrong, last.failed())
	}
	if len(wrong) == 0 {
		return healthCheck{name, "+", "ok"}
	}
	return healthCheck{name, "!", strings.Join(wrong, "; ")}
}

// health responds like the health endpoints of Kubernetes: "ok", or all checks if one failed or with
// ?verbose.
func health(path string, checks func() []healthCheck) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var text strings.Builder
		well := true
		for _, c := range checks() {
			fmt.Fprintf(&text, "[%s]%s %s\n", c.mark, c.name, c.text)
			well = well && c.mark != "-"
		}
		verdict := "passed"
		if !well {
			verdict = "failed"
		}
		fmt.Fprintf(&text, "%s check %s\n", strings.TrimPrefix(path, "/"), verdict)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if !well {
			w.WriteHeader(http.StatusServiceUnavailable)
		} else if !r.URL.Query().Has("verbose") {
			text.Reset()
			text.WriteString("ok")
		}
		_, _ = w.Write([]byte(text.String()))
	}
}

// counts returns the agent's counters for the metrics.
func (a *Agent) counts() agentmetrics.AgentCounts {
	return agentmetrics.AgentCounts{
		LogLinesDropped:   map[string]func() uint64{"stdout": a.stdout.Dropped, "stderr": a.stderr.Dropped},
		StateSaveFailures: func() uint64 { return a.saving().Failures },
		ConnectionsClosed: a.closed.Load,
	}
}
