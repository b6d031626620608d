// Package nodes connects commands with the agents of all nodes of a cluster, through the API server's proxy of pods.
// [Flags] select the cluster and the nodes, [Cluster.Nodes] finds the agents, and [Each] asks them.
package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/agent/access"
	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/remote"
	"github.com/daeace23/prober/pods/kube/api"
)

// agentLabels select the pods of the agents, as deploy/kubernetes/base labels them.
const agentLabels = "app.kubernetes.io/name=prober,app.kubernetes.io/component=node"

// Flags are the flags that select the cluster and the nodes of a command.
type Flags struct {
	cluster   api.Config
	namespace string
	port      int
	nodes     []string
	tokenFile string
	timeout   time.Duration
	parallel  int
}

// Add adds the flags to c.
func (f *Flags) Add(c *cobra.Command) {
	flags := c.PersistentFlags()
	flags.StringVar(&f.cluster.Kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: KUBECONFIG, or ~/.kube/config)")
	flags.StringVar(&f.cluster.Context, "context", "", "context of the kubeconfig (default: its current one)")
	flags.StringVar(&f.namespace, "agent-namespace", "prober-system", "namespace of the agents")
	flags.IntVar(&f.port, "agent-port", 9876, "port of the agents' API")
	flags.StringSliceVar(&f.nodes, "node", nil, "ask only the agents of these nodes (default: all)")
	flags.StringVar(&f.tokenFile, "token-file", "", "file with the agents' token, for actions")
	flags.DurationVar(&f.timeout, "request-timeout", 10*time.Second, "timeout of all requests to one agent")
	flags.IntVar(&f.parallel, "parallel", 16, "agents that are asked at a time, at most 256")
}

// Cluster is a cluster with agents.
type Cluster struct {
	flags *Flags
	api   *api.Client
	token string
}

// Connect reads the kubeconfig and the token. It sends no request.
func (f *Flags) Connect(env *command.Env) (*Cluster, error) {
	switch {
	case f.timeout <= 0:
		return nil, command.Usage("", "--request-timeout %v: must be more than 0", f.timeout)
	case f.parallel < 1 || f.parallel > 256:
		return nil, command.Usage("", "--parallel %d: must be from 1 to 256", f.parallel)
	case f.port < 1 || f.port > 65535:
		return nil, command.Usage("", "--agent-port %d: must be from 1 to 65535", f.port)
	}
	c := &Cluster{flags: f}
	if f.tokenFile != "" {
		token, err := access.TokenFile(f.tokenFile)
		if err == nil {
			c.token, err = token.Read()
		}
		if err != nil {
			return nil, command.Usage("", "--token-file: %w", err)
		}
	}
	cfg := f.cluster
	cfg.OfUser, cfg.UserAgent = true, "kubectl-prober/"+env.Version
	var err error
	if c.api, err = api.New(cfg); err != nil {
		return nil, command.Usage("--kubeconfig names a file, --context one of its contexts", "%w", err)
	}
	return c, nil
}

// Node is a node with an agent.
type Node struct {
	Name   string
	Client *client.Client
	down   error // why its agent cannot be asked
}

// Nodes returns the selected nodes, sorted by their names. A node of --node without an agent is one that does not answer.
func (c *Cluster) Nodes(ctx context.Context) ([]Node, error) {
	pods, err := c.api.PodsWith(ctx, c.flags.namespace, agentLabels)
	if err != nil {
		return nil, failed(err, c.flags.namespace)
	}
	byName := make(map[string]*v1.Pod)
	for i := range pods {
		p := &pods[i]
		if p.Spec.NodeName != "" && (byName[p.Spec.NodeName] == nil || better(p, byName[p.Spec.NodeName])) {
			byName[p.Spec.NodeName] = p
		}
	}
	names := slices.Clone(c.flags.nodes)
	if len(names) == 0 {
		for name := range byName {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, &command.Exit{
			Code: remote.ExitUnreachable, Err: fmt.Errorf("the namespace %s has no pods of agents, with the labels %s", c.flags.namespace, agentLabels),
			Hint: "--agent-namespace names the namespace of the agents",
		}
	}
	slices.Sort(names)
	var all []Node
	for _, name := range slices.Compact(names) {
		n, err := c.node(name, byName[name])
		if err != nil {
			return nil, command.Failed(err)
		}
		all = append(all, n)
	}
	return all, nil
}

// better reports whether p replaces q as the agent of their node: while a pod is replaced, there are two.
func better(p, q *v1.Pod) bool {
	rank := func(p *v1.Pod) (r int) {
		if p.Status.Phase == v1.PodRunning {
			r++
		}
		if p.DeletionTimestamp == nil {
			r += 2
		}
		return r
	}
	return cmp.Or(cmp.Compare(rank(p), rank(q)), p.CreationTimestamp.Compare(q.CreationTimestamp.Time)) > 0
}

func (c *Cluster) node(name string, pod *v1.Pod) (Node, error) {
	switch {
	case pod == nil:
		return Without(name), nil
	case pod.Status.Phase != v1.PodRunning:
		return Node{Name: name, down: fmt.Errorf("%s: its agent %s is %s", name, pod.Name, cmp.Or(pod.Status.Phase, "not running"))}, nil
	}
	url, transport := c.api.Proxy(pod.Namespace, pod.Name, c.flags.port)
	agent, err := client.New(client.Config{
		Server: url, Name: name, Token: c.token, Transport: &proxied{next: transport, left: maxBytes},
	})
	return Node{Name: name, Client: agent}, err
}

// Without returns a node without an agent.
func Without(name string) Node {
	return Node{Name: name, down: fmt.Errorf("%s: no agent runs on the node", name)}
}

// Compare compares the names of nodes.
func Compare(a, b Node) int { return strings.Compare(a.Name, b.Name) }

// NodesOf returns the nodes that run pods with these names. It returns nil if any agent may have a name: no pod has it, or
// the user may not list pods.
func (c *Cluster) NodesOf(ctx context.Context, names [][]PodName) (map[string]bool, error) {
	if len(c.flags.nodes) > 0 {
		return nil, nil
	}
	on := make(map[string]bool)
	for _, meanings := range names {
		found := false
		for _, n := range meanings {
			pods, err := c.api.PodsNamed(ctx, n.Namespace, n.Pod)
			if errors.Is(err, api.ErrDenied) {
				return nil, nil
			}
			if err != nil {
				return nil, failed(err, n.Namespace)
			}
			for i := range pods {
				if node := pods[i].Spec.NodeName; node != "" {
					on[node], found = true, true
				}
			}
		}
		if !found {
			return nil, nil
		}
	}
	return on, nil
}

// PodName is the name of a pod; Namespace is "" for all.
type PodName struct{ Namespace, Pod string }

// failed returns the error of a list of pods, with the rule that a user without rights needs.
func failed(err error, namespace string) error {
	e := &command.Exit{Code: remote.ExitUnreachable, Err: errors.New(strings.Join(strings.Fields(err.Error()), " "))}
	if errors.Is(err, api.ErrDenied) {
		e.Code = command.ExitFailed
		e.Hint = "a Role of the namespace " + namespace + ` needs the rule {apiGroups: [""], resources: [pods], verbs: [list]}`
	}
	return e
}
