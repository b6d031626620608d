package clientcmd

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/remote"
)

// completionTimeout is the timeout of a request to the agent during shell completion.
const completionTimeout = time.Second

// complete returns the completion of the names of a resource, which asks the agent.
func complete(env *command.Env, agent *remote.Flags, r *resource) cobra.CompletionFunc {
	return completion(env, agent, func(ctx context.Context, c *client.Client, cmd *cobra.Command, args []string) []string {
		if r.name == "probes" && len(args) > 1 {
			return nil
		}
		return namesOf(ctx, c, r, namespaceOf(cmd), args)
	})
}

// completion returns the completion by names, which it requests from the agent.
func completion(env *command.Env, agent *remote.Flags, names func(ctx context.Context, c *client.Client, cmd *cobra.Command, args []string) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		const none = cobra.ShellCompDirectiveNoFileComp
		if env.SetFlags(cmd.Flags()) != nil {
			return nil, none
		}
		c, err := agent.Client(env)
		if err != nil {
			return nil, none
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		all := slices.DeleteFunc(names(ctx, c, cmd, args), func(n string) bool { return !strings.HasPrefix(n, word) || slices.Contains(args, n) || line(n) != n })
		slices.Sort(all)
		return slices.Compact(all), none
	}
}

// completeNamespaces registers the completion of the flag -n of cmd, if it has one.
func completeNamespaces(cmd *cobra.Command, env *command.Env, agent *remote.Flags) {
	if cmd.Flags().Lookup("namespace") == nil {
		return
	}
	_ = cmd.RegisterFlagCompletionFunc("namespace", completion(env, agent, // cannot fail: cmd has the flag
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
