package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/agent/access"
	"github.com/daeace23/prober/agent/blackbox"
	"github.com/daeace23/prober/agent/certs"
	"github.com/daeace23/prober/agent/depend"
	"github.com/daeace23/prober/agent/endpoints"
	"github.com/daeace23/prober/agent/events"
	"github.com/daeace23/prober/agent/history"
	"github.com/daeace23/prober/agent/hostwatch"
	"github.com/daeace23/prober/agent/incidents"
	"github.com/daeace23/prober/agent/logs"
	"github.com/daeace23/prober/agent/maintenance"
	"github.com/daeace23/prober/agent/notify"
	"github.com/daeace23/prober/agent/otlp"
	"github.com/daeace23/prober/agent/pauses"
	"github.com/daeace23/prober/agent/plugins"
	"github.com/daeace23/prober/agent/push"
	"github.com/daeace23/prober/agent/secrets"
	"github.com/daeace23/prober/agent/slo"
	"github.com/daeace23/prober/agent/statelock"
	"github.com/daeace23/prober/agent/stream"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/internal/marked"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/metrics/agentmetrics"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/probe"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// DefaultListen is the default address of the HTTP server.
const DefaultListen = "127.0.0.1:9876"

// GCPercent is the default GOGC of a process that is an agent and nothing else. It trades processor
// time for memory.
const GCPercent = 50

const (
	historyBudget = 16 << 20 // bytes for past ticks in memory
	shutdownGrace = 5 * time.Second
	idleAfter     = 5 * time.Minute
	askEvery      = 5 * time.Minute
	longReload    = 5 * time.Second
	retrySecrets  = 30 * time.Second
)

// Config configures an agent. Only Source is required.
type Config struct {
	// Source creates the source of pods, and checks its configuration without starting anything. New calls it
	// with its own ctx, returns its error, and rejects an invalid source.
	Source         func(ctx context.Context, host pods.Host) (pods.Source, error)
	PluginDirs     []string
	ConfigFile     string            // prober.yaml; "": defaults
	BlackboxConfig string            // blackbox_exporter modules for /probe; "": none
	LockFile       string            // prober.plugins.lock, which must list every plugin; "": none
	DevPlugins     map[string]string // see [admit.Config]
	Listen         string            // "": [DefaultListen]
	AllowedHosts   []string          // values of the Host header, besides localhost and IP addresses; see [access.ParseHosts]
	WebConfigFile  string            // TLS, users and headers of the HTTP server, in the format of exporter-toolkit; "": plain HTTP
	InsecureListen bool              // allow other hosts to connect to Listen without TLS and credentials
	Socket         string            // unix socket for actions; "": none
	SocketOptional bool              // if Socket cannot be opened, log the error and continue
	TokenFile      string            // file with the token for actions over TCP; "": New creates a token
	ShowToken      bool              // write the created token to Stderr, which must be a terminal
	AddrFile       string            // file for the bound address; "": none
	StateDir       string            // is locked while the agent lives, and stores plugins of registries and the history; "": none
	// HistoryBudget limits the history in StateDir, in bytes; at least [history.MinBudget]; 0:
	// [history.DefaultBudget]. HistoryRetention is how long it is kept; 0: [history.DefaultRetention].
	HistoryBudget    int64
	HistoryRetention time.Duration
	Compat           probe.Compat
	ContainerScoped  bool            // see manager.Config
	UserAgent        string          // of HTTP and gRPC probes; "": [builtin.DefaultUserAgent]
	Profiling        bool            // serve /debug/pprof
	ShowOutput       bool            // show bodies of failed HTTP probes; see [builtin.Config.ShowBody]
	MetricsBuckets   metrics.Buckets // of the duration histograms of probes

	LogFormat string     // "text" or "json"; "" means text
	LogLevel  slog.Level // the zero value is info
	Stderr    io.Writer  // for log lines; nil drops them
	Stdout    io.Writer  // for the output of containers; nil drops it

	LookupEnv func(name string) (string, bool) // resolves ${env:NAME}; nil: no variable exists
	// Configured is called with the contents of ConfigFile at the start and at each reload, if they are
	// valid. It may be nil, and must not block.
	Configured func(c *config.Agent)
	// Reload requests a reload of manifests, ConfigFile and plugins; it may be nil.
	Reload <-chan os.Signal
	// Notify is called with each [Step]; it may be nil. It must not block.
	Notify func(Step)
	// PollInterval is how often files are checked for changes; 0 means 500 ms. A change is applied
	// if the next check finds no further one, or after files have been changing for 2 s.
	PollInterval time.Duration
	// Compiler is the program that compiles WebAssembly modules, see wasm.Config; "": this process
	// compiles them, without limits of time and memory.
	Compiler          string
	Version, Revision string

	mark         string        // environment variable that identifies the programs of this agent. Callers cannot set this field and the ones below
	idleAfter    time.Duration // how long an unused plugin stays loaded
	askEvery     time.Duration // approximate interval of queries for tags
	foldFirst    time.Duration // see [events.Config].FoldFirst; set by tests only
	longReload   time.Duration // after which a running reload is reported
	retrySecrets time.Duration // pause before unreadable secrets are retried
	listeners    []net.Addr    // of the agent itself, which no plugin may reach
}

