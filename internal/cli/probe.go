package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest"
	"github.com/daeace23/prober/probe"
)

// oneShot is one probe that is carried out once, from the command line.
type oneShot struct {
	env       *Env
	timeout   time.Duration
	output    string
	noHeaders bool
	explain   bool
	showBody  bool // of a failed HTTP probe

	handler string
	config  any // of the handler; as JSON
	target  probe.Target
	secrets manager.Secrets

	// Of a plugin.
	grants   []plugin.Grant
	module   string               // its path
	recorder *plugintest.Recorder // nil when nobody asked

	stopped bool // by a signal, before its end
}

func newProbe(env *Env) *cobra.Command {
	return folder("probe", "Carry out one probe and tell its verdict",
		newProbeHTTP(env), newProbeTCP(env), newProbeGRPC(env), newProbeExec(env), newProbePlugin(env))
}

// flags adds the flags that all one-shot probes have.
func (o *oneShot) flags(c *cobra.Command) *cobra.Command {
	c.Long = c.Short + ".\n\nExit code 0 Success, 1 Warning, 2 Failure, 3 Unknown, 64 wrong usage."
	c.Flags().DurationVar(&o.timeout, "timeout", time.Second, "of each attempt")
	c.Flags().BoolVar(&o.explain, "explain", false, "show on stderr what happens inside each attempt")
	c.Flags().BoolVar(&o.noHeaders, "no-headers", false, "leave the headers of the table out")
	outputFlag(c, &o.output, formatTable, formatJSON, formatYAML, formatNagios)
	return c
}

func newProbeHTTP(env *Env) *cobra.Command {
	o := &oneShot{env: env, handler: "http"}
	var headers []string
	c := &cobra.Command{
		Use:   "http URL [--header K:V]...",
		Short: "GET a URL; a status from 200 to 299 is a Success, up to 399 a Warning",
		Example: "  prober probe http http://127.0.0.1:8080/healthz\n" +
			"  prober probe http https://shop.example.com --header Accept:text/html --timeout 500ms --explain",
		Args: arguments("URL"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.config, o.target, err = httpAction(args[0], headers); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	c.Flags().StringArrayVar(&headers, "header", nil, "header of the request, as NAME:VALUE")
	c.Flags().BoolVar(&o.showBody, "show-output", true, "show the beginning of the body where the probe fails")
	return o.flags(c)
}

type header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func httpAction(text string, headers []string) (config any, target probe.Target, err error) {
	const hint = "an address looks like http://127.0.0.1:8080/healthz"
	u, err := url.Parse(text)
	if err != nil {
		return nil, target, usage(hint, "%w", err)
	}
	defaultPort, known := map[string]int{"http": 80, "https": 443}[u.Scheme]
	if !known || u.Hostname() == "" {
		return nil, target, usage(hint, "%q: want http://HOST or https://HOST", text)
	}
	target = probe.Target{Host: u.Hostname(), Port: defaultPort}
	if u.Port() != "" {
		if target.Port, err = port(u.Port()); err != nil {
			return nil, target, usage(hint, "%q: %w", text, err)
		}
	}
	list := []header{{"Host", u.Host}}
	for _, h := range headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, target, usage("a header looks like Accept:text/html", "--header %q: want NAME:VALUE", h)
		}
		if strings.EqualFold(strings.TrimSpace(name), "Host") {
			list = list[1:]
		}
		list = append(list, header{strings.TrimSpace(name), strings.TrimSpace(value)})
	}
	if password, ok := u.User.Password(); ok {
		list = append(list, header{"Authorization", basicAuth(u.User.Username(), password)})
	}
	return map[string]any{
		"scheme": strings.ToUpper(u.Scheme), "port": target.Port, "path": u.RequestURI(), "httpHeaders": list,
	}, target, nil
}

func newProbeTCP(env *Env) *cobra.Command {
	o := &oneShot{env: env, handler: "tcp"}
	return o.flags(&cobra.Command{
		Use:   "tcp HOST:PORT",
		Short: "Connect to a port; a connection is a Success",
		Example: "  prober probe tcp 127.0.0.1:6379\n" +
			"  prober probe tcp [::1]:6379 -o nagios",
		Args: arguments("HOST:PORT"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.target, err = hostPort(args[0]); err != nil {
				return err
			}
			o.config = map[string]any{"port": o.target.Port}
			return o.run(cmd.Context())
		},
	})
}

func newProbeGRPC(env *Env) *cobra.Command {
	o := &oneShot{env: env, handler: "grpc"}
	var service string
	c := &cobra.Command{
		Use:   "grpc HOST:PORT [--service S]",
		Short: "Ask the gRPC health service; SERVING is a Success",
		Example: "  prober probe grpc 127.0.0.1:50051\n" +
			"  prober probe grpc 127.0.0.1:50051 --service shop.Orders",
		Args: arguments("HOST:PORT"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.target, err = hostPort(args[0]); err != nil {
				return err
			}
			o.config = map[string]any{"port": o.target.Port, "service": service}
			return o.run(cmd.Context())
		},
	}
	c.Flags().StringVar(&service, "service", "", "name of the service to ask for; empty asks for the server as a whole")
	return o.flags(c)
}

