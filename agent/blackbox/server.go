package blackbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"

	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/internal/redact"
	"github.com/daeace23/prober/probe"
)

const (
	// timeoutOffset is how much earlier than the scrape its probe ends, as in blackbox_exporter.
	timeoutOffset = 500 * time.Millisecond
	// reportTime is how long a plugin has after its timeout to report its measurements.
	reportTime = 250 * time.Millisecond
	// longestTimeout is the default timeout of a scrape, and its maximum.
	longestTimeout = 120 * time.Second
	// maxEvents is the limit of lines in a debug text.
	maxEvents     = 1000
	defaultModule = "http_2xx"
)

// Server serves any number of concurrent scrapes. Create it with [NewServer].
type Server struct{ cfg Config }

// Config configures a [Server]. File and Prepare are required.
type Config struct {
	// File returns the file in use.
	File func() *File
	// Prepare binds a handler to a config and a target.
	Prepare func(ctx context.Context, handler string, config []byte, target probe.Target) (probe.Handler, error)
	// Listeners are the listeners of this program, which scrapes must not reach.
	Listeners []net.Addr
	// Allows reports whether a target may have a host, which is not resolved; nil allows all.
	Allows func(host string) bool
}

// NewServer returns a server.
func NewServer(cfg Config) *Server { return &Server{cfg: cfg} }

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	timeout, err := scrapeTimeout(r.Header)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	name, target := cmp.Or(query.Get("module"), defaultModule), query.Get("target")
	module := s.cfg.File().modules[name]
	switch {
	case module == nil:
		http.Error(w, fmt.Sprintf("Unknown module %.80q", name), http.StatusBadRequest)
		return
	case module.unsupported != nil:
		http.Error(w, fmt.Sprintf("Module %.80q: %v", name, module.unsupported), http.StatusBadRequest)
		return
	case target == "":
		http.Error(w, "Target parameter is missing", http.StatusBadRequest)
		return
	}
	if module.timeout > 0 && (module.timeout < timeout || timeout <= 0) {
		timeout = module.timeout
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(timeout + 10*time.Second)) // on an error the limit stays
	v := s.probe(r.Context(), module, target, query.Get("hostname"), timeout, query.Get("debug") == "true")
	if unknown, ok := errors.AsType[*handlers.UnknownError](v.err); ok { // a failure of the config, not of the target
		http.Error(w, fmt.Sprintf("Module %.80q: %v", name, unknown), http.StatusInternalServerError)
		return
	}
	if errors.Is(v.err, probe.ErrNoSlot) { // no attempt was made for lack of resources
		w.Header().Set("Retry-After", "1")
		http.Error(w, fmt.Sprintf("Module %.80q: no attempt was made: %v", name, v.err), http.StatusServiceUnavailable)
		return
	}
	registry := prometheus.NewPedanticRegistry()
	gather(registry, v)
	if v.debug {
		writeDebug(w, registry, v)
		return
	}
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}

// scrapeTimeout returns the timeout for the probe of a scrape; 0 or less if there is not enough time for a
// probe.
func scrapeTimeout(h http.Header) (time.Duration, error) {
	text := h.Get("X-Prometheus-Scrape-Timeout-Seconds")
	if text == "" {
		return longestTimeout - timeoutOffset, nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || seconds != seconds || seconds < 0:
		return 0, fmt.Errorf("failed to parse the timeout of the header X-Prometheus-Scrape-Timeout-Seconds: %.40q", text)
	case seconds == 0 || seconds > longestTimeout.Seconds():
		return longestTimeout - timeoutOffset, nil
	}
	return time.Duration(seconds*float64(time.Second)) - timeoutOffset, nil
}

// verdict is the result of a scrape.
type verdict struct {
	outcome probe.Outcome
	err     error
	took    time.Duration
	debug   bool
	events  []string
	module  *Module
	secrets *redact.Replacer // of module; nil: not made yet
	config  []byte
	timeout time.Duration
}

func (v *verdict) success() bool {
	return v.err == nil && (v.outcome.Result == probe.Success || v.outcome.Result == probe.Warning)
}

