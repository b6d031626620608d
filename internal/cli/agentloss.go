package cli

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/pods/kube/loss"
)

// agentLossOptions are the flags of `prober agent-loss`.
type agentLossOptions struct {
	api.Config
	namespace string
	dryRun    bool
	logFormat string
	logLevel  string
}

func newAgentLoss(env *command.Env) *cobra.Command {
	var o agentLossOptions
	c := &cobra.Command{
		Use:   "agent-loss",
		Short: "Make pods unready when the agent of their Kubernetes node is lost",
		Long: "Make pods unready when the agent of their Kubernetes node is lost. Run one replica of it in a cluster.\n\n" +
			"It follows the leases that `prober node --lease-namespace` renews. An agent is lost when its lease\n" +
			"was not renewed for the duration of the lease. Then the condition prober.dev/ready becomes False, with\n" +
			"the reason AgentLost, for the pods of its node that have the annotation prober.dev/on-agent-loss: unready\n" +
			"and the readiness gate, if it is True. When the agent is back, it writes the condition itself.\n\n" +
			"While the API server cannot be reached, no agent counts as lost: agents cannot renew their leases then.\n" +
			"Before agents are removed for good, remove this command: all pods with the annotation would become unready.\n\n" +
			"The lease of a node that does not exist is deleted ten minutes after its agent was lost.\n\n" +
			"It may get, list, watch and delete leases in the namespace of the leases, get nodes, list pods, and patch\n" +
			"pods/status.\n\n" +
			"Exit code 0 ended by a signal, 64 wrong usage or a file that cannot be used.",
		Example:           "  prober agent-loss --lease-namespace prober-system\n  prober agent-loss --kubeconfig ~/.kube/config --lease-namespace prober-system --dry-run",
		Args:              command.Arguments(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), env) },
	}
	f := c.Flags()
	f.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: the service account of this pod)")
	f.StringVar(&o.Context, "context", "", "context of the kubeconfig (default: its current one)")
	f.StringVar(&o.namespace, "lease-namespace", "", "namespace of the leases (default: the namespace of this pod, or of the context)")
	f.BoolVar(&o.dryRun, "dry-run", false, "only log which pods would be made unready")
	o.logFormat, o.logLevel = "text", "info"
	f.Var(command.OneOf(&o.logFormat, "text", "json"), "log-format", "format of the lines on stderr")
	f.Var(command.OneOf(&o.logLevel, "debug", "info", "warn", "error"), "log-level", "lowest level of the lines on stderr")
	return c
}

// run follows leases until a signal arrives.
func (o *agentLossOptions) run(ctx context.Context, env *command.Env) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return command.Usage("", "--log-level: %w", err)
	}
	options := &slog.HandlerOptions{Level: level}
	o.Logger = slog.New(slog.NewTextHandler(env.Stderr, options))
	if o.logFormat == "json" {
		o.Logger = slog.New(slog.NewJSONHandler(env.Stderr, options))
	}
	o.UserAgent = "prober-agent-loss/" + env.Version
	client, err := api.New(o.Config)
	if err != nil {
		return command.Usage("--kubeconfig names a file, --context one of its contexts", "%w", err)
	}
	ctx, stop := env.Interruptible(ctx)
	defer stop()
	loss.New(loss.Config{
		Cluster: client, Namespace: cmp.Or(o.namespace, client.Namespace()), Logger: o.Logger, DryRun: o.dryRun,
	}).Run(ctx)
	if o.logFormat == "text" {
		fmt.Fprintf(env.Stderr, "prober: %s\n", context.Cause(ctx))
	} else {
		o.Logger.Info(context.Cause(ctx).Error())
	}
	return nil
}
