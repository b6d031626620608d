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

// completionTimeout is how long a shell waits for an agent.
const completionTimeout = time.Second

// complete returns the completion of the names of a resource, which asks the agent.
func complete(env *command.Env, agent *remote.Flags, r *resource) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		const none = cobra.ShellCompDirectiveNoFileComp
		if r.name == "probes" && len(args) > 1 || env.SetFlags(cmd.Flags()) != nil {
			return nil, none
		}
		c, err := agent.Client(env)
		if err != nil {
			return nil, none
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		names := namesOf(ctx, c, r, args)
		names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, word) || slices.Contains(args, n) || line(n) != n })
		slices.Sort(names)
		return slices.Compact(names), none
	}
}

// namesOf returns the words that may come after args; none if the agent does not respond.
func namesOf(ctx context.Context, c *client.Client, r *resource, args []string) (names []string) {
	s := new(selection)
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
