package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/agent/access"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/pods/local"
	"github.com/daeace23/prober/probe"
)

// runOptions are the flags of `prober run` that are not fields of the agent's config.
type runOptions struct {
	agent.Config
	compat   string
	logLevel string
	dev      []string // NAME=PATH
}

func newRun(env *Env) *cobra.Command {
	var o runOptions
	c := &cobra.Command{
		Use:   "run -f PATH...",
		Short: "Run the pods of manifests as local processes, and probe them",
		Long: "Run the pods of manifests as local processes, and probe them, until SIGINT or SIGTERM.\n" +
			"A manifest that changes is applied at once; SIGHUP has all of them read again.\n\n" +
			"Every flag but --plugin-dev may be a variable too: PROBER_LOG_LEVEL is --log-level, and\n" +
			"lists such as PROBER_PLUGINS are separated as PATH is.\n\n" +
			"Exit code 0 ended by a signal, 1 it could not go on, 64 wrong usage or a file that is bad.",
		Example: "  prober run -f pod.yaml --plugins /etc/prober/plugins\n" +
			"  prober run -f pods -f extra.yaml --config prober.yaml --state-dir /var/lib/prober\n" +
			"  kubectl get pod shop -o yaml | prober run --allow-unsupported -f -",
		Args: cobra.ArbitraryArgs, // more paths of -f
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(o.Paths) == 0 {
				return usage("prober run -f pod.yaml", "run: -f is required")
			}
			o.Paths = append(o.Paths, args...)
			return env.run(cmd.Context(), &o)
		},
	}
	o.flags(c)
	return c
}

func (o *runOptions) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringArrayVarP(&o.Paths, "filename", "f", nil, "manifests: files, folders, or - for stdin")
	f.StringArrayVar(&o.PluginDirs, "plugins", nil, "folder of plugins")
	f.StringVar(&o.ConfigFile, "config", "", "the agent's file, prober.yaml")
	f.StringVar(&o.LockFile, "plugins-lock", "", "lock of the plugins that may be loaded, as plugin lock writes it")
	f.StringArrayVar(&o.dev, "plugin-dev", nil, "load the plugin NAME from PATH, whatever pins, signatures and the lock say")
	f.Lookup("plugin-dev").Annotations = map[string][]string{notFromEnv: {"true"}}
	f.StringVar(&o.Listen, "listen", agent.DefaultListen, "address of the HTTP server; port 0 takes any")
	f.StringSliceVar(&o.AllowedHosts, "allowed-hosts", nil, "name that the HTTP server may be asked by, beside localhost and IP addresses: HOST, HOST:PORT or *.SUFFIX")
	f.StringVar(&o.WebConfigFile, "web.config.file", "", "TLS and users of the HTTP server, in the format of Prometheus' exporter-toolkit")
	f.BoolVar(&o.InsecureListen, "insecure-listen", false, "let other hosts read over HTTP without TLS and credentials")
	f.StringVar(&o.Socket, "socket", "", "unix socket that takes actions (default: prober.sock in /run/prober for root, else in XDG_RUNTIME_DIR, else in the cache folder)")
	f.StringVar(&o.TokenFile, "token-file", "", "file with the token of actions over TCP, mode 0600; default: a random token")
	f.StringVar(&o.AddrFile, "addr-file", "", "file that gets the bound address")
	f.DurationVar(&o.RestartBackoff, "restart-backoff", local.DefaultRestartBackoff, "pause before a container's second restart in a row; doubles up to 5m")
	f.StringVar(&o.StateDir, "state-dir", "", "folder that keeps what is known of external targets, and the plugins of registries, over a restart of the agent")
	f.BoolVar(&o.AllowUnsupported, "allow-unsupported", false, "only warn of fields that a process cannot have")
	f.BoolVar(&o.ShowOutput, "show-output", false, "show the beginning of the body of a failed HTTP probe, in the log and in the details of /api/v1/probes")
	f.BoolVar(&o.Profiling, "pprof", false, "serve /debug/pprof over the socket, and with the token")
	f.Var(choice{&o.compat, []string{"", "kubelet-1.36"}}, "compat", "behave exactly as this kubelet, quirks included")
	o.LogFormat, o.logLevel = "text", "info"
	f.Var(choice{&o.LogFormat, []string{"text", "json"}}, "log-format", "format of the lines on stderr")
	f.Var(choice{&o.logLevel, []string{"debug", "info", "warn", "error"}}, "log-level", "least level of the lines on stderr")
}

