package cli

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/pods/kube/api"
)

// clusterOptions are the flags of commands that run once for a cluster.
type clusterOptions struct {
	api.Config
	namespace string // of leases
	dryRun    bool
	logFormat string
	logLevel  string
}

// addFlags adds the flags. namespace says whose --lease-namespace is, and dryRun what --dry-run does.
func (o *clusterOptions) addFlags(f *pflag.FlagSet, namespace, dryRun string) {
	f.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: the service account of this pod)")
	f.StringVar(&o.Context, "context", "", "context of the kubeconfig (default: its current one)")
	f.StringVar(&o.namespace, "lease-namespace", "", "namespace "+namespace+" (default: the namespace of this pod, or of the context)")
	f.BoolVar(&o.dryRun, "dry-run", false, dryRun)
	o.logFormat, o.logLevel = "text", "info"
	f.Var(command.OneOf(&o.logFormat, "text", "json"), "log-format", "format of the lines on stderr")
	f.Var(command.OneOf(&o.logLevel, "debug", "info", "warn", "error"), "log-level", "lowest level of the lines on stderr")
}

// run connects to the cluster, and calls work with a context that a signal ends. It sets the logger and the namespace.
func (o *clusterOptions) run(ctx context.Context, env *command.Env, name string, work func(context.Context, *api.Client)) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return command.Usage("", "--log-level: %w", err)
	}
	options := &slog.HandlerOptions{Level: level}
	o.Logger = slog.New(slog.NewTextHandler(env.Stderr, options))
	if o.logFormat == "json" {
		o.Logger = slog.New(slog.NewJSONHandler(env.Stderr, options))
	}
	o.UserAgent = "prober-" + name + "/" + env.Version
	client, err := api.New(o.Config)
	if err != nil {
		return command.Usage("--kubeconfig names a file, --context one of its contexts", "%w", err)
	}
	o.namespace = cmp.Or(o.namespace, client.Namespace())
	ctx, stop := env.Interruptible(ctx)
	defer stop()
	work(ctx, client)
	if o.logFormat == "text" {
		fmt.Fprintf(env.Stderr, "prober: %s\n", context.Cause(ctx))
	} else {
		o.Logger.Info(context.Cause(ctx).Error())
	}
	return nil
}
