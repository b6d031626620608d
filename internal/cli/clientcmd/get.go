package clientcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/jsonpath"

	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/nodes"
	"github.com/daeace23/prober/internal/cli/remote"
)

// The formats that only get has.
const (
	wide     = "wide"
	name     = "name"
	jsonPath = "jsonpath="
)

// newGet returns the command get, with a subcommand for each kind of objects.
func newGet(env *command.Env) *cobra.Command {
	var agent remote.Flags
	get := command.Folder("get", "Show probes, pods, events and other objects of a running agent")
	get.Long = "Get shows the objects of a running agent, in tables like kubectl's, or as JSON or YAML.\n\n" +
		"Exit code 0, 1 if an object was not found, 3 if the agent does not respond, 64 wrong usage."
	get.Example = "  prober get probes --state failure\n  prober get events -w"
	agent.Add(get)
	for _, r := range resources() {
		get.AddCommand(newGetOne(env, &agent, r))
	}
	return get
}

// getter carries out one get.
type getter struct {
	env       *command.Env
	of        *resource
	output    string
	noHeaders bool
	watch     bool
	nodes     bool            // the items come from several nodes
	failures  []nodes.Failure // of nodes without an answer
}

func newGetOne(env *command.Env, agent *remote.Flags, r *resource) *cobra.Command {
	g := getter{env: env, of: r}
	var flags selectionFlags
	c := g.command(&flags, func(cmd *cobra.Command, _ []string, s *selection, print printer) error {
		return ask(cmd, env, agent, func(ctx context.Context, c *client.Client) error { return g.run(ctx, c, s, print) })
	})
	c.ValidArgsFunction = complete(env, agent, r)
	completeNamespaces(c, env, agent)
	if r.event != "" || r.every != 0 {
		c.Flags().BoolVarP(&g.watch, "watch", "w", false, "show changes until interrupted")
	}
	return c
}

// command returns a command for the resource of g, which calls run with the selection of the command line.
func (g *getter) command(flags *selectionFlags, run func(cmd *cobra.Command, args []string, s *selection, print printer) error) *cobra.Command {
	r := g.of
	c := &cobra.Command{
		Use: r.name + " " + r.args, Aliases: r.aliases, Short: r.short, Example: r.example,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := flags.selectionOf(r, args)
			if err != nil {
				return err
			}
			print, err := g.printer(s)
			if err != nil {
				return command.Usage(command.Line(cmd, args, "output", jsonPath+"{.items[0]}"), "-o jsonpath: %w", err)
			}
			return run(cmd, args, s, print)
		},
	}
	flags.add(c, r)
	c.Flags().BoolVar(&g.noHeaders, "no-headers", false, "omit the headers of the table")
	c.Flags().VarP(format{&g.output}, "output", "o", "format of the output")
	return c
}

// format is the flag -o of get.
type format struct{ value *string }

var formats = []string{command.Table, wide, command.JSON, command.YAML, name}

func (f format) String() string { return *f.value }
func (f format) Type() string   { return strings.Join(formats, "|") + "|jsonpath=TEMPLATE" }

// Words returns the known words.
func (f format) Words() []string { return formats }

// Set implements [pflag.Value].
func (f format) Set(s string) error {
	if !slices.Contains(formats, s) && !strings.HasPrefix(s, jsonPath) {
		return fmt.Errorf("unknown format %q; known: %s, jsonpath=TEMPLATE", s, strings.Join(formats, ", "))
	}
	*f.value = s
	return nil
}

// printer writes items. The first call writes the header of a table.
type printer func(items []item) error

