package clientcmd

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/nodes"
)

// nodeLoad is a row of top.
type nodeLoad struct {
	Probes   int        `json:"probes"`
	States   api.Counts `json:"states"`
	Problems []string   `json:"problems"` // of the agent itself, as in prober status
}

// newTop returns the command top.
func newTop(env *command.Env, of *nodes.Flags) *cobra.Command {
	g := getter{env: env, nodes: true, of: &resource{
		name: "nodes", columns: []column{{head: "PROBES"}, {head: "FAILURE"}, {head: "WARNING"}, {head: "UNKNOWN"}, {head: "PAUSED"}, {head: "PROBLEM"}},
		list: listLoad,
	}}
	c := &cobra.Command{
		Use: "top", Short: "Show the number of probes of each node by their states",
		Long: "Top shows a row for each node: the number of its probes, how many are in each state, and the first problem of\n" +
			"the agent itself, such as late probes or a refused file. -o json has all states and problems.\n\n" + nodesExit,
		Example: "  prober kubectl top\n  prober kubectl top -o json",
		Args:    command.Arguments(), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s := new(selection)
			print, err := g.printer(s)
			if err != nil {
				return err
			}
			return onFleet(cmd, env, of, false, func() (*selection, error) { return new(selection), nil }, func(ctx context.Context, f *fleet) error {
				return g.runOnNodes(ctx, f, s, print)
			})
		},
	}
	command.OutputFlag(c, &g.output, command.Table, command.JSON, command.YAML)
	return c
}

func listLoad(ctx context.Context, c *client.Client, _ *selection) ([]item, error) {
	probes, err := c.Probes(ctx, client.Filter{})
	if err != nil {
		return nil, err
	}
	plugins, err := c.Plugins(ctx)
	if err != nil {
		return nil, err
	}
	checks, err := c.Checks(ctx)
	if err != nil {
		return nil, err
	}
	load := nodeLoad{Probes: len(probes), States: make(api.Counts), Problems: troublesOf(plugins, checks)}
	for i := range probes {
		load.States[probes[i].Counted()]++
	}
	problem := ""
	if n := len(load.Problems); n > 0 {
		problem = load.Problems[0]
		if n > 1 {
			problem += fmt.Sprintf("; and %d more", n-1)
		}
	}
	cells := []string{strconv.Itoa(load.Probes)}
	for _, state := range []string{"failure", "warning", "unknown", "paused"} {
		cells = append(cells, strconv.Itoa(load.States[state]))
	}
	return []item{{name: c.Name(), object: load, cells: append(cells, problem)}}, nil
}
