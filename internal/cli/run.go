package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/agent/access"
	"github.com/daeace23/prober/agent/history"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/program"
	"github.com/daeace23/prober/internal/cli/systemd"
	"github.com/daeace23/prober/internal/footprint"
	"github.com/daeace23/prober/internal/timespan"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/pods/local"
	"github.com/daeace23/prober/pods/local/manifest"
	"github.com/daeace23/prober/pods/targets"
	"github.com/daeace23/prober/probe"
)

// runOptions are the flags of `prober run`.
type runOptions struct {
	agentOptions
	manifests
	restartBackoff time.Duration
}

// agentOptions are the flags of the commands that run an agent.
type agentOptions struct {
	agent.Config

	compat   string
	logLevel string
	dev      []string // NAME=PATH
}

// manifests are the flags about manifests.
type manifests struct {
	paths            []string
	allowUnsupported bool // only warn about fields that local processes do not support

	checked []*declared.Pod // the pods that a check of the files has read, with targets
}

// newPodSource returns the constructor of the agent's source of pods: the pods of the manifests, which run on
// this host, and the targets of prober.yaml. system runs the pods; "" only checks the files.
func (m *manifests) newPodSource(env *command.Env, agentConfig *agent.Config, system string, backoff time.Duration) func(context.Context, pods.Host) (pods.Source, error) {
	return func(ctx context.Context, host pods.Host) (pods.Source, error) {
		runner, checking := &builtin.HostRunner{}, system == ""
		cfg := local.Config{
			Runner: runner, RestartBackoff: backoff, StateDir: agentConfig.StateDir, Empty: checking || agentConfig.BlackboxConfig != "",
		}
		var generated *targets.Source
		if agentConfig.ConfigFile != "" {
			generated = targets.New(targets.Config{
				ConfigFile: agentConfig.ConfigFile, Logger: host.Logger, PollInterval: host.PollInterval, Mark: host.Mark, Offline: checking,
				BindCheck: host.BindCheck,
			})
			cfg.Generator = generated
		}
		manifests := &manifest.Source{Paths: m.paths, Stdin: env.Stdin, AllowUnsupported: m.allowUnsupported, System: system}
		source, err := local.NewPodSource(ctx, manifests, cfg, host)
		if err != nil {
			return pods.Source{}, err
		}
		if checking {
			m.checked = source.Desired()
		}
		if len(m.paths) == 0 && !cfg.Empty && generated.Empty() {
			return pods.Source{}, fmt.Errorf("%s: there is nothing to probe: it has no targets, pushes or endpoints, and -f is not set", agentConfig.ConfigFile)
		}
		runner.Environment, runner.User = source.Environment, source.User
		return source.ForAgent(), nil
	}
}

func newRun(env *command.Env) *cobra.Command {
	var o runOptions
	c := &cobra.Command{
		Use:   "run -f PATH...",
		Short: "Run the pods of manifests as local processes, and probe them",
		Long: "Run the pods of manifests as local processes, and probe them, until SIGINT or SIGTERM.\n" +
			"The targets of prober.yaml (--config) are probed too; with them, -f is not required.\n" +
			"Changed manifests are applied at once. SIGHUP reads all of them again.\n\n" +
			"Environment variables set every flag except --plugin-dev: PROBER_LOG_LEVEL sets --log-level. Lists\n" +
			"such as PROBER_PLUGINS use the separator of PATH.\n\n" +
			"Exit code 0 ended by a signal, 1 an error, 64 wrong usage or an invalid file.",
		Example: "  prober run -f pod.yaml --plugins /etc/prober/plugins\n" +
			"  prober run -f pods -f extra.yaml --config prober.yaml --state-dir /var/lib/prober\n" +
			"  prober run --config prober.yaml\n" +
			"  kubectl get pod shop -o yaml | prober run --allow-unsupported -f -",
		Args: cobra.ArbitraryArgs, // more paths of -f
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(o.paths) == 0 && (o.ConfigFile == "" && o.BlackboxConfig == "" || len(args) > 0) {
				return command.Usage(o.withPaths(cmd, args), "run: -f is required, or --config with targets, or --blackbox-config")
			}
			o.paths = append(o.paths, args...)
			if o.restartBackoff <= 0 {
				return command.Usage("", "--restart-backoff %s: must be above 0", o.restartBackoff)
			}
			o.Source = o.newPodSource(env, &o.Config, runtime.GOOS, o.restartBackoff)
			return o.withHint(cmd, o.run(cmd.Context(), env))
		},
	}
	o.flags(c)
	return c
}