// run runs the agent until a signal comes.
func (env *Env) run(ctx context.Context, o *runOptions) error {
	if _, _, err := net.SplitHostPort(o.Listen); err != nil {
		return usage("an address looks like 127.0.0.1:9876; with port 0 any that is free", "--listen: %w", err)
	}
	if o.RestartBackoff <= 0 {
		return usage("", "--restart-backoff %s: must be above 0", o.RestartBackoff)
	}
	if err := o.LogLevel.UnmarshalText([]byte(o.logLevel)); err != nil {
		return usage("", "--log-level: %w", err)
	}
	if o.compat != "" {
		o.Compat = probe.CompatKubeletV1_36
	}
	if err := o.readDev(); err != nil {
		return err
	}
	if _, err := access.ParseHosts(o.AllowedHosts); err != nil {
		return usage("", "--allowed-hosts %w", err)
	}
	if o.Socket == "" {
		o.Socket, o.SocketOptional = access.DefaultSocket(env.LookupEnv), true
	}
	if _, set := env.LookupEnv("GOGC"); !set {
		defer debug.SetGCPercent(debug.SetGCPercent(agent.GCPercent))
	}
	b := thisBuild()
	o.Version, o.Revision, o.Compiler = b.Version, b.Revision, env.Compiler
	o.ShowToken = o.LogFormat == "text" && isTerminal(env.Stderr)
	o.Stdin, o.Stdout, o.Stderr, o.LookupEnv = env.Stdin, env.Stdout, env.Stderr, env.LookupEnv
	// A log reader that has gone ends no agent: writes to it fail, and the log counts them.
	// It stays so until the process ends, since the last words come after this returns.
	env.Notify(syscall.SIGPIPE)
	reload, stopReload := env.Notify(syscall.SIGHUP)
	defer stopReload()
	o.Reload = reload
	ends, stopEnds := env.Notify(os.Interrupt, syscall.SIGTERM)
	defer stopEnds()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan struct{})
	var running atomic.Pointer[agent.Agent]
	var watching sync.WaitGroup
	watching.Go(func() { endOn(ends, ended, cancel, &running) })
	defer watching.Wait()
	defer close(ended)
	a, err := agent.New(ctx, o.Config)
	if err != nil && ctx.Err() != nil {
		env.Stderr = &impatientWriter{w: env.Stderr}
		return &exit{code: exitFailed, err: context.Cause(ctx), hint: "nothing was started"}
	}
	if err != nil {
		return notStarted(err)
	}
	running.Store(a)
	err = a.Run(ctx)
	env.Stderr = &impatientWriter{w: env.Stderr}
	if err != nil {
		return &exit{code: exitFailed, err: err}
	}
	if o.LogFormat != "json" { // whose last line has said it
		fmt.Fprintf(env.Stderr, "prober: %s\n", context.Cause(ctx))
	}
	return nil
}

// isTerminal reports whether w is a terminal, or another device that keeps nothing.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// lastWords is how long the end of the process waits for whoever reads stderr.
const lastWords = time.Second

// impatientWriter writes to w, and drops what w does not take within [lastWords], as well
// as all that follows. It is used by one goroutine.
type impatientWriter struct {
	w     io.Writer
	stuck bool
}

// Write implements [io.Writer]. It never fails.
func (i *impatientWriter) Write(p []byte) (int, error) {
	if i.stuck {
		return len(p), nil
	}
	written := make(chan struct{})
	text := bytes.Clone(p)
	go func() {
		defer close(written)
		_, _ = i.w.Write(text) // there is nowhere to tell
	}()
	select {
	case <-written:
	case <-time.After(lastWords):
		i.stuck = true
	}
	return len(p), nil
}

// notStarted is the error of an agent that was not made.
func notStarted(err error) error {
	e := &exit{code: exitUsage, err: err, hint: "nothing was started"}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "listen" {
		e.code = exitFailed
		if errors.Is(err, syscall.EADDRINUSE) {
			e.hint = "--listen names another address; with port 0 any that is free"
		}
	}
	if errors.Is(err, access.ErrExposed) {
		e.hint = "--web.config.file has TLS and credentials; --insecure-listen lets everybody read who can connect; 127.0.0.1 needs neither"
	}
	if errors.Is(err, access.ErrSocketInUse) {
		e.code, e.hint = exitFailed, "--socket names another path"
	}
	if errors.Is(err, local.ErrNeedsLinux) {
		e.hint = "a container without a command is an external target, which can be probed from every system"
	}
	return e
}

// readDev reads the flags --plugin-dev.
func (o *runOptions) readDev() error {
	o.DevPlugins = make(map[string]string, len(o.dev))
	for _, text := range o.dev {
		name, path, _ := strings.Cut(text, "=")
		if !plugin.ValidName(name) || path == "" {
			return usage("--plugin-dev demo=demo/demo.wasm", "--plugin-dev %q: want NAME=PATH", text)
		}
		if o.DevPlugins[name] != "" {
			return usage("", "--plugin-dev %s: the plugin %q is there twice", text, name)
		}
		o.DevPlugins[name] = path
	}
	return nil
}

// endOn ends the agent at the first signal, and its containers' grace at the second.
func endOn(signals <-chan os.Signal, ended <-chan struct{}, cancel context.CancelCauseFunc, running *atomic.Pointer[agent.Agent]) {
	for first := true; ; first = false {
		select {
		case s := <-signals:
			cancel(fmt.Errorf("stopped by %s", signalName(s)))
			if a := running.Load(); a != nil && !first {
				a.Kill()
			}
		case <-ended:
			return
		}
	}
}
