package clientcmd

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/remote"
)

// newNote returns the command note.
func newNote(env *command.Env) *cobra.Command {
	var agent remote.Flags
	c := &cobra.Command{
		Use: "note INCIDENT TEXT...", Short: "Add a note to an incident",
		Long: "Note adds a note to an incident, for others who look at it: the page, describe incident and the API show\n" +
			"it. INCIDENT is an ID of get incidents. The words of TEXT are one line of at most 256 bytes.\n\n" +
			"Exit code 0, 1 if it failed, 3 if the agent does not respond, 64 wrong usage.",
		Example: "  prober note 3fa07 the switch of rack 3 is replaced at 15:00",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			id := find("incidents").withoutKindPrefix(args[0])
			return ask(cmd, env, &agent, func(ctx context.Context, c *client.Client) error {
				n, err := c.AddNote(ctx, id, strings.Join(args[1:], " "))
				if err != nil {
					return remote.Failed(err)
				}
				fmt.Fprintf(env.Stdout, "incident %s: %s\n", line(n.ID), command.Count(len(n.Notes), "note"))
				return nil
			})
		},
	}
	c.ValidArgsFunction = complete(env, &agent, find("incidents"))
	agent.Add(c)
	return c
}
