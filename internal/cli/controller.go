package cli

import (
	"context"
	"crypto/rand"
	"os"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/pods/kube/controller"
)

func newController(env *command.Env) *cobra.Command {
	var o clusterOptions
	qps := controller.DefaultQPS
	c := &cobra.Command{
		Use:   "controller",
		Short: "Give ProbePolicy objects to the nodes of a Kubernetes cluster",
		Long: "Give the ProbePolicy objects of a Kubernetes cluster to its nodes, and write their status. Run two replicas of\n" +
			"it in a cluster: the holder of the lease prober-controller writes, and the other one waits.\n\n" +
			"It writes a NodeProbes object for each node that has a pod that a valid policy selects. The agents of the\n" +
			"nodes, `prober node --policies`, read these objects. While it does not run, they keep what they have, also\n" +
			"for new pods of known policies.\n\n" +
			"A NodeProbes has policies of at most 512 KiB, the oldest first. Nothing is written while pods, policies or\n" +
			"NodeProbes cannot be watched.\n\n" +
			"It may list and watch pods, probepolicies and nodeprobes, create, update and delete nodeprobes, patch\n" +
			"probepolicies/status, and get, create and update leases in the namespace of the lease.\n\n" +
			"Exit code 0 ended by a signal, 64 wrong usage or a file that cannot be used.",
		Example:           "  prober controller --lease-namespace prober-system\n  prober controller --kubeconfig ~/.kube/config --dry-run",
		Args:              command.Arguments(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if qps < 1 {
				return command.Usage("", "--qps %d: must be at least 1", qps)
			}
			return o.run(cmd.Context(), env, "controller", func(ctx context.Context, client *api.Client) {
				controller.New(controller.Config{
					Cluster: client, Namespace: o.namespace, Identity: identity(), QPS: qps, Logger: o.Logger, DryRun: o.dryRun,
				}).Run(ctx)
			})
		},
	}
	f := c.Flags()
	o.addFlags(f, "of the lease", "only log what would be written, without the lease")
	f.IntVar(&qps, "qps", qps, "most writes a second")
	return c
}

// identity returns a name for this process, which no other process has: the name of its pod, and random text.
func identity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + "_" + rand.Text()
}