// plugins returns the configuration of the handlers.
func (c *Config) plugins() plugins.Config {
	return plugins.Config{
		PluginDirs: c.PluginDirs, ConfigFile: c.ConfigFile, LockFile: c.LockFile, DevPlugins: c.DevPlugins, StateDir: c.StateDir,
		Version: c.Version, Compat: c.Compat, UserAgent: c.UserAgent, ShowOutput: c.ShowOutput, Compiler: c.Compiler, Redirects: c.BlackboxConfig != "", LookupEnv: c.LookupEnv,
		Mark: c.mark, Listeners: c.listeners, IdleAfter: c.idleAfter, AskEvery: c.askEvery,
	}
}

// Agent runs pods and probes them.
type Agent struct {
	cfg      Config
	log      *slog.Logger
	stderr   *logs.Writer
	stdout   *logs.Writer
	handlers *plugins.Set
	scrapes  *blackbox.Current
	// scrapeRules are the rules for /probe in prober.yaml; nil: no restrictions.
	scrapeRules atomic.Pointer[config.Blackbox]
	// targetLabels are the labels of prober_target_info, sorted.
	targetLabels atomic.Pointer[[]config.TargetLabel]
	source       pods.Source
	manager      *manager.Manager
	metrics      *metrics.Metrics
	registry     *prometheus.Registry
	events       *events.Log
	hub          *stream.Hub
	pauses       *pauses.Table
	maintenance  *maintenance.Table
	certs        *certs.Board
	slos         *slo.Tracker
	exporter     *otlp.Exporter
	states       *states.Tracker
	notifier     *notify.Notifier
	incidents    *incidents.Watch
	places       podPlaces
	judge        *depend.Judge
	pushes       *push.Pushes
	endpoints    *endpoints.Endpoints
	history      *history.Store // nil without a state directory
	host         *hostwatch.Watch
	lock         *os.File       // of the state directory; nil if there is none
	listener     net.Listener   // of the HTTP server, which Run starts
	socket       *access.Socket // of the HTTP server too; nil for none
	guard        access.Guard
	refused      refusals
	selectors    selectors
	closed       atomic.Uint64 // connections closed to make room for others
	offline      *offline      // set by Validate; nil for a running agent

	pluginStamp string        // stamp of prober.yaml and the plugins when they were last read; owned by followPlugins after New
	secretFiles secrets.Files // that probes refer to
	retry       *time.Timer   // reloads the pods to retry unreadable secrets

	podsTrigger, pluginsTrigger, registriesTrigger *trigger // of the loops

	kill   context.CancelFunc // ends the grace period of containers
	killed context.Context

	started  time.Time
	running  atomic.Bool // pods were applied, and are not being stopped
	stopping atomic.Bool
	mu       sync.Mutex
	last     progress
}

