package clientcmd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/nodes"
)

// nodesExit is the end of the help of commands that ask all nodes.
const nodesExit = "A node that does not answer is named on stderr, and the command goes on with the others.\n\n" +
	"Exit code 0, 1 if it failed for a probe or a name, 3 if an agent does not respond,\n64 wrong usage."

// NewKubectl returns the command kubectl, whose commands ask the agents of all nodes.
func NewKubectl(env *command.Env) *cobra.Command {
	var of nodes.Flags
	c := command.Folder("kubectl", "Show and control the probes of all nodes, as a plugin of kubectl")
	c.Long = "Kubectl has the commands of `kubectl prober`, for which kubectl-prober in PATH is a link to prober. They ask\n" +
		"the agents of all nodes through the API server's proxy of pods."
	c.Example = "  prober kubectl get probes --state failure\n  kubectl prober explain shop/web"
	of.Add(c)
	command.Apart(c) // the commands for one agent have the same names
	get := command.Folder("get", "Show probes, pods, events and other objects of all nodes")
	get.Long = "Get shows the objects of the agents of all nodes, with a column or a field for the node. Lists in JSON and YAML\n" +
		"have partial: true and errors if a node does not answer.\n\n" + nodesExit
	get.Example = "  prober kubectl get probes --state failure\n  prober kubectl get probes --node worker-1 -o json"
	for _, r := range resources() {
		get.AddCommand(newGetOnNodes(env, &of, r))
	}
	c.AddCommand(get, newExplainOnNodes(env, &of), newTop(env, &of))
	for _, a := range []action{trigger, resume} {
		c.AddCommand(newActionOnNodes(env, &of, a))
	}
	c.AddCommand(newPauseOnNodes(env, &of))
	return c
}

// fleet are the nodes that a command asks, each with a selection of its own: names have meanings on each node.
type fleet struct {
	*nodes.Cluster
	all        []nodes.Node
	selections map[string]*selection // by node
}

// onFleet calls run with the nodes and a context that a signal cancels. newSelection returns a selection for a node. If
// narrow is true, only the nodes of the named pods are asked.
func onFleet(cmd *cobra.Command, env *command.Env, of *nodes.Flags, narrow bool, newSelection func() (*selection, error), run func(ctx context.Context, f *fleet) error) error {
	s, err := newSelection()
	if err != nil {
		return err
	}
	cluster, err := of.Connect(env)
	if err != nil {
		return err
	}
	ctx, stop := env.Interruptible(cmd.Context())
	defer stop()
	f := &fleet{Cluster: cluster, selections: make(map[string]*selection)}
	if f.all, err = cluster.Nodes(ctx); err != nil {
		return err
	}
	if narrow && len(s.words) > 0 {
		if err := f.narrow(ctx, s); err != nil {
			return err
		}
	}
	for _, n := range f.all {
		if f.selections[n.Name], err = newSelection(); err != nil {
			return err
		}
	}
	return run(ctx, f)
}

// narrow removes the nodes that run none of the named pods. It keeps all if a name is a pattern or no pod's.
func (f *fleet) narrow(ctx context.Context, s *selection) error {
	var names [][]nodes.PodName
	for _, w := range s.words {
		if isPattern(w.word) || len(w.readings) == 0 {
			return nil
		}
		var meanings []nodes.PodName
		for _, r := range w.readings {
			meanings = append(meanings, nodes.PodName{Namespace: r.Namespace, Pod: r.Pod})
		}
		names = append(names, meanings)
	}
	on, err := f.NodesOf(ctx, names)
	if err != nil || on == nil {
		return err
	}
	f.all = slices.DeleteFunc(f.all, func(n nodes.Node) bool {
		kept := on[n.Name]
		delete(on, n.Name)
		return !kept
	})
	for name := range on {
		f.all = append(f.all, nodes.Without(name))
	}
	slices.SortFunc(f.all, nodes.Compare)
	return nil
}

// eachNode calls ask for each node with its selection. A wrong usage, such as an ambiguous name, ends the command.
func eachNode[T any](ctx context.Context, f *fleet, ask func(ctx context.Context, c *client.Client, s *selection) (T, error)) ([]nodes.Answer[T], error) {
	answers := nodes.Each(ctx, f.Cluster, f.all, func(ctx context.Context, n nodes.Node) (T, error) {
		return ask(ctx, n.Client, f.selections[n.Name])
	})
	if ctx.Err() != nil {
		return nil, command.Failed(context.Cause(ctx))
	}
	for _, a := range answers {
		if e, ok := errors.AsType[*command.Exit](a.Err); ok {
			return nil, e
		}
	}
	return answers, f.oneMeaning()
}

// oneMeaning returns an error if a name has different meanings on two nodes.
func (f *fleet) oneMeaning() error {
	first := make(map[int]client.Filter)
	for _, n := range f.all {
		for i, w := range f.selections[n.Name].words {
			if !w.exists || w.target != nil || len(w.chosen) != 1 {
				continue
			}
			if before, ok := first[i]; ok && before != w.chosen[0] {
				return ambiguous(w.word, []string{filterText(before), filterText(w.chosen[0])}, "name it with its namespace, as NAMESPACE/POD/CONTAINER KIND, or with -n")
			}
			first[i] = w.chosen[0]
		}
	}
	return nil
}