func (o *runOptions) flags(c *cobra.Command) {
	o.agentOptions.flags(c, "folder for the state of external targets, notifications and the history, and the plugins of registries, kept over restarts of the agent")
	f := c.Flags()
	f.StringArrayVarP(&o.paths, "filename", "f", nil, "manifests: files, folders, or - for stdin")
	f.DurationVar(&o.restartBackoff, "restart-backoff", local.DefaultRestartBackoff, "pause before a container's second restart in a row; doubles up to 5m")
	f.BoolVar(&o.allowUnsupported, "allow-unsupported", false, "only warn about fields that local processes do not support")
}

// withPaths returns the command line of a user who has named files without a flag, for a hint.
func (o *runOptions) withPaths(cmd *cobra.Command, args []string) string {
	switch {
	case len(args) == 0:
		return "prober run -f pod.yaml, or prober run --config prober.yaml"
	case len(args) == 1 && kindOf(args[0]) == config.Kind && o.ConfigFile == "":
		return command.Line(cmd, nil, "config", args[0])
	default:
		return command.Line(cmd, args[1:], "filename", args[0])
	}
}

// withHint returns err with a hint if --config has a manifest, or -f the agent's file.
func (o *runOptions) withHint(cmd *cobra.Command, err error) error {
	e, ok := errors.AsType[*command.Exit](err)
	if !ok || e.Code != command.ExitUsage {
		return err
	}
	if i := slices.IndexFunc(o.paths, func(p string) bool { return kindOf(p) == config.Kind }); i >= 0 && o.ConfigFile == "" {
		e.Hint = "the agent's file is for --config: " + command.Line(cmd, nil, "filename", "", "config", o.paths[i])
	}
	if info, err := os.Stat(o.ConfigFile); err == nil && info.Mode().IsRegular() && kindOf(o.ConfigFile) == "" && len(o.paths) == 0 {
		e.Hint = "a manifest is for -f: " + command.Line(cmd, nil, "config", "", "filename", o.ConfigFile)
	}
	return err
}

// flags adds the flags to c. stateDir is the text of --state-dir.
func (o *agentOptions) flags(c *cobra.Command, stateDir string) {
	f := c.Flags()
	f.StringArrayVar(&o.PluginDirs, "plugins", nil, "folder of plugins")
	f.StringVar(&o.ConfigFile, "config", "", "the agent's file, prober.yaml")
	f.StringVar(&o.BlackboxConfig, "blackbox-config", "", "config file of blackbox_exporter, with the modules of /probe")
	f.StringVar(&o.LockFile, "plugins-lock", "", "lock file of the allowed plugins, written by prober plugin lock")
	f.StringArrayVar(&o.dev, "plugin-dev", nil, "NAME=PATH: load the plugin NAME from PATH, without a check of pins, signatures and the lock")
	command.NotFromEnv(f.Lookup("plugin-dev"))
	f.StringVar(&o.Listen, "listen", agent.DefaultListen, "address of the HTTP server; port 0 takes any")
	f.StringSliceVar(&o.AllowedHosts, "allowed-hosts", nil, "allowed host name of requests, in addition to localhost and IP addresses: HOST, HOST:PORT or *.SUFFIX")
	f.StringVar(&o.WebConfigFile, "web.config.file", "", "TLS and users of the HTTP server, in the format of Prometheus' exporter-toolkit")
	f.BoolVar(&o.InsecureListen, "insecure-listen", false, "allow reads from other hosts without TLS and credentials")
	f.StringVar(&o.Socket, "socket", "", "unix socket for actions (default: prober.sock in /run/prober for root, else in XDG_RUNTIME_DIR, else in the cache folder)")
	f.StringVar(&o.TokenFile, "token-file", "", "file with the token of actions over TCP, mode 0600; default: a random token")
	f.StringVar(&o.AddrFile, "addr-file", "", "file to write the bound address to")
	f.StringVar(&o.StateDir, "state-dir", "", stateDir)
	o.HistoryBudget, o.HistoryRetention = history.DefaultBudget, history.DefaultRetention
	f.Var((*size)(&o.HistoryBudget), "history-budget", "maximum size of the history in --state-dir; the oldest data is dropped")
	f.Var((*days)(&o.HistoryRetention), "history-retention", "how long the history in --state-dir is kept")
	f.BoolVar(&o.ShowOutput, "show-output", false, "show the beginning of the bodies of failed HTTP probes, in the log and in the details of /api/v1/probes")
	f.BoolVar(&o.Profiling, "pprof", false, "serve /debug/pprof over the socket, and with the token")
	f.Var(command.OneOf((*string)(&o.MetricsBuckets), "classic", "native", "both", "none"), "metrics-buckets", "buckets of the durations of each probe in /metrics; native: a native histogram for scrapes in protobuf, sum and count in others; none: sum and count")
	f.Var(command.OneOf(&o.compat, append([]string{""}, slices.Sorted(maps.Keys(profiles))...)...), "compat", "behave as this kubelet does, including its bugs")
	f.BoolVar(&o.ContainerScoped, "container-scoped-probes", false, "start the schedule of a probe with its container: the first attempt is at the end of the initial delay, without a random delay")
	o.LogFormat, o.logLevel, o.MetricsBuckets = "text", "info", "classic"
	f.Var(command.OneOf(&o.LogFormat, "text", "json"), "log-format", "format of the lines on stderr")
	f.Var(command.OneOf(&o.logLevel, "debug", "info", "warn", "error"), "log-level", "lowest level of the lines on stderr")
}

