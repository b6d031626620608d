package clientcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/remote"
)

// complete returns the completion of the names of a resource, which asks the agent.
func complete(env *command.Env, agent *remote.Flags, r *resource) cobra.CompletionFunc {
	return agent.Complete(env, func(ctx context.Context, c *client.Client, cmd *cobra.Command, args []string) []string {
		return namesOf(ctx, c, cmd, r, args)
	})
}

// completeNamespaces registers the completion of the flag -n of cmd, if it has one.
func completeNamespaces(cmd *cobra.Command, env *command.Env, agent *remote.Flags) {
	if cmd.Flags().Lookup("namespace") == nil {
		return
	}
	_ = cmd.RegisterFlagCompletionFunc("namespace", agent.Complete(env, // cannot fail: cmd has the flag
		func(ctx context.Context, c *client.Client, _ *cobra.Command, _ []string) (namespaces []string) {
			pods, err := new(selection).pods(ctx, c)
			if err != nil {
				return nil
			}
			for i := range pods {
				namespaces = append(namespaces, pods[i].Namespace)
			}
			return namespaces
		}))
}

// namespaceOf returns the flag -n of cmd; "" for none.
func namespaceOf(cmd *cobra.Command) string {
	f := cmd.Flags().Lookup("namespace")
	if f == nil {
		return ""
	}
	return f.Value.String()
}

// namesOf returns the possible words after args; none if the agent does not respond. After names of probes, the
// words are also the kinds of these probes.
func namesOf(ctx context.Context, c *client.Client, cmd *cobra.Command, r *resource, args []string) (names []string) {
	namespace := client.Filter{Namespace: namespaceOf(cmd)}
	of := r
	if r.name == "events" {
		of = find("pods") // their names
	}
	items, err := of.list(ctx, c, &selection{Filter: namespace})
	if err != nil {
		return nil
	}
	for i := range items {
		if r.name != "probes" {
			names = append(names, items[i].name)
			continue
		}
		p := items[i].object.(*api.ProbeStatus)
		names = append(names, p.Pod, p.Pod+"/"+p.Container)
	}
	named := &selection{Filter: namespace}
	if r.name != "probes" || len(args) == 0 || named.probeArgs(cmd, args, false) != nil {
		return names
	}
	probes, err := named.probes(ctx, c)
	if err != nil {
		return names
	}
	for i := range probes {
		names = append(names, probes[i].Kind)
	}
	return names
}