func filterText(f client.Filter) string {
	text := "pod " + line(f.Pod)
	if f.Container != "" {
		text += ", container " + line(f.Container)
	}
	if f.Namespace != "" {
		text = "namespace " + line(f.Namespace) + ", " + text
	}
	return text
}

// missing returns the errors of the names of probes that no node has.
func (f *fleet) missing() *missing {
	m := &missing{hint: "prober kubectl get probes lists them"}
	if len(f.all) == 0 {
		return m
	}
	for i, w := range f.selections[f.all[0].Name].words {
		if !slices.ContainsFunc(f.all, func(n nodes.Node) bool { return f.selections[n.Name].words[i].exists }) {
			m.errs = append(m.errs, fmt.Errorf("no probe of %s", w.text(f.selections[f.all[0].Name])))
		}
	}
	return m
}

// end returns the error of a command from the errors of names and the nodes without an answer, whose exit code is first.
func end[T any](f *fleet, answers []nodes.Answer[T], absent *missing) error {
	named, partial := absent.exit(), nodes.Partial(f.Cluster, answers)
	if e, ok := errors.AsType[*command.Exit](named); ok {
		e.Hint = absent.hint // not the one for --server
	}
	e, ok := errors.AsType[*command.Exit](partial)
	if !ok {
		return named
	}
	if named != nil {
		e.Err = errors.Join(named, e.Err)
	}
	return e
}

// onNode is an object with its node. Its JSON is the object's, after the field node.
type onNode struct {
	node   string
	object any
}

// MarshalJSON implements [json.Marshaler].
func (o onNode) MarshalJSON() ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // as the encoder of -o json
	if err := e.Encode(o.object); err != nil {
		return nil, err
	}
	name, err := json.Marshal(o.node)
	if err != nil {
		return nil, err
	}
	fields := bytes.TrimSpace(text.Bytes())[1:] // after the brace
	if !bytes.HasPrefix(fields, []byte("}")) {
		name = append(name, ',')
	}
	return slices.Concat([]byte(`{"node":`), name, fields), nil
}

func newGetOnNodes(env *command.Env, of *nodes.Flags, r *resource) *cobra.Command {
	g := getter{env: env, of: r, nodes: true}
	var flags selectionFlags
	c := g.command(&flags, func(cmd *cobra.Command, args []string, s *selection, print printer) error {
		return onFleet(cmd, env, of, false, func() (*selection, error) { return flags.selectionOf(r, args) }, func(ctx context.Context, f *fleet) error {
			return g.runOnNodes(ctx, f, s, print)
		})
	})
	c.Example = "  prober kubectl get " + r.name + "\n  prober kubectl get " + r.name + " --node worker-1 -o json"
	c.ValidArgsFunction = cobra.NoFileCompletions
	return c
}

func (g *getter) runOnNodes(ctx context.Context, f *fleet, s *selection, print printer) error {
	answers, err := eachNode(ctx, f, g.of.list)
	if err != nil {
		return err
	}
	var items []item
	for _, a := range answers {
		if a.Err != nil {
			continue
		}
		for _, w := range f.selections[a.Node.Name].warnings {
			g.env.Warn("%s: %s", line(a.Node.Name), line(w))
		}
		for i := range a.Value {
			a.Value[i].node = a.Node.Name
		}
		items = append(items, a.Value...)
	}
	g.failures = nodes.Failures(answers)
	absent := f.missing()
	if g.of.name != "probes" {
		absent = &missing{hint: "prober kubectl get " + g.of.name + " lists them"}
		for _, n := range s.names {
			if g.of.name != "events" && !slices.ContainsFunc(items, func(i item) bool { return n.selects(append(i.also, i.name)...) }) {
				absent.errs = append(absent.errs, fmt.Errorf("%s not found: %s", g.of.name, line(n.word)))
			}
		}
	}
	if err := g.show(items, absent, print); err != nil {
		return err
	}
	return end(f, answers, absent)
}

// newOnNodes returns a command about the named probes of all nodes.
func newOnNodes(env *command.Env, of *nodes.Flags, c *cobra.Command, kind string, run func(ctx context.Context, f *fleet) error) *cobra.Command {
	flags := selectionFlags{kind: kind}
	c.Long += "\n\nOnly the nodes of the named pods are asked, which the API server knows. " + nodesExit + "\n\n" + probeNames
	c.Use += " NAME... [KIND]"
	c.Args, c.ValidArgsFunction = cobra.ArbitraryArgs, cobra.NoFileCompletions
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return onFleet(cmd, env, of, true, func() (*selection, error) { return flags.someOf(args) }, run)
	}
	flags.addSome(c)
	if kind == "" {
		flags.addKind(c)
	}
	return c
}

