package clientcmd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/remote"
	"github.com/daeace23/prober/probe"
)

// selection says which objects a command is about.
type selection struct {
	client.Filter
	names    []string // of the command line; none: all
	targets  client.TargetFilter
	warnings []string // of the last list
	selector labels.Selector
	labelled map[podName]bool // the pods that the selector matches
}

type podName struct{ namespace, name string }

// selectionFlags are the flags of a selection.
type selectionFlags struct {
	namespace, labels, handler, result, kind string

	targets client.TargetFilter
}

func (f *selectionFlags) add(c *cobra.Command, r *resource) {
	if r.name == "targets" {
		c.Flags().StringVar(&f.targets.Group, "group", "", "group of targets")
		c.Flags().Var(command.OneOf(&f.targets.State, "", "probed", "dropped", "gone"), "state", "what became of the targets")
	}
	if !r.namespaced {
		return
	}
	c.Flags().StringVarP(&f.namespace, "namespace", "n", "", "namespace (default: all)")
	c.Flags().StringVarP(&f.labels, "selector", "l", "", "labels of the pods, such as app=shop,tier!=cache")
	if r.name == "probes" {
		c.Flags().StringVar(&f.handler, "handler", "", "handler, such as http, or the name of a plugin")
		c.Flags().Var(command.OneOf(&f.result, "", "success", "failure", "unknown"), "result", "decided result")
		c.Flags().Var(command.OneOf(&f.kind, "", "liveness", "readiness", "startup"), "kind", "kind of the probe")
	}
}

// of returns the selection of the flags and the arguments for a resource.
func (f *selectionFlags) of(r *resource, args []string) (*selection, error) {
	s := &selection{Filter: client.Filter{Namespace: f.namespace, Handler: f.handler, Result: f.result, Kind: f.kind}, names: args, targets: f.targets}
	if r.name == "probes" {
		if err := s.probeArgs(args); err != nil {
			return nil, err
		}
	}
	if f.labels != "" {
		var err error
		if s.selector, err = labels.Parse(f.labels); err != nil {
			return nil, command.Usage("", "--selector %q: %w", f.labels, err)
		}
	}
	return s, nil
}

// probeArgs reads POD[/CONTAINER] [KIND].
func (s *selection) probeArgs(args []string) error {
	if len(args) > 2 {
		return command.Usage("", "want POD[/CONTAINER] [KIND], got %s", command.Count(len(args), "argument"))
	}
	if len(args) > 0 {
		pod, container, named := strings.Cut(args[0], "/")
		if pod == "" || named && container == "" { // else it would mean all
			return command.Usage("", "%q: want POD or POD/CONTAINER", args[0])
		}
		s.Pod, s.Container = pod, container
	}
	if len(args) > 1 {
		if _, err := probe.ParseKind(args[1]); err != nil {
			return command.Usage("", "%w", err)
		}
		s.Kind = args[1]
	}
	return nil
}

// match finds the pods of the selector.
func (s *selection) match(ctx context.Context, c *client.Client) error {
	if s.selector == nil {
		return nil
	}
	var list v1.PodList
	if err := c.Pods(ctx, &list); err != nil {
		return err
	}
	s.labelled = make(map[podName]bool)
	for i := range list.Items {
		s.label(&list.Items[i], false)
	}
	return nil
}

// label notes whether the selector matches a pod.
func (s *selection) label(p *v1.Pod, removed bool) {
	switch of := (podName{p.Namespace, p.Name}); {
	case s.selector == nil:
	case removed || !s.selector.Matches(labels.Set(p.Labels)):
		delete(s.labelled, of)
	default:
		s.labelled[of] = true
	}
}

// hasPod reports whether the objects of a pod are selected.
func (s *selection) hasPod(namespace, pod string) bool {
	return (s.Namespace == "" || s.Namespace == namespace) && (s.selector == nil || s.labelled[podName{namespace, pod}])
}

func (s *selection) pods(ctx context.Context, c *client.Client) ([]v1.Pod, error) {
	var list v1.PodList
	if err := c.Pods(ctx, &list); err != nil {
		return nil, err
	}
	s.labelled = make(map[podName]bool)
	return slices.DeleteFunc(list.Items, func(p v1.Pod) bool {
		s.label(&p, false)
		return !s.hasPod(p.Namespace, p.Name) || len(s.names) > 0 && !slices.Contains(s.names, p.Name)
	}), nil
}

func (s *selection) events(ctx context.Context, c *client.Client) ([]v1.Event, error) {
	if err := s.match(ctx, c); err != nil {
		return nil, err
	}
	var list v1.EventList
	if err := c.Events(ctx, &list); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(e v1.Event) bool {
		of := &e.InvolvedObject
		return !s.hasPod(of.Namespace, of.Name) || len(s.names) > 0 && !slices.Contains(s.names, of.Name)
	}), nil
}

func (s *selection) probes(ctx context.Context, c *client.Client) ([]api.ProbeStatus, error) {
	if err := s.match(ctx, c); err != nil {
		return nil, err
	}
	probes, err := c.Probes(ctx, s.Filter)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(probes, func(p api.ProbeStatus) bool { return !s.hasPod(p.Namespace, p.Pod) }), nil
}

// has reports whether s selects the object of an event of the stream.
func (s *selection) has(i *item) bool {
	if p, ok := i.object.(*api.ProbeStatus); ok {
		f := &s.Filter
		return s.hasPod(p.Namespace, p.Pod) && (f.Pod == "" || f.Pod == p.Pod) && (f.Container == "" || f.Container == p.Container) &&
			(f.Kind == "" || f.Kind == p.Kind) && (f.Handler == "" || f.Handler == p.Handler) && (f.Result == "" || f.Result == p.Result)
	}
	return s.hasPod(i.namespace, i.pod) && (len(s.names) == 0 || slices.Contains(s.names, i.pod))
}

// someProbes returns the probes that a command's arguments name, of which there must be one or more.
func someProbes(ctx context.Context, c *client.Client, s *selection) ([]api.ProbeStatus, error) {
	probes, err := s.probes(ctx, c)
	if err != nil {
		return nil, remote.Failed(err)
	}
	if len(probes) == 0 {
		return nil, &command.Exit{Code: command.ExitFailed, Err: fmt.Errorf("no probe of %s%s", s, whyNoTarget(ctx, c, s)), Hint: "prober get probes lists them"}
	}
	return probes, nil
}

// whyNoTarget returns why the pods that s selects do not exist, if they are those of targets that
// discovery has dropped; "" if that is not known.
func whyNoTarget(ctx context.Context, c *client.Client, s *selection) string {
	all, err := c.Targets(ctx, client.TargetFilter{Namespace: s.Namespace, Pod: s.Pod})
	if err != nil {
		return "" // an agent of an earlier version
	}
	why := ""
	for i := range all.Items {
		if t := &all.Items[i]; t.State != "probed" { // the last one is the newest
			why = fmt.Sprintf(": the target %s of group %s is %s%s: %s", line(t.Name), line(t.Group), line(t.State), goneFor(t), line(t.Reason))
		}
	}
	return why
}

// goneFor returns for how long a target is gone.
func goneFor(t *api.Target) string {
	if t.Since.IsZero() {
		return ""
	}
	return " for " + ago(t.Since)
}

// String names what is selected.
func (s *selection) String() string {
	name := s.Pod
	if s.Container != "" {
		name += "/" + s.Container
	}
	if s.Kind != "" {
		name += " " + s.Kind
	}
	if s.Namespace != "" {
		name += " in namespace " + s.Namespace
	}
	return name
}
