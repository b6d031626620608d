// Package sidecarcmd has the command `prober sidecar`. command.go has its flags, and bridge.go connects
// agent/sidecar to the plugins, the metrics and the log. Read command.go first.
package sidecarcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/agent/sidecar"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/regular"
)

// port is the default port, the one after the default port of `prober run`.
const port = "9877"

// The variables that the downward API sets.
const (
	probesVariable = "PROBER_PROBES"
	ipVariable     = "POD_IP"
)

type options struct {
	probes     string // path of the file; "" if the variable has the text
	ports      []string
	listen     string
	addrFile   string
	pluginDirs []string
	configFile string
	lockFile   string
	logFormat  string
	logLevel   string

	known    sidecar.Ports
	level    slog.Level
	podIP    string
	revision string
}

// New returns the command. revision is the commit of the source.
func New(env *command.Env, revision string) *cobra.Command {
	o := options{revision: revision, logFormat: "text", logLevel: "info"}
	c := &cobra.Command{
		Use:   "sidecar",
		Short: "Run the probes of this pod when the kubelet's probes request them",
		Long: "Carry out the probes of the annotation prober.dev/probes when the kubelet's own probes ask for\n" +
			"them, by GET /CONTAINER/KIND or by gRPC health with the service CONTAINER/KIND. It runs as a native\n" +
			"sidecar of the pod: an init container with restartPolicy Always.\n\n" +
			"The downward API gives it the annotation, as the file of --probes or the variable PROBER_PROBES,\n" +
			"and the address of the pod, as the variable POD_IP. POD_NAMESPACE, POD_NAME and POD_UID are optional.\n" +
			"Environment variables set the other flags: PROBER_LOG_LEVEL sets --log-level.\n\n" +
			"Exit code 0 ended by a signal, 1 an error, 64 wrong usage or an annotation that cannot be used.",
		Example: "  prober sidecar --probes /etc/podinfo/probes --plugins /plugins\n" +
			"  PROBER_PROBES='web: {readiness: {tcpSocket: {port: 8080}}}' prober sidecar --listen 127.0.0.1:9877",
		Args:              command.Arguments(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complete(env); err != nil {
				return err
			}
			return o.run(cmd.Context(), env)
		},
	}
	f := c.Flags()
	f.StringVar(&o.probes, "probes", "", "file with the annotation prober.dev/probes, read again when it changes")
	command.NotFromEnv(f.Lookup("probes"))
	f.StringSliceVar(&o.ports, "ports", nil, "names of ports that probes may use, as CONTAINER:NAME=PORT")
	f.StringVar(&o.listen, "listen", "", "address to listen on (default: port "+port+" of POD_IP); port 0 takes any")
	f.StringVar(&o.addrFile, "addr-file", "", "file to write the bound address to")
	f.StringArrayVar(&o.pluginDirs, "plugins", nil, "folder of plugins")
	f.StringVar(&o.configFile, "config", "", "the agent's file, prober.yaml")
	f.StringVar(&o.lockFile, "plugins-lock", "", "lock file of the allowed plugins, written by prober plugin lock")
	f.Var(command.OneOf(&o.logFormat, "text", "json"), "log-format", "format of the lines on stderr")
	f.Var(command.OneOf(&o.logLevel, "debug", "info", "warn", "error"), "log-level", "lowest level of the lines on stderr")
	return c
}

// complete validates the flags and fills in the defaults.
func (o *options) complete(env *command.Env) (err error) {
	o.podIP, _ = env.LookupEnv(ipVariable)
	if o.podIP != "" && net.ParseIP(o.podIP) == nil {
		return command.Usage("", "POD_IP %q: must be an IP address", o.podIP)
	}
	if o.listen == "" {
		if o.podIP == "" {
			// There is no default: listening on all addresses could expose probes to other networks.
			return command.Usage("in a pod, set POD_IP from status.podIP; elsewhere --listen 127.0.0.1:"+port, "sidecar: neither POD_IP nor --listen is set")
		}
		o.listen = net.JoinHostPort(o.podIP, port)
	}
	if _, _, err := net.SplitHostPort(o.listen); err != nil {
		return command.Usage("an address looks like 10.0.0.1:"+port, "--listen: %w", err)
	}
	o.podIP = cmp.Or(o.podIP, "127.0.0.1")
	if o.known, err = sidecar.ParsePorts(o.ports); err != nil {
		return command.Usage("a port looks like web:http=8080", "--ports: %w", err)
	}
	if err := o.level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return command.Usage("", "--log-level: %w", err)
	}
	text, _ := env.LookupEnv(probesVariable)
	switch {
	case o.probes == "" && text == "":
		return command.Usage("the downward API has metadata.annotations['prober.dev/probes'], for a file or a variable",
			"sidecar: neither --probes nor PROBER_PROBES is set")
	case o.probes != "" && text != "":
		return command.Usage("", "sidecar: --probes and PROBER_PROBES are both set")
	}
	return nil
}

// text returns a function that reads the annotation.
func (o *options) text(env *command.Env) func() (string, error) {
	if o.probes == "" {
		text, _ := env.LookupEnv(probesVariable)
		return func() (string, error) { return text, nil }
	}
	return func() (string, error) {
		data, err := regular.Read(o.probes, sidecar.MaxText)
		if err != nil {
			return "", fmt.Errorf("--probes: %w", err)
		}
		return string(data), nil
	}
}

// run serves until a signal arrives.
func (o *options) run(ctx context.Context, env *command.Env) error {
	ctx, stop := env.Interruptible(ctx)
	defer stop()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return &command.Exit{Code: command.ExitFailed, Err: err, Hint: "--listen sets another address"}
	}
	defer listener.Close()
	b, err := newBridge(ctx, o, env, listener.Addr())
	if err != nil {
		defer b.close()
		if ctx.Err() != nil {
			return &command.Exit{Code: command.ExitFailed, Err: context.Cause(ctx), Hint: "nothing was started"}
		}
		return &command.Exit{Code: command.ExitUsage, Err: err, Hint: "nothing was started"}
	}
	err = b.serve(ctx, listener, o.addrFile)
	b.close()
	if err != nil {
		return command.Failed(err)
	}
	if o.logFormat != "json" {
		fmt.Fprintf(env.Stderr, "prober: %s\n", context.Cause(ctx))
	}
	return nil
}

var errNoCommands = errors.New("prober sidecar runs no commands of probes")