// New reads manifests, configuration and plugins and returns an agent that can run them. Its error joins all
// problems. It may take long, as it compiles plugins; it returns early if ctx ends. The agent owns its state
// directory and its address from the begin of New to the end of Run: if another process uses them, New
// returns an error before it pulls or compiles plugins. HTTP requests before Run wait for it.
func New(ctx context.Context, cfg Config) (*Agent, error) {
	if cfg.Source == nil {
		return nil, errors.New("no source of pods is set")
	}
	cfg.Listen = cmp.Or(cfg.Listen, DefaultListen)
	cfg.PollInterval = cmp.Or(cfg.PollInterval, 500*time.Millisecond)
	a := &Agent{
		cfg: cfg, certs: certs.New(), started: time.Now(), stderr: logs.NewWriter(cfg.Stderr, cfg.LogFormat), stdout: logs.NewWriter(cfg.Stdout, "text"), hub: stream.New(),
		metrics:     metrics.New(metrics.Config{Version: cfg.Version, Revision: cfg.Revision, Buckets: cfg.MetricsBuckets}),
		podsTrigger: newTrigger("manifests"), pluginsTrigger: newTrigger("plugins"), registriesTrigger: newTrigger("registries"),
	}
	a.retry = time.AfterFunc(time.Hour, func() { a.podsTrigger.request(retriedSecrets, false) })
	a.retry.Stop()
	a.cfg.mark = "PROBER_AGENT_ID=" + rand.Text()
	a.cfg.idleAfter = cmp.Or(cfg.idleAfter, idleAfter)
	a.cfg.askEvery = cmp.Or(cfg.askEvery, askEvery)
	a.cfg.retrySecrets = cmp.Or(cfg.retrySecrets, retrySecrets)
	a.cfg.longReload = cmp.Or(cfg.longReload, longReload)
	a.killed, a.kill = context.WithCancel(context.Background())
	a.log = logs.NewLogger(a.stderr, cfg.LogFormat, cfg.LogLevel)
	a.events = events.New(events.Config{Logger: a.log, Tell: a.hub.Event, FoldFirst: cfg.foldFirst})
	a.host = &hostwatch.Watch{Report: a.hostTrouble}
	err := a.assemble(ctx)
	if err == nil && !a.handlers.Detach() {
		err = context.Cause(ctx)
	}
	if err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

// assemble creates the parts of the agent.
func (a *Agent) assemble(ctx context.Context) (err error) {
	if a.cfg.StateDir != "" {
		if a.lock, err = statelock.Lock(a.cfg.StateDir); err != nil {
			return err
		}
	}
	if err = a.listen(ctx); err != nil {
		return err
	}
	handlers := a.cfg.plugins()
	handlers.Runner, handlers.Demanded, handlers.Metrics, handlers.Log = containerRunner{&a.source}, a.demanded, a.metrics, a.log
	a.judge = depend.New(func(key manager.Key) error { return a.manager.Trigger(key) })
	handlers.Judge = a.judge.Wrap
	a.newChecks()
	a.registry = prometheus.NewRegistry()
	a.exporter = otlp.New(otlp.Config{
		Metrics: a.metrics.Handler(metrics.HandlerConfig{Rest: a.registry}), Version: a.cfg.Version, Log: a.log,
	})
	a.notifier = notify.New(a.notifications())
	a.openMaintenance()
	observers, readers := a.openHistory()
	if err = a.loadAndCheck(ctx, handlers); err != nil {
		return err
	}
	if err = a.source.Validate(); err != nil {
		return err
	}
	if a.source.Targets == nil { // without targets there are no witnesses
		a.judge.Close()
	}
	if away := a.handlers.Away(); away != nil { // treat it like an error of a reload
		a.noteReload((*progress).ofPlugins, false, away)
	}
	a.setNetworks()
	if a.source.States != nil {
		readers = append(readers, a.source.States)
	}
	a.openIncidents()
	a.states = states.New(append(readers, a.notifier, a.endpoints, a.incidents)...)
	a.states.Target = func(i *worker.Info) string { return a.manager.Target(keyOf(i)) }
	// The states come before the hub: readers of the hub look them up.
	observers = append([]worker.Observer{a.metrics, a.states, a.hub, a.host, a.exporter, a.certs, logs.Explainer{Logger: a.log}}, append(observers, a.maintenance)...) // the history and the SLOs come before the maintenance
	a.manager, err = manager.New(manager.Config{
		Status: a.source.Status, Handlers: a.handlers, Recorder: a.events, Logger: a.log,
		Observers: observers, RestartGrace: a.source.RestartGrace,
		History: historyBudget, ResolveSecret: a.secret, Compat: a.cfg.Compat, ContainerScoped: a.cfg.ContainerScoped,
	})
	if err != nil {
		return err
	}
	a.openPauses()
	return errors.Join(a.metrics.RegisterShared(a.registry), a.metrics.RegisterPlugins(a.registry, a.handlers),
		metrics.RegisterHandlers(a.registry, a.handlers.Handlers),
		a.metrics.RegisterReload(a.registry, a.reloading), agentmetrics.RegisterAgent(a.registry, a.counts()), a.metrics.RegisterTargets(a.registry, a.countTargets),
		metrics.RegisterPauses(a.registry, a.paused), agentmetrics.RegisterOTLP(a.registry, a.exporter.Counts()), a.registerHistory(), a.registerNode(),
		agentmetrics.RegisterNotifications(a.registry, a.notifier.Counts), a.registerChecks(), a.registerMaintenance(),
		metrics.RegisterCertificates(a.registry, a.measuredCertificates),
		a.registry.Register(collectors.NewGoCollector()),
		a.registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})))
}

