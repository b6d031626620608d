package clientcmd

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/remote"
)

// complete returns the completion of the names of a resource, which asks the agent.
func complete(env *command.Env, agent *remote.Flags, r *resource) cobra.CompletionFunc {
	return agent.Complete(env, func(ctx context.Context, c *client.Client, cmd *cobra.Command, args []string) []string {
		if r.name == "probes" && len(args) > 1 {
			return nil
		}
		return namesOf(ctx, c, r, namespaceOf(cmd), args)
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

// namesOf returns the possible words after args; none if the agent does not respond.
func namesOf(ctx context.Context, c *client.Client, r *resource, namespace string, args []string) (names []string) {
	s := &selection{Filter: client.Filter{Namespace: namespace}}
	if r.name == "probes" && s.probeArgs(args) != nil {
		return nil
	}
	of := r
	if r.name == "events" {
		of = find("pods") // their names
	}
	items, err := of.list(ctx, c, s)
	if err != nil {
		return nil
	}
	for i := range items {
		switch {
		case r.name != "probes":
			names = append(names, items[i].name)
		case len(args) == 0:
			pod, rest, _ := strings.Cut(items[i].name, "/")
			container, _, _ := strings.Cut(rest, "/")
			names = append(names, pod, pod+"/"+container)
		default:
			names = append(names, items[i].name[strings.LastIndexByte(items[i].name, '/')+1:])
		}
	}
	return names
}