// settleAfter is the time after the start when the agent returns unused memory to the system. The first
// attempts have ended then.
const settleAfter = 10 * time.Second

// run runs the agent with its Source until a signal arrives.
func (o *agentOptions) run(ctx context.Context, env *command.Env) error {
	if err := o.complete(env); err != nil {
		return err
	}
	if _, set := env.LookupEnv("GOGC"); !set {
		defer debug.SetGCPercent(debug.SetGCPercent(agent.GCPercent))
	}
	if !o.Profiling { // only /debug/pprof reads the samples of allocations, which take 2 MB
		defer func(rate int) { runtime.MemProfileRate = rate }(runtime.MemProfileRate)
		runtime.MemProfileRate = 0
	}
	settle := time.AfterFunc(settleAfter, footprint.Settle)
	defer settle.Stop()
	// If the reader of the log has gone, writes fail and the agent keeps running. SIGPIPE stays handled,
	// since the last lines are written after this function returns.
	env.Notify(syscall.SIGPIPE)
	reload, stopReload := env.Notify(syscall.SIGHUP)
	defer stopReload()
	o.Reload = reload
	var running atomic.Pointer[agent.Agent]
	ctx, stop := env.InterruptibleTwice(ctx, func() { // the second signal kills the remaining containers
		if a := running.Load(); a != nil {
			a.Kill()
		}
	})
	defer stop()

	a, err := agent.New(ctx, o.Config)
	if err != nil && ctx.Err() == nil {
		return notStarted(err)
	}
	if err != nil {
		env.Stderr = &timeoutWriter{w: env.Stderr}
		return &command.Exit{Code: command.ExitFailed, Err: context.Cause(ctx), Hint: "nothing was started"}
	}
	running.Store(a)
	stopWatchdog := watchdog(a)
	err = a.Run(ctx)
	stopWatchdog()
	env.Stderr = &timeoutWriter{w: env.Stderr}
	if err != nil {
		return command.Failed(err)
	}
	if o.LogFormat != "json" { // the last line of the JSON log has the cause
		fmt.Fprintf(env.Stderr, "prober: %s\n", context.Cause(ctx))
	}
	return nil
}

// watchdog pings the watchdog of systemd until stop is called, if the unit has WatchdogSec.
func watchdog(a *agent.Agent) (stop func()) {
	interval := systemd.Interval()
	if interval == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { systemd.Watch(ctx, interval, a.Stalled) })
	return func() { cancel(); watching.Wait() }
}

// profilePrefix is the prefix of the words of --compat, before the release of the kubelet.
const profilePrefix = "kubelet-"

// profiles are the releases of the kubelet, for --compat.
var profiles = func() map[string]probe.Compat {
	m := make(map[string]probe.Compat)
	for _, r := range probe.KubeletReleases() {
		m[profilePrefix+r.Name] = r.Compat
	}
	return m
}()

