package clientcmd

import (
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
)

// selectionFlags are the flags of a selection.
type selectionFlags struct {
	cmd                                     *cobra.Command
	namespace, labels, handler, state, kind string
	allNamespaces, all                      bool

	targets   client.TargetFilter
	endpoints client.EndpointFilter
}

// add adds the flags of a command that shows objects of a resource.
func (f *selectionFlags) add(c *cobra.Command, r *resource) {
	f.cmd = c
	switch r.name {
	case "targets":
		c.Flags().StringVar(&f.targets.Group, "group", "", "group of targets")
		c.Flags().Var(command.OneOf(&f.targets.State, "", "probed", "dropped", "gone"), "state", "state of the targets")
	case "endpoints":
		c.Flags().Var(command.OneOf(&f.endpoints.State, "", "success", "warning", "failure", "unknown"), "state", "state of the endpoints")
		c.Flags().Var(command.OneOf(&f.endpoints.Type, "", api.TypeEndpoint, api.TypePush), "type", "endpoint, or push")
	case "incidents":
		c.Flags().Var(command.OneOf(&f.state, "", api.IncidentOpen, api.IncidentEnded), "state", "state of the incidents")
	case "probes":
		f.addProbes(c)
		f.addKind(c)
		c.Flags().Var(command.OneOf(&f.state, append([]string{""}, api.States...)...), "result", "older name of --state")
	}
	if r.labelled {
		f.addPods(c)
	}
}

// addSome adds the flags of a command that requires a name, labels or --all.
func (f *selectionFlags) addSome(c *cobra.Command) {
	f.cmd = c
	f.addPods(c)
	f.addProbes(c)
	f.addAll(c)
}

func (f *selectionFlags) addAll(c *cobra.Command) {
	c.Flags().BoolVar(&f.all, "all", false, "select all probes, or those of -n and other flags")
	command.NotFromEnv(c.Flags().Lookup("all"))
}

// addPods adds the flags for namespaces and labels.
func (f *selectionFlags) addPods(c *cobra.Command) {
	f.cmd = c
	c.Flags().StringVarP(&f.namespace, "namespace", "n", "", "namespace (default: all)")
	c.Flags().BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "all namespaces, the default; overrides -n")
	command.NotFromEnv(c.Flags().Lookup("all-namespaces"))
	c.Flags().StringVarP(&f.labels, "selector", "l", "", "labels of pods, targets, pushes and endpoints, as in kubectl: app=shop,tier!=cache")
}

// addProbes adds the flags for fields of probes.
func (f *selectionFlags) addProbes(c *cobra.Command) {
	c.Flags().StringVar(&f.handler, "handler", "", "handler, such as http, or the name of a plugin")
	c.Flags().Var(command.OneOf(&f.state, append([]string{""}, api.States...)...), "state", "state of the probe; a paused probe matches only paused, and one in maintenance only maintenance")
}

func (f *selectionFlags) addKind(c *cobra.Command) {
	c.Flags().Var(command.OneOf(&f.kind, "", "liveness", "readiness", "startup"), "kind", "kind of the probe")
}

// selectionOf returns the selection of the flags and the arguments for a resource.
func (f *selectionFlags) selectionOf(r *resource, args []string) (*selection, error) {
	if f.allNamespaces {
		f.namespace = ""
	}
	f.targets.Namespace, f.endpoints.Namespace = f.namespace, f.namespace
	s := &selection{Filter: client.Filter{Namespace: f.namespace, Handler: f.handler, State: f.state, Kind: f.kind}, targets: f.targets, endpoints: f.endpoints}
	if f.labels != "" {
		var err error
		if s.selector, err = labels.Parse(f.labels); err != nil {
			return nil, command.Usage(command.Line(f.cmd, args, "selector", "app=shop,tier!=cache"), "--selector %q: %w", f.labels, err)
		}
	}
	if r.name == "probes" {
		return s, s.probeArgs(f.cmd, args, f.all)
	}
	for _, a := range args {
		s.names = append(s.names, objectName{a, r.withoutKindPrefix(a)})
	}
	return s, nil
}

// someOf returns the selection of a command that requires a name, labels or --all.
func (f *selectionFlags) someOf(args []string) (*selection, error) {
	path := f.cmd.CommandPath()
	if len(args) == 0 && f.labels == "" && !f.all {
		return nil, command.Usage(path+" shop/web, or "+path+" -l app=shop, or "+path+" --all", "%s: a name of probes, -l or --all is required", path)
	}
	s, err := f.selectionOf(find("probes"), args)
	if err == nil && len(s.words) > 0 && f.all {
		return nil, command.Usage(command.Line(f.cmd, args, "all", ""), "--all: names are given too: %s", line(s.words[0].word))
	}
	return s, err
}
