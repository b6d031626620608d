package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/pods/kube"
	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/pods/kube/conditions"
	"github.com/daeace23/prober/pods/kube/cri"
	"github.com/daeace23/prober/pods/kube/disruption"
	"github.com/daeace23/prober/pods/kube/liveness"
)

// nodeOptions are the flags of `prober node`.
type nodeOptions struct {
	agentOptions
	nodeName, kubeconfig, context, criSocket, leaseNamespace string

	policies bool
	section  nodeSection
}

func newNode(env *command.Env) *cobra.Command {
	var o nodeOptions
	c := &cobra.Command{
		Use:   "node --node-name NAME",
		Short: "Probe the annotated pods of a Kubernetes node",
		Long: "Probe the pods of a Kubernetes node that have the annotation prober.dev/probes, and with --policies\n" +
			"the pods that a ProbePolicy of their namespace selects, until SIGINT or SIGTERM. The kubelet runs\n" +
			"the pods. The results become conditions of the pods, such as the readiness gate prober.dev/ready,\n" +
			"and events. The section kubernetes of prober.yaml (--config) limits what pods may request.\n\n" +
			"Environment variables set every flag except --plugin-dev: PROBER_LOG_LEVEL sets --log-level, and\n" +
			"NODE_NAME sets --node-name.\n\n" +
			"Exit code 0 ended by a signal, 1 an error, 64 wrong usage or an invalid file.",
		Example: "  prober node --node-name worker-1\n" +
			"  prober node --node-name worker-1 --kubeconfig ~/.kube/config --config prober.yaml\n" +
			"  prober node --cri-socket /run/containerd/containerd.sock --lease-namespace prober",
		Args: command.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if name, ok := env.LookupEnv("NODE_NAME"); ok {
				o.nodeName = cmp.Or(o.nodeName, name)
			}
			if o.nodeName == "" {
				return command.Usage("prober node --node-name worker-1; in a pod, NODE_NAME from spec.nodeName", "node: --node-name or NODE_NAME is required")
			}
			o.Source, o.Configured = o.newPodSource, o.section.configured
			return o.run(cmd.Context(), env)
		},
	}
	o.flags(c, "folder for notifications, the history and the plugins of registries, kept over restarts of the agent")
	f := c.Flags()
	f.StringVar(&o.nodeName, "node-name", "", "name of the node, also NODE_NAME")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "file with the API server and credentials; default: the service account of this pod")
	f.StringVar(&o.context, "context", "", "context of --kubeconfig; default: its current one")
	f.StringVar(&o.criSocket, "cri-socket", "", "unix socket of the container runtime, for exec probes, restarts and faster updates of container states; default: none")
	f.BoolVar(&o.policies, "policies", false, "also make the probes of ProbePolicy objects, which prober controller gives to the nodes")
	f.StringVar(&o.leaseNamespace, "lease-namespace", "", "namespace of the lease prober-NODE, which this agent renews, and of the leases that limit restarts and evictions; default: no lease prober-NODE, and the namespace of this pod, or of the context")
	return c
}

// newPodSource is the constructor of the agent's source of pods.
func (o *nodeOptions) newPodSource(_ context.Context, host pods.Host) (pods.Source, error) {
	policy := config.DefaultKubernetes()
	if o.ConfigFile != "" {
		file, err := config.Load(o.ConfigFile)
		if err != nil {
			return pods.Source{}, err
		}
		policy = cmp.Or(file.Kubernetes, policy)
		if len(file.Targets)+len(file.Push)+len(file.Endpoints) > 0 {
			host.Logger.Warn("prober node does not probe the targets, pushes and endpoints of prober.yaml; prober run does", "file", o.ConfigFile)
		}
	}
	client, err := api.New(api.Config{
		Kubeconfig: o.kubeconfig, Context: o.context, Node: o.nodeName, UserAgent: "prober/" + o.Version, Logger: host.Logger,
	})
	if err != nil {
		return pods.Source{}, fmt.Errorf("%w: %w", errNoCluster, err)
	}
	events := api.NewRecorder(client)
	cfg := kube.Config{
		Node: o.nodeName, Pods: client.Pods(), Namespaces: client.Namespaces(), Policy: policy, Events: events, Exec: client.Exec,
		Conditions: conditions.NewWriter(conditions.Config{
			Patcher: client, Logger: host.Logger, Events: kube.Recorders{Cluster: events, Agent: host.Recorder}, DryRun: policy.DryRun, QPS: float64(policy.QPS),
		}),
	}
	actions := actionsOf(policy, client)
	if o.criSocket != "" {
		runtime, err := cri.New(cri.Config{Socket: o.criSocket, Logger: host.Logger})
		if err != nil {
			return pods.Source{}, fmt.Errorf("--cri-socket: %w", err)
		}
		cfg.Runtime, actions.Stop, actions.Exec, actions.Owner = runtime, runtime.Stop, runtime.RunInContainer, runtime.Owner
	}
	claims := disruption.New(disruption.Config{
		Cluster: client, Namespace: cmp.Or(o.leaseNamespace, client.Namespace()), Node: o.nodeName, Logger: host.Logger,
	})
	actions.Claim = claims.Claim
	cfg.Act = func(own liveness.Config) kube.Actor {
		all := actions
		all.Current, all.Party, all.Failing, all.Asked, all.Stalled = own.Current, own.Party, own.Failing, own.Asked, own.Stalled
		all.Recorder, all.Logger = own.Recorder, own.Logger
		return &actor{liveness.New(all), claims}
	}
	if o.policies {
		cfg.NodeProbes = client.NodeProbes()
	}
	if o.leaseNamespace != "" {
		cfg.RenewLease = func(ctx context.Context) error {
			return client.RenewLease(ctx, o.leaseNamespace, kube.LeaseDuration)
		}
		cfg.DropLease = func(ctx context.Context) error { return client.DropLease(ctx, o.leaseNamespace) }
	}
	o.section.start(policy, host.Logger, o.ConfigFile)
	source, err := kube.New(cfg, host)
	if err != nil {
		return pods.Source{}, err
	}
	return source.ForAgent(), nil
}

// actor is a [liveness.Actor] that respects the claims of other nodes in the cluster.
type actor struct {
	*liveness.Actor
	claims *disruption.Claims
}

// Run implements [kube.Actor].
func (a *actor) Run(ctx context.Context) {
	var claims sync.WaitGroup
	claims.Go(func() { a.claims.Run(ctx) })
	a.Actor.Run(ctx)
	claims.Wait()
}

// errNoCluster is the error of an agent without an address of an API server.
var errNoCluster = errors.New("the API server is not known")

// actionsOf returns the limits of actions of a node.
func actionsOf(policy *config.Kubernetes, client *api.Client) liveness.Config {
	breaker := policy.Breaker
	return liveness.Config{
		Evict: client.Evict, DryRun: policy.DryRun, OnFailure: liveness.OnFailurePolicy(policy.Liveness.OnFailure),
		Workload: liveness.Bucket(policy.Budgets.Workload), Node: liveness.Bucket(policy.Budgets.Node), Backoff: policy.Budgets.Backoff,
		Breaker: liveness.Breaker{
			Share: breaker.Share, Least: breaker.Least, Window: breaker.Window, Lag: breaker.Lag, Pressure: breaker.Pressure,
		},
	}
}
