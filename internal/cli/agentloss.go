package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/pods/kube/loss"
)

func newAgentLoss(env *command.Env) *cobra.Command {
	var o clusterOptions
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), env, "agent-loss", func(ctx context.Context, client *api.Client) {
				loss.New(loss.Config{Cluster: client, Namespace: o.namespace, Logger: o.Logger, DryRun: o.dryRun}).Run(ctx)
			})
		},
	}
	o.addFlags(c.Flags(), "of the leases", "only log which pods would be made unready")
	return c
}
