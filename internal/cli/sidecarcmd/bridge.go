package sidecarcmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/daeace23/prober/agent/access"
	"github.com/daeace23/prober/agent/logs"
	"github.com/daeace23/prober/agent/plugins"
	"github.com/daeace23/prober/agent/secrets"
	"github.com/daeace23/prober/agent/sidecar"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/filestamp"
	"github.com/daeace23/prober/internal/footprint"
	"github.com/daeace23/prober/internal/marked"
	"github.com/daeace23/prober/internal/procgroup"
	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/metrics"
)

const (
	// pollInterval is the interval of checks of the files. The kubelet writes the files of the downward API
	// about once a minute.
	pollInterval = 2 * time.Second
	idleAfter    = 5 * time.Minute
	// gcPercent is the default GOGC. It trades processor time, of which a few attempts a second
	// need little, for memory, which each pod pays for.
	gcPercent  = 25
	maxScrapes = 2
)

// bridge is a sidecar with its plugins.
type bridge struct {
	log      *slog.Logger
	stderr   *logs.Writer
	mark     string
	handlers *plugins.Set
	server   *sidecar.Server
	secrets  secrets.Files

	stamp     string // stamp of prober.yaml and plugins at the last reading; owned by Follow, like settling
	settling  filestamp.Settling
	restoreGC func()
}

// newBridge reads prober.yaml, plugins and the annotation. The caller must close the bridge, even if
// newBridge returns an error.
func newBridge(ctx context.Context, o *options, env *command.Env, at net.Addr) (*bridge, error) {
	b := &bridge{stderr: logs.NewWriter(env.Stderr, o.logFormat), mark: procgroup.NewMark(), restoreGC: func() {}}
	b.log = logs.NewLogger(b.stderr, o.logFormat, o.level)
	if _, set := env.LookupEnv("GOGC"); !set {
		before := debug.SetGCPercent(gcPercent)
		b.restoreGC = func() { debug.SetGCPercent(before) }
	}
	m, registry := metrics.New(metrics.Config{Version: env.Version, Revision: o.revision, Buckets: metrics.NoBuckets}), prometheus.NewRegistry()
	var err error
	b.handlers, b.stamp, err = plugins.New(ctx, plugins.Config{
		PluginDirs: o.pluginDirs, ConfigFile: o.configFile, LockFile: o.lockFile, Version: env.Version, Compiler: env.Compiler, LookupEnv: env.LookupEnv,
		Runner: noCommands{}, Mark: b.mark, Listeners: []net.Addr{at}, IdleAfter: idleAfter, AskEvery: idleAfter,
		Demanded: func(error) {}, Metrics: m, Log: b.log,
	})
	if err != nil {
		return b, err
	}
	err = errors.Join(m.RegisterShared(registry), m.RegisterPlugins(registry, b.handlers), metrics.RegisterHandlers(registry, b.handlers.Handlers),
		registry.Register(collectors.NewGoCollector()), registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})))
	if err != nil {
		return b, err
	}
	m.Reloaded(true, time.Now())
	hosts := access.Hosts{}
	variable := func(name string) string { value, _ := env.LookupEnv(name); return value }
	b.server, err = sidecar.New(ctx, sidecar.Config{
		Text: o.text(env), Ports: o.known, Host: o.podIP, Namespace: variable("POD_NAMESPACE"), Pod: variable("POD_NAME"), PodUID: variable("POD_UID"),
		Prepare: b.handlers.PrepareWithin,
		ResolveSecret: func(source, name string) (string, error) {
			policy := b.handlers.SecretPolicy()
			return policy.Resolve(env.LookupEnv, &b.secrets, source, name)
		},
		Observer: m, Metrics: m.Handler(metrics.HandlerConfig{Rest: registry, MaxInFlight: maxScrapes}), AllowHost: hosts.Allow, Log: b.log,
	})
	if err == nil && !b.handlers.Detach() {
		err = context.Cause(ctx)
	}
	return b, err
}

// serve answers requests until ctx ends.
func (b *bridge) serve(ctx context.Context, listener net.Listener, addrFile string) error {
	address := listener.Addr().String()
	if addrFile != "" {
		if err := regular.ReplaceBytes(addrFile, 0o600, []byte(address)); err != nil {
			return fmt.Errorf("address file: %w", err)
		}
		defer os.Remove(addrFile)
	}
	footprint.Settle()
	b.log.Info("listening", "address", address)
	var following sync.WaitGroup
	follow, stop := context.WithCancel(ctx)
	following.Go(func() { b.server.Follow(follow, pollInterval, b.reloadPlugins) })
	err := b.server.Serve(ctx, listener)
	stop()
	following.Wait()
	return err
}

// reloadPlugins applies changes of prober.yaml and of plugins.
func (b *bridge) reloadPlugins(ctx context.Context) {
	now := time.Now()
	b.handlers.UnloadUnused(now)
	stamp := b.handlers.Stamp()
	if !b.settling.Due(now, stamp, b.stamp) {
		return
	}
	b.stamp = stamp
	switch changed, err := b.handlers.Reload(ctx, false); {
	case ctx.Err() != nil:
	case err != nil:
		b.log.Error("some plugins cannot be used; their last good versions stay in use", "error", err.Error())
	case changed:
		b.log.Info("plugins reloaded")
	}
}

// close frees the resources of the bridge.
func (b *bridge) close() {
	if b.server != nil {
		b.server.Close()
	}
	if b.handlers != nil {
		if err := b.handlers.Close(); err != nil {
			b.log.Error("plugins could not be closed", "error", err)
		}
	}
	if left := marked.End(b.mark); left > 0 {
		b.log.Warn("processes of plugins could not be ended", "count", left)
	}
	b.restoreGC()
	b.stderr.Close()
}

// noCommands refuses exec probes, which the annotation cannot have.
type noCommands struct{}

// RunInContainer implements [builtin.CommandRunner].
func (noCommands) RunInContainer(context.Context, string, []string, time.Duration) ([]byte, error) {
	return nil, errNoCommands
}