// openPauses creates the table of pauses, with the file of the state directory.
func (a *Agent) openPauses() {
	a.pauses = pauses.New(a.manager, a.pauseEnded)
	if a.cfg.StateDir != "" {
		a.pauses.Open(filepath.Join(a.cfg.StateDir, "pauses.json"), a.log)
	}
	a.hub.Ended = a.pauses.Forget
}

// setNetworks makes probes use the network namespaces and the guard of the source, if it has them.
func (a *Agent) setNetworks() {
	if a.source.NetworkOf != nil || a.source.Guard != nil || a.source.OwnName != nil {
		a.handlers.SetNetworks(a.source.NetworkOf, a.source.Guard, a.source.OwnName)
	}
}

// notifications returns the configuration of the notifier.
func (a *Agent) notifications() notify.Config {
	c := notify.Config{Log: a.log, Mark: a.cfg.mark, Exists: a.hasProbe, UplinkDown: a.judge.UplinkDown, Current: func(podUID, container string, kind probe.Kind) states.Status {
		return a.states.Of(podUID, container, kind)
	}, Labels: a.labelsOf}
	if a.cfg.StateDir != "" {
		c.StateFile = filepath.Join(a.cfg.StateDir, "notifications.json")
	}
	return c
}

// openHistory creates the SLOs, and the history if there is a state directory. It returns them as observers and
// readers.
func (a *Agent) openHistory() (observers []worker.Observer, readers []states.Reader) {
	if a.cfg.StateDir == "" {
		a.openSLOs()
		return []worker.Observer{a.slos}, []states.Reader{a.slos}
	}
	a.history = history.New(history.Config{
		StateDir: a.cfg.StateDir, Budget: a.cfg.HistoryBudget, Retention: a.cfg.HistoryRetention, Log: a.log,
	})
	a.openSLOs()
	return []worker.Observer{a.history, a.slos}, []states.Reader{a.history, a.slos}
}

// registerHistory registers the metrics of the SLOs and the history.
func (a *Agent) registerHistory() error {
	err := agentmetrics.RegisterSLOs(a.registry, a.slos.Counts)
	if a.history == nil || err != nil {
		return err
	}
	return agentmetrics.RegisterHistory(a.registry, agentmetrics.HistoryCounts{Bytes: a.history.Bytes, Errors: a.history.Errors, Dropped: a.history.Dropped})
}

