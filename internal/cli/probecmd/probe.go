// Package probecmd has the commands that carry out one probe with a built-in handler, such as `prober probe
// http`. The small program prober-probe has only these commands.
package probecmd

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/oneshot"
	"github.com/daeace23/prober/internal/cli/program"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/probe"
)

// New returns the command `prober probe`, with the commands for built-in handlers and others.
func New(env *command.Env, others ...*cobra.Command) *cobra.Command {
	c := command.Folder("probe", "Carry out one probe and print its verdict", append(others, builtins(env, "prober probe")...)...)
	c.Long = "Carry out one probe and print its verdict. For scripts and exec probes, the program prober-probe has the same\n" +
		"commands for the built-in handlers. It is small, and starts in a few milliseconds."
	return c
}

// Program returns the command line of prober-probe. It has no plugins, and so takes less than a third of the
// processor time, and less than half of the memory, of prober.
func Program(env *command.Env) *cobra.Command {
	root := &cobra.Command{
		Use:   "prober-probe",
		Short: "Carry out one probe and print its verdict",
		Long: "Carry out one probe with a built-in handler of prober, and print its verdict. For scripts, exec probes\n" +
			"and Nagios: it is `prober probe` without plugins, in a small program that starts quickly.",
		Example: "  prober-probe http http://127.0.0.1:8080/healthz\n  prober-probe tcp 127.0.0.1:6379 -o nagios",
	}
	plugin := &cobra.Command{
		Use: "plugin", Hidden: true, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return command.Usage("prober probe plugin carries out plugins", "prober-probe has no plugins")
		},
	}
	return program.New(env, root, append(builtins(env, "prober-probe"), plugin)...)
}

// builtins returns the commands for the built-in handlers, below the command parent.
func builtins(env *command.Env, parent string) (all []*cobra.Command) {
	own := map[string]func(*command.Env, string) *cobra.Command{"exec": newProbeExec, "grpc": newProbeGRPC, "http": newProbeHTTP, "tcp": newProbeTCP}
	for _, b := range declared.Builtins() {
		if make, ok := own[b.Name]; ok {
			all = append(all, make(env, parent))
		} else {
			all = append(all, newProbeBuiltin(env, b.Name))
		}
	}
	return all
}

// newProbeBuiltin returns the command of a built-in handler that has no arguments of its own.
func newProbeBuiltin(env *command.Env, name string) *cobra.Command {
	o := &oneshot.Probe{Env: env, Handler: name}
	var config string
	c := &cobra.Command{
		Use:   name + " HOST:PORT [--config JSON]",
		Short: "Probe a target with the built-in handler " + name,
		Args:  command.Arguments("HOST:PORT"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.Target, err = oneshot.ParseHostPort(args[0]); err != nil {
				return err
			}
			o.Config = json.RawMessage(config)
			return runBuiltin(cmd.Context(), o, builtin.Config{})
		},
	}
	c.Flags().StringVar(&config, "config", "{}", "config of the handler, a JSON object")
	return o.Flags(c)
}

func newProbeHTTP(env *command.Env, parent string) *cobra.Command {
	o := &oneshot.Probe{Env: env, Handler: "http"}
	var (
		headers []string
		socket  string
		cfg     builtin.Config
	)
	c := &cobra.Command{
		Use:   "http URL [--header K:V]...",
		Short: "GET a URL: 200 to 299 is a Success, up to 399 a Warning",
		Example: "  " + parent + " http http://127.0.0.1:8080/healthz\n" +
			"  " + parent + " http https://shop.example.com --header Accept:text/html --timeout 500ms --explain\n" +
			"  " + parent + " http http://localhost/livez --unix-socket /run/prober/prober.sock",
		Args: command.Arguments("URL"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.Config, o.Target, err = httpAction(args[0], headers); err != nil {
				return err
			}
			o.Target.Unix = socket
			return runBuiltin(cmd.Context(), o, cfg)
		},
	}
	c.Flags().StringVar(&socket, "unix-socket", "", "path of a unix socket to connect to, instead of the host of the URL")
	c.Flags().StringArrayVar(&headers, "header", nil, "header of the request, as NAME:VALUE")
	c.Flags().BoolVar(&cfg.ShowBody, "show-output", true, "show the beginning of the body if the probe fails")
	return o.Flags(c)
}