// printer returns the printer for the items of s in the selected format. An error is about the template.
func (g *getter) printer(s *selection) (printer, error) {
	template, isPath := strings.CutPrefix(g.output, jsonPath)
	switch {
	case isPath:
		path := jsonpath.New("output").AllowMissingKeys(true)
		if err := path.Parse(template); err != nil {
			return nil, err
		}
		return func(items []item) error { return g.writePath(path, items) }, nil
	case g.output == command.JSON || g.output == command.YAML:
		return g.encode, nil
	case g.output == name:
		return func(items []item) error {
			for _, i := range items {
				fmt.Fprintln(g.env.Stdout, line(strings.TrimSuffix(g.of.name, "s")+"/"+i.name))
			}
			return nil
		}, nil
	default:
		t := newTable(g.env, g.of, g.output == wide, s.Namespace == "")
		t.nodes = g.nodes
		headers := !g.noHeaders
		return func(items []item) error {
			if len(items) == 0 {
				return nil
			}
			err := t.write(headers, items)
			headers = false
			return err
		}, nil
	}
}

// list returns the items in the form of the API's list.
func (g *getter) list(items []item) any {
	objects := make([]any, len(items))
	for i := range items {
		objects[i] = items[i].object
		if g.nodes {
			objects[i] = onNode{items[i].node, items[i].object}
		}
	}
	return struct {
		listHead
		Items   []any           `json:"items"`
		Partial bool            `json:"partial,omitzero"`
		Errors  []nodes.Failure `json:"errors,omitzero"`
	}{g.of.head, objects, len(g.failures) > 0, g.failures}
}

func (g *getter) encode(items []item) error { return g.env.Encode(g.output, g.list(items)) }

func (g *getter) writePath(path *jsonpath.JSONPath, items []item) error {
	text, err := json.Marshal(g.list(items))
	if err != nil {
		return command.Failed(err)
	}
	var list any
	if err := utiljson.Unmarshal(text, &list); err != nil { // integers as int64, which kubectl's filters compare
		return command.Failed(err)
	}
	if err := path.Execute(g.env.Stdout, list); err != nil {
		return command.Failed(fmt.Errorf("-o jsonpath: %w", err))
	}
	_, err = io.WriteString(g.env.Stdout, "\n")
	return err
}

func (g *getter) run(ctx context.Context, c *client.Client, s *selection, print printer) error {
	if g.watch && g.of.every != 0 {
		return g.poll(ctx, c, s, print)
	}
	if g.watch {
		return g.follow(ctx, c, s, print)
	}
	items, err := g.of.list(ctx, c, s)
	if err != nil {
		return remote.Failed(err)
	}
	for _, w := range s.warnings {
		g.env.Warn("%s", line(w))
	}
	absent := g.missing(ctx, c, s, items)
	if err := g.show(items, absent, print); err != nil {
		return err
	}
	return absent.exit()
}

// show prints items, or that there are none.
func (g *getter) show(items []item, absent *missing, print printer) error {
	if len(items) == 0 && len(absent.errs) == 0 && (g.output == "" || g.output == wide || g.output == command.Table) {
		fmt.Fprintf(g.env.Stderr, "no %s found\n", g.of.name)
	}
	return print(items)
}

// missing returns the errors of the names on the command line that no item has. For events, the name is the
// pod's; a pod without events is not missing.
func (g *getter) missing(ctx context.Context, c *client.Client, s *selection, items []item) *missing {
	if g.of.name == "probes" {
		return s.missing(ctx, c)
	}
	var absent []string
	for _, n := range s.names {
		if g.of.name != "events" && !slices.ContainsFunc(items, func(i item) bool { return n.selects(append(i.also, i.name)...) }) {
			absent = append(absent, n.word)
		}
	}
	if len(absent) == 0 {
		return &missing{}
	}
	m := &missing{errs: []error{fmt.Errorf("%s not found: %s", g.of.name, line(strings.Join(absent, ", ")))}, hint: "prober get " + g.of.name + " lists them"}
	if all, err := g.of.list(ctx, c, &selection{}); err == nil {
		var names []string
		for i := range all {
			names = append(names, all[i].name)
		}
		m.near(absent, names, g.of.name)
	}
	return m
}