// probe makes the attempt of a scrape.
func (s *Server) probe(ctx context.Context, m *Module, target, hostname string, timeout time.Duration, debug bool) *verdict {
	v := &verdict{module: m, timeout: timeout, debug: debug}
	start := time.Now()
	defer func() { v.took = time.Since(start) }()
	if timeout <= 0 {
		v.fail(errors.New("the scrape has no time for a probe"))
		return v
	}
	deadline := timeout
	if m.handler != grpcHandler {
		deadline += reportTime
	}
	ctx, cancel := context.WithTimeout(netns.WithGuard(ctx, guard(s.cfg.Listeners)), deadline)
	defer cancel()
	if v.module, v.err = m.fresh(); v.err != nil {
		v.module = m
		v.fail(v.err)
		return v
	}
	config, to, err := v.module.bind(target, hostname, timeout)
	if v.config = config; err != nil {
		v.fail(err)
		return v
	}
	if s.cfg.Allows != nil && !s.cfg.Allows(to.Host) {
		v.fail(fmt.Errorf("denied: blackbox.targets of prober.yaml does not list %.200q", to.Host))
		return v
	}
	if m.handler != grpcHandler {
		s.attempt(ctx, v, to)
		return v
	}
	ip, measured, err := m.fields.GRPC.lookUp(ctx, to.Host)
	if err != nil {
		v.outcome = probe.Outcome{Result: probe.Failure, Output: err.Error(), Metrics: measured}
		return v
	}
	to.Host = ip.String()
	started := time.Now()
	s.attempt(ctx, v, to)
	v.outcome.Metrics = append(measured, measureGRPC(v, m.fields.GRPC.TLS, time.Since(started))...)
	return v
}

// attempt makes an attempt and retries after errors, like a tick, but all within ctx.
func (s *Server) attempt(ctx context.Context, v *verdict, to probe.Target) {
	handler, err := s.cfg.Prepare(ctx, v.module.handler, v.config, to)
	if err != nil {
		v.fail(err)
		return
	}
	defer probe.Release(handler)
	req := probe.Request{
		Kind: probe.Readiness, Target: to, PodIP: to.Host, Debug: v.debug, Pod: &probe.Pod{}, Container: &probe.Container{},
		Spec: probe.Spec{Timeout: v.timeout, Period: longestTimeout, SuccessThreshold: 1, FailureThreshold: 1},
	}
	if v.debug {
		req.Trace = v.trace
	}
	for req.Attempt = 1; ; req.Attempt++ {
		v.outcome, err = worker.Attempt(ctx, handler, req)
		if err == nil || req.Attempt == probe.MaxAttempts || ctx.Err() != nil || errors.Is(err, probe.ErrNoSlot) {
			break
		}
	}
	if err != nil {
		v.fail(err)
	}
}

// fail sets the result to an error.
func (v *verdict) fail(err error) {
	v.err, v.outcome = err, probe.Outcome{Result: probe.Unknown}
}

func (v *verdict) trace(e probe.TraceEvent) {
	if len(v.events) < maxEvents {
		v.events = append(v.events, explain.OneLine(v.redacted(line(&e))))
	}
}

// redacted returns text without the secrets of the module.
func (v *verdict) redacted(text string) string {
	if v.secrets == nil {
		v.secrets = redact.New(v.module.secrets)
	}
	return v.secrets.Replace(text)
}

// writeDebug writes the response for debug=true as blackbox_exporter does: log lines, metrics and the module.
func writeDebug(w http.ResponseWriter, registry *prometheus.Registry, v *verdict) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	fmt.Fprintf(w, "Logs for the probe:\nmodule %s, prober %s, handler %s, timeout %s\n", explain.OneLine(v.module.Name), v.module.fields.Prober, v.module.handler, v.timeout)
	for _, e := range v.events {
		fmt.Fprintln(w, e)
	}
	said := v.outcome.Output
	if v.err != nil {
		said = v.err.Error()
	}
	fmt.Fprintf(w, "%s after %s: %s\n", v.outcome.Result, v.took, explain.OneLine(v.redacted(said)))
	fmt.Fprint(w, "\n\n\nMetrics that would have been returned:\n")
	families, _ := registry.Gather() // metrics with errors are omitted
	for _, f := range families {
		_, _ = expfmt.MetricFamilyToText(w, f)
	}
	var config any
	if json.Unmarshal(v.config, &config) == nil {
		fmt.Fprint(w, "\n\n\nModule configuration:\n")
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false) // the response is plain text
		e.SetIndent("", "  ")
		_ = e.Encode(mask("", config)) // an error means that the client has left
	}
}