type header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func httpAction(text string, headers []string) (config any, target probe.Target, err error) {
	hint := "an address looks like http://127.0.0.1:8080/healthz"
	if !strings.Contains(text, "://") {
		hint = "did you mean http://" + explain.OneLine(text) + "? " + hint
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, target, command.Usage(hint, "%w", err)
	}
	defaultPort, known := map[string]int{"http": 80, "https": 443}[u.Scheme]
	if !known || u.Hostname() == "" {
		return nil, target, command.Usage(hint, "%q: must be http://HOST or https://HOST", text)
	}
	target = probe.Target{Host: u.Hostname(), Port: defaultPort}
	if u.Port() != "" {
		if target.Port, err = oneshot.ParsePort(u.Port()); err != nil {
			return nil, target, command.Usage(hint, "%q: %w", text, err)
		}
	}
	list := []header{{"Host", u.Host}}
	for _, h := range headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, target, command.Usage("a header looks like Accept:text/html", "--header %q: must be NAME:VALUE", h)
		}
		if strings.EqualFold(strings.TrimSpace(name), "Host") {
			list = list[1:]
		}
		list = append(list, header{strings.TrimSpace(name), strings.TrimSpace(value)})
	}
	if password, ok := u.User.Password(); ok {
		list = append(list, header{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))})
	}
	return map[string]any{
		"scheme": strings.ToUpper(u.Scheme), "port": target.Port, "path": u.RequestURI(), "httpHeaders": list,
	}, target, nil
}

func newProbeTCP(env *command.Env, parent string) *cobra.Command {
	o := &oneshot.Probe{Env: env, Handler: "tcp"}
	return o.Flags(&cobra.Command{
		Use:   "tcp HOST:PORT",
		Short: "Connect to a port; a connection is a Success",
		Example: "  " + parent + " tcp 127.0.0.1:6379\n" +
			"  " + parent + " tcp [::1]:6379 -o nagios",
		Args: command.Arguments("HOST:PORT"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.Target, err = oneshot.ParseHostPort(args[0]); err != nil {
				return err
			}
			o.Config = map[string]any{"port": o.Target.Port}
			return runBuiltin(cmd.Context(), o, builtin.Config{})
		},
	})
}

func newProbeGRPC(env *command.Env, parent string) *cobra.Command {
	o := &oneshot.Probe{Env: env, Handler: "grpc"}
	var service string
	c := &cobra.Command{
		Use:   "grpc HOST:PORT [--service S]",
		Short: "Ask the gRPC health service; SERVING is a Success",
		Example: "  " + parent + " grpc 127.0.0.1:50051\n" +
			"  " + parent + " grpc 127.0.0.1:50051 --service shop.Orders",
		Args: command.Arguments("HOST:PORT"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.Target, err = oneshot.ParseHostPort(args[0]); err != nil {
				return err
			}
			o.Config = map[string]any{"port": o.Target.Port, "service": service}
			return runBuiltin(cmd.Context(), o, builtin.Config{})
		},
	}
	c.Flags().StringVar(&service, "service", "", "name of the service; empty means the whole server")
	return o.Flags(c)
}

func newProbeExec(env *command.Env, parent string) *cobra.Command {
	o := &oneshot.Probe{Env: env, Handler: "exec"}
	return o.Flags(&cobra.Command{
		Use:   "exec -- CMD ARG...",
		Short: "Run a command on this host; exit code 0 is a Success",
		Example: "  " + parent + " exec -- pg_isready -h 127.0.0.1\n" +
			"  " + parent + " exec --timeout 5s -o json -- sh -c 'test -e /run/ready'",
		Args: command.AtLeast("a command"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Config = map[string]any{"command": args}
			return runBuiltin(cmd.Context(), o, builtin.Config{})
		},
	})
}

// runBuiltin carries out p with the built-in handlers. It checks the config like the config of a target.
func runBuiltin(ctx context.Context, p *oneshot.Probe, cfg builtin.Config) error {
	all := declared.Builtins()
	b := all[slices.IndexFunc(all, func(b declared.Builtin) bool { return b.Name == p.Handler })]
	text, err := json.Marshal(map[string]any{b.Field: p.Config})
	if err != nil {
		return command.Usage("", "%w", err)
	}
	t, errs := declared.ParseTemplate(field.NewPath("probe"), "", probe.Readiness, text)
	if len(errs) > 0 {
		return command.Usage("", "%w", errs.ToAggregate())
	}
	p.Config = json.RawMessage(t.Probe().Config)
	cfg.Runner = &builtin.HostRunner{}
	var registry handlers.Registry
	if err := builtin.Register(&registry, cfg); err != nil {
		return command.Failed(err)
	}
	return p.Run(ctx, &registry)
}