// Run serves HTTP, runs the pods and probes them until ctx ends. Then it stops the pods as the kubelet does.
// It returns when all parts of the agent have stopped.
func (a *Agent) Run(ctx context.Context) error {
	defer a.close()
	err := a.announce()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { a.handlers.End(context.Cause(ctx)) })()
	stopServing := a.serveHTTP(cancel)
	var watching sync.WaitGroup
	follow, stop := context.WithCancel(context.WithoutCancel(ctx))
	watching.Go(func() { a.logChanges(follow) })
	watching.Go(func() { a.watchPods(follow) })
	watching.Go(func() { a.events.FollowFolds(follow) })
	watching.Go(func() { a.hub.Run(follow, a.streamState()) })
	watching.Go(func() { a.exporter.Run(follow) })
	watching.Go(func() { a.notifier.Run(follow) })
	watching.Go(func() { a.incidents.Run(follow) })
	watching.Go(func() { a.incidents.Save(follow) })
	watching.Go(func() { a.pushes.Run(follow) })
	watching.Go(func() { a.slos.Run(follow) })
	if a.history != nil {
		watching.Go(func() { a.history.Run(follow) })
	}

	a.source.Start(ctx, a.manager)
	var loops sync.WaitGroup
	for _, loop := range []func(context.Context){a.followPods, a.followPlugins, a.followRegistries, a.followSignals, a.maintainPlugins} {
		loops.Go(func() { loop(ctx) })
	}
	<-ctx.Done()
	ended := a.end(context.Cause(ctx)) // the API still responds
	loops.Wait()                       // after end, as a reload in progress may take long
	stop()
	watching.Wait()
	served := stopServing()
	a.log.Info("stopped", "cause", context.Cause(ctx).Error())
	return errors.Join(served, ended)
}

// end stops pods and probes.
func (a *Agent) end(cause error) error {
	a.stopping.Store(true)
	a.notify(Stopping)
	a.log.Info("stopping pods", "cause", cause.Error())
	a.states.Stop()
	a.pauses.Close() // keeps the file as it is
	a.maintenance.Close()
	a.incidents.Close()
	a.slos.End()
	if a.history != nil {
		a.history.End()
	}
	return errors.Join(a.source.Stop(a.killed), a.endProbes())
}

// endProbes ends all probes. After shutdownGrace it returns without waiting for handlers.
func (a *Agent) endProbes() error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownGrace)
	defer cancel()
	a.judge.Close()
	return a.manager.Shutdown(ctx)
}

// Stalled returns how long a probe has been due while no other probe was run either, see
// [manager.Manager.Stalled]. A value of several seconds means that the agent is broken.
func (a *Agent) Stalled() time.Duration { return a.manager.Stalled() }

// Kill ends the grace period of the containers that Run stops.
func (a *Agent) Kill() { a.kill() }

// close releases the resources of New and Run.
func (a *Agent) close() {
	if a.cfg.AddrFile != "" && a.stopping.Load() {
		_ = os.Remove(a.cfg.AddrFile)
	}
	if a.listener != nil {
		_ = a.listener.Close() // usually closed already
	}
	if a.socket != nil {
		_ = a.socket.Close()
	}
	if a.manager != nil && !a.stopping.Load() {
		_ = a.endProbes() // otherwise Run has ended them
	}
	if a.handlers != nil {
		if err := a.handlers.Close(); err != nil {
			a.log.Error("plugins could not be closed", "error", err)
		}
	}
	if a.pushes != nil {
		a.pushes.Close()
	}
	// Exec probes may have started processes that have left their process group.
	if left := marked.End(a.cfg.mark); left > 0 {
		a.log.Warn("processes of probes could not be ended", "count", left)
	}
	if a.lock != nil {
		_ = a.lock.Close()
	}
	a.kill()
	a.retry.Stop()
	if a.pauses != nil {
		a.pauses.Close()
	}
	if a.maintenance != nil {
		a.maintenance.Close()
	}
	a.host.Stop()
	a.stdout.Close()
	a.stderr.Close()
}