// complete validates the flags, and sets the fields of the agent's config that have no flag.
func (o *agentOptions) complete(env *command.Env) error {
	if _, _, err := net.SplitHostPort(o.Listen); err != nil {
		return command.Usage("an address looks like 127.0.0.1:9876; port 0 takes a free one", "--listen: %w", err)
	}
	if err := o.LogLevel.UnmarshalText([]byte(o.logLevel)); err != nil {
		return command.Usage("", "--log-level: %w", err)
	}
	o.Compat = profiles[o.compat]
	if release, ok := strings.CutPrefix(o.compat, profilePrefix); ok {
		o.UserAgent = "kube-probe/" + release
	}
	if err := o.readDev(); err != nil {
		return err
	}
	if _, err := access.ParseHosts(o.AllowedHosts); err != nil {
		return command.Usage("", "--allowed-hosts %w", err)
	}
	if o.Socket == "" {
		o.Socket, o.SocketOptional = access.DefaultSocket(env.LookupEnv), true
	}
	o.Version, o.Revision, o.Compiler = env.Version, program.Revision(), env.Compiler
	o.ShowToken = o.LogFormat == "text" && command.IsTerminal(env.Stderr)
	o.Stdout, o.Stderr, o.LookupEnv = env.Stdout, env.Stderr, env.LookupEnv
	o.Notify = systemd.Notify
	return nil
}

// stderrTimeout is how long the process waits for the reader of stderr when it exits.
const stderrTimeout = time.Second

// timeoutWriter writes to w. After a write that takes longer than [stderrTimeout] it discards
// everything. It is not safe for concurrent use.
type timeoutWriter struct {
	w     io.Writer
	stuck bool
}

// Write implements [io.Writer]. It never fails.
func (t *timeoutWriter) Write(p []byte) (int, error) {
	if t.stuck {
		return len(p), nil
	}
	written := make(chan struct{})
	text := bytes.Clone(p)
	go func() {
		defer close(written)
		_, _ = t.w.Write(text) // the error cannot be reported
	}()
	select {
	case <-written:
	case <-time.After(stderrTimeout):
		t.stuck = true
	}
	return len(p), nil
}

// notStarted returns the exit of an agent that did not start.
func notStarted(err error) error {
	e := &command.Exit{Code: command.ExitUsage, Err: err, Hint: "nothing was started"}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "listen" {
		e.Code = command.ExitFailed
		if errors.Is(err, syscall.EADDRINUSE) {
			e.Hint = "--listen sets another address; port 0 takes a free one"
		}
	}
	if errors.Is(err, access.ErrExposed) {
		e.Hint = "--web.config.file sets TLS and credentials; --insecure-listen allows reads by everyone who can connect; 127.0.0.1 needs neither"
	}
	if errors.Is(err, access.ErrSocketInUse) {
		e.Code, e.Hint = command.ExitFailed, "--socket sets another path"
	}
	if errors.Is(err, errNoCluster) {
		e.Hint = "--kubeconfig names the file of a cluster; without it, the agent runs in a pod of the cluster, with a service account"
	}
	if errors.Is(err, manifest.ErrNeedsLinux) {
		e.Hint = "a container without a command is an external target, which can be probed from every system"
	}
	return e
}

// size is a flag with a number of bytes.
type size int64

// String implements [pflag.Value].
func (s *size) String() string { return plugin.FormatSize(int(*s)) }

// Type implements [pflag.Value].
func (*size) Type() string { return "size" }

// Set implements [pflag.Value].
func (s *size) Set(text string) error {
	n, err := plugin.ParseSize(text)
	if err != nil {
		return err
	}
	if n < history.MinBudget || n > math.MaxInt64 {
		return fmt.Errorf("must be at least %s", plugin.FormatSize(history.MinBudget))
	}
	*s = size(n)
	return nil
}

// days is a flag with a duration, which may have days.
type days time.Duration

// String implements [pflag.Value].
func (d *days) String() string { return timespan.Format(time.Duration(*d)) }

// Type implements [pflag.Value].
func (*days) Type() string { return "duration" }

// Set implements [pflag.Value].
func (d *days) Set(text string) error {
	of, err := timespan.Parse(text)
	*d = days(of)
	return err
}

// readDev reads the flags --plugin-dev.
func (o *agentOptions) readDev() error {
	o.DevPlugins = make(map[string]string, len(o.dev))
	for _, text := range o.dev {
		name, path, _ := strings.Cut(text, "=")
		if !plugin.ValidName(name) || path == "" {
			return command.Usage("--plugin-dev demo=demo/demo.wasm", "--plugin-dev %q: must be NAME=PATH", text)
		}
		if o.DevPlugins[name] != "" {
			return command.Usage("", "--plugin-dev %s: the plugin %q is given twice", text, name)
		}
		o.DevPlugins[name] = path
	}
	return nil
}