func newExplainOnNodes(env *command.Env, of *nodes.Flags) *cobra.Command {
	var output string
	c := newOnNodes(env, of, &cobra.Command{
		Use: "explain", Short: "Show why probes of the nodes have their results",
		Long:    "Explain shows for each probe one sentence: why its last tick did or did not change its result, and\nwhat happens next, as prober explain does.",
		Example: "  prober kubectl explain shop/web readiness\n  prober kubectl explain -l app=shop --state failure -o json",
	}, "", func(ctx context.Context, f *fleet) error { return explainOnNodes(ctx, env, f, output) })
	command.OutputFlag(c, &output, command.Table, command.JSON, command.YAML)
	return c
}

func explainOnNodes(ctx context.Context, env *command.Env, f *fleet, output string) error {
	answers, err := eachNode(ctx, f, func(ctx context.Context, c *client.Client, s *selection) ([]explanation, error) {
		probes, err := s.probes(ctx, c)
		if err != nil {
			return nil, err
		}
		return explanations(ctx, c, probes)
	})
	if err != nil {
		return err
	}
	list := struct {
		Items   []any           `json:"items"`
		Partial bool            `json:"partial,omitzero"`
		Errors  []nodes.Failure `json:"errors,omitzero"`
	}{Items: []any{}, Errors: nodes.Failures(answers)}
	list.Partial = len(list.Errors) > 0
	for _, a := range answers {
		for i := range a.Value {
			x := &a.Value[i]
			list.Items = append(list.Items, onNode{a.Node.Name, x})
			if output != command.Table {
				continue
			}
			if len(list.Items) > 1 {
				fmt.Fprintln(env.Stdout)
			}
			fmt.Fprintf(env.Stdout, "Node %s: ", line(a.Node.Name))
			if err := errors.Join(writeExplanation(env.Stdout, &x.Explanation, command.IsTerminal(env.Stdout)), writeDurations(env.Stdout, x.Durations)); err != nil {
				return err
			}
		}
	}
	if output != command.Table {
		if err := env.Encode(output, list); err != nil {
			return err
		}
	}
	return end(f, answers, f.missingOrNone(len(list.Items)))
}

// missingOrNone is like [fleet.missing], with an error if n, the number of selected probes, is 0.
func (f *fleet) missingOrNone(n int) *missing {
	m := f.missing()
	if n == 0 && len(m.errs) == 0 && len(f.all) > 0 {
		m.errs = append(m.errs, fmt.Errorf("no probe of %s", f.selections[f.all[0].Name]))
	}
	return m
}

func newActionOnNodes(env *command.Env, of *nodes.Flags, a action) *cobra.Command {
	dryRun := false
	c := newOnNodes(env, of, &cobra.Command{
		Use: a.name, Short: a.short + ", on the nodes", Long: a.long + " It prints a line for each probe.\n\nActions need --token-file.",
		Example: fmt.Sprintf("  prober kubectl %s shop/web readiness --token-file token\n  prober kubectl %[1]s -n prod -l app=shop --dry-run", a.name),
	}, a.kind, func(ctx context.Context, f *fleet) error { return actOnNodes(ctx, env, f, a, dryRun) })
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only print the selected probes")
	return c
}

// done is what an agent has done.
type done struct {
	probes []api.ProbeStatus
	errs   []error
}

// actOnNodes first resolves the names on all nodes, so that an ambiguous name changes no probe.
func actOnNodes(ctx context.Context, env *command.Env, f *fleet, a action, dryRun bool) error {
	selected, err := eachNode(ctx, f, func(ctx context.Context, c *client.Client, s *selection) ([]api.ProbeStatus, error) {
		return s.probes(ctx, c)
	})
	if err != nil {
		return err
	}
	probes, n := make(map[string][]api.ProbeStatus), 0
	for _, x := range selected {
		probes[x.Node.Name], n = x.Value, n+len(x.Value)
	}
	answered := slices.DeleteFunc(slices.Clone(f.all), func(n nodes.Node) bool { return len(probes[n.Name]) == 0 })
	absent := f.missingOrNone(n)
	acted := nodes.Each(ctx, f.Cluster, answered, func(ctx context.Context, n nodes.Node) (d done, _ error) {
		for _, p := range probes[n.Name] {
			if !dryRun {
				if _, err := a.do(n.Client, ctx, filterFor(&p)); err != nil {
					d.errs = append(d.errs, err)
					continue
				}
			}
			d.probes = append(d.probes, p)
		}
		return d, nil
	})
	suffix := ""
	if dryRun {
		suffix = " (dry run)"
	}
	if len(absent.errs) == 0 {
		absent.hint = ""
	}
	for _, x := range acted {
		for i := range x.Value.probes {
			fmt.Fprintf(env.Stdout, "%s: %s %s%s\n", line(x.Node.Name), line(nameOf(&x.Value.probes[i])), a.done, suffix)
		}
		if x.Err != nil { // a signal
			absent.errs = append(absent.errs, fmt.Errorf("%s: %w", x.Node.Name, x.Err))
		}
		for _, err := range x.Value.errs {
			absent.errs, absent.hint = append(absent.errs, err), cmp.Or(absent.hint, f.Hint(err))
		}
	}
	return end(f, selected, absent)
}