func newProbeExec(env *Env) *cobra.Command {
	o := &oneShot{env: env, handler: "exec"}
	return o.flags(&cobra.Command{
		Use:   "exec -- CMD ARG...",
		Short: "Run a command on this host; exit code 0 is a Success",
		Example: "  prober probe exec -- pg_isready -h 127.0.0.1\n" +
			"  prober probe exec --timeout 5s -o json -- sh -c 'test -e /run/ready'",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("usage: "+cmd.UseLine(), "%s: a command is required", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.config = map[string]any{"command": args}
			return o.run(cmd.Context())
		},
	})
}

// pluginTarget reads HOST:PORT or unix:PATH.
func pluginTarget(text string) (probe.Target, error) {
	if path, ok := strings.CutPrefix(text, "unix:"); ok && path != "" {
		return probe.Target{Unix: path}, nil
	}
	return hostPort(text)
}

// hostPort reads HOST:PORT.
func hostPort(text string) (probe.Target, error) {
	const hint = "a target looks like 127.0.0.1:6379, or [::1]:6379"
	host, number, err := net.SplitHostPort(text)
	if err != nil || host == "" {
		return probe.Target{}, usage(hint, "%q: want HOST:PORT", text)
	}
	p, err := port(number)
	if err != nil {
		return probe.Target{}, usage(hint, "%q: %w", text, err)
	}
	return probe.Target{Host: host, Port: p}, nil
}

func port(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 65535 {
		return 0, fmt.Errorf("port %q: want a number from 1 to 65535", text)
	}
	return n, nil
}

// run carries the probe out with the built-in handlers and prints the verdict.
func (o *oneShot) run(ctx context.Context) error {
	var registry handlers.Registry
	if err := builtin.Register(&registry, builtin.Config{Runner: &builtin.HostRunner{}, ShowBody: o.showBody}); err != nil {
		return &exit{code: exitFailed, err: err}
	}
	return o.runWith(ctx, &registry)
}

func (o *oneShot) runWith(ctx context.Context, registry *handlers.Registry) error {
	if o.timeout <= 0 {
		return usage("", "--timeout %s: must be above 0", o.timeout)
	}
	config, err := json.Marshal(o.config)
	if err != nil {
		return usage("", "%w", err)
	}
	handler, err := registry.Prepare(o.handler, config, o.target)
	if err != nil {
		return usage("", "%w", o.secrets.Error(err))
	}
	if o.recorder != nil {
		handler = recording{handler, o.recorder, config, o.grants}
	}
	handler = o.secrets.Handler(handler)
	ctx, stop := o.env.interruptible(ctx)
	defer stop()
	v, err := o.attempts(ctx, handler)
	if err := v.print(o.env, o.output, !o.noHeaders); err != nil {
		return &exit{code: exitFailed, err: err}
	}
	return &exit{code: v.Result.ExitCode(), err: err}
}

// attempts asks handler as a worker's tick does: again after an error, and with a
// fresh timeout each time.
func (o *oneShot) attempts(ctx context.Context, handler probe.Handler) (*verdict, error) {
	req := o.request()
	var (
		outcome probe.Outcome
		err     error
		start   = time.Now()
		e       = explanation{on: o.explain, out: o.env.Stderr}
	)
	for req.Attempt < probe.MaxAttempts {
		req.Attempt++
		req.Trace = e.begin(req.Attempt)
		outcome, err = once(ctx, handler, req)
		e.end(outcome, err)
		if err == nil || ctx.Err() != nil || errors.Is(err, probe.ErrNoSlot) {
			break
		}
	}
	v := &verdict{
		Result: outcome.Result, Output: outcome.Output, Metrics: outcome.Metrics, Attempts: req.Attempt,
		DurationSeconds: time.Since(start).Seconds(), handler: o.handler,
	}
	if outcome.Details != "" {
		v.Details = json.RawMessage(outcome.Details)
	}
	if o.stopped = ctx.Err() != nil; o.stopped {
		v.Result, err = probe.Unknown, context.Cause(ctx)
	}
	if err != nil {
		v.Result, v.Error = probe.Unknown, err.Error()
	}
	return v, err
}

// request is what the handler is asked.
func (o *oneShot) request() probe.Request {
	return probe.Request{
		Kind: probe.Readiness, Target: o.target, PodIP: o.target.Host,
		Spec: probe.Spec{Timeout: o.timeout, Period: 10 * time.Second, SuccessThreshold: 1, FailureThreshold: 1},
		Pod:  &probe.Pod{}, Container: &probe.Container{},
	}
}

// once makes one attempt under its own deadline.
func once(ctx context.Context, handler probe.Handler, req probe.Request) (probe.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, req.Spec.Timeout)
	defer cancel()
	return worker.Attempt(ctx, handler, req)
}
