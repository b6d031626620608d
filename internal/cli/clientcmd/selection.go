package clientcmd

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/remote"
)

// selection is the set of objects that a command applies to.
type selection struct {
	client.Filter
	names     []string // from the command line, with and without their kind; empty for all
	targets   client.TargetFilter
	endpoints client.EndpointFilter
	warnings  []string // from the last list
	selector  labels.Selector
	labelled  map[podName]bool // the pods that the selector matches

	word     string          // the name of probes on the command line; "" for all
	readings []client.Filter // its possible meanings
	resolved bool            // whether Filter is its meaning
	target   *api.Target     // the target that it names; nil for none
}

type podName struct{ namespace, name string }

// selectionFlags are the flags of a selection.
type selectionFlags struct {
	namespace, labels, handler, state, kind string

	targets   client.TargetFilter
	endpoints client.EndpointFilter
}

func (f *selectionFlags) add(c *cobra.Command, r *resource) {
	if r.name == "targets" {
		c.Flags().StringVar(&f.targets.Group, "group", "", "group of targets")
		c.Flags().Var(command.OneOf(&f.targets.State, "", "probed", "dropped", "gone"), "state", "state of the targets")
	}
	if r.name == "endpoints" {
		c.Flags().Var(command.OneOf(&f.endpoints.State, "", "success", "warning", "failure", "unknown"), "state", "state of the endpoints")
		c.Flags().Var(command.OneOf(&f.endpoints.Type, "", api.TypeEndpoint, api.TypePush), "type", "endpoint, or push")
	}
	if !r.namespaced {
		return
	}
	c.Flags().StringVarP(&f.namespace, "namespace", "n", "", "namespace (default: all)")
	c.Flags().StringVarP(&f.labels, "selector", "l", "", "labels of the pods, such as app=shop,tier!=cache")
	if r.name == "probes" {
		c.Flags().StringVar(&f.handler, "handler", "", "handler, such as http, or the name of a plugin")
		state := command.OneOf(&f.state, append([]string{""}, api.States...)...)
		c.Flags().Var(state, "state", "state of the probe; a paused probe matches only paused, and one in maintenance only maintenance")
		c.Flags().Var(state, "result", "older name of --state")
		c.Flags().Var(command.OneOf(&f.kind, "", "liveness", "readiness", "startup"), "kind", "kind of the probe")
	}
}

// selectionOf returns the selection of the flags and the arguments for a resource.
func (f *selectionFlags) selectionOf(r *resource, args []string) (*selection, error) {
	s := &selection{Filter: client.Filter{Namespace: f.namespace, Handler: f.handler, State: f.state, Kind: f.kind}, targets: f.targets, endpoints: f.endpoints}
	if r.name == "probes" {
		if err := s.probeArgs(args); err != nil {
			return nil, err
		}
	} else {
		for _, a := range args {
			s.names = append(s.names, a, r.withoutKindPrefix(a))
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

// selectsName reports whether the command line names an object with these names.
func (s *selection) selectsName(names ...string) bool {
	return len(s.names) == 0 || slices.ContainsFunc(names, func(n string) bool { return slices.Contains(s.names, n) })
}

// match resolves the name of probes, and finds the pods of the selector.
func (s *selection) match(ctx context.Context, c *client.Client) error {
	if err := s.resolve(ctx, c); err != nil || s.selector == nil {
		return err
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

// label records whether the selector matches a pod.
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
		return !s.hasPod(p.Namespace, p.Name) || !s.selectsName(p.Name)
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
		return !s.hasPod(of.Namespace, of.Name) || !s.selectsName(of.Name, e.Name)
	}), nil
}

func (s *selection) probes(ctx context.Context, c *client.Client) ([]api.ProbeStatus, error) {
	if err := s.match(ctx, c); err != nil {
		return nil, err
	}
	if s.selectsNone() {
		return nil, nil
	}
	probes, err := c.Probes(ctx, s.Filter)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(probes, func(p api.ProbeStatus) bool { return !s.hasPod(p.Namespace, p.Pod) }), nil
}

// selects reports whether s selects the object of an event of the stream.
func (s *selection) selects(i *item) bool {
	if p, ok := i.object.(*api.ProbeStatus); ok {
		f := &s.Filter
		return !s.selectsNone() && s.hasPod(p.Namespace, p.Pod) && (f.Pod == "" || f.Pod == p.Pod) && (f.Container == "" || f.Container == p.Container) &&
			(f.Kind == "" || f.Kind == p.Kind) && (f.Handler == "" || f.Handler == p.Handler) && (f.State == "" || f.State == p.Counted())
	}
	return s.hasPod(i.namespace, i.pod) && s.selectsName(append(i.also, i.pod)...)
}

// selectsNone reports whether s names an unknown target, or a target that is not probed. Filter has no pod
// then, and would select all probes.
func (s *selection) selectsNone() bool {
	return s.word != "" && (s.Pod == "" || s.target != nil && s.target.State != targetProbed)
}

// someProbes returns the probes that a command's arguments name. It returns an error if there are none.
func someProbes(ctx context.Context, c *client.Client, s *selection) ([]api.ProbeStatus, error) {
	probes, err := s.probes(ctx, c)
	if err != nil {
		return nil, remote.Failed(err)
	}
	if len(probes) == 0 {
		return nil, &command.Exit{Code: command.ExitFailed, Err: fmt.Errorf("no probe of %s%s", s, whyNone(ctx, c, s)), Hint: "prober get probes lists them"}
	}
	return probes, nil
}

// whyNone returns the reason for which s selects no probe; "" if it is unknown.
func whyNone(ctx context.Context, c *client.Client, s *selection) string {
	return cmp.Or(whyNoTarget(ctx, c, s), whyInvalid(ctx, c, s))
}

// whyNoTarget returns the reason for which the pods that s selects do not exist, if they belong to targets
// that discovery has dropped; "" if it is unknown.
func whyNoTarget(ctx context.Context, c *client.Client, s *selection) string {
	t := s.target
	if t == nil && s.Pod != "" {
		all, err := c.Targets(ctx, client.TargetFilter{Namespace: s.Namespace, Pod: s.Pod})
		if err != nil {
			return "" // an older agent
		}
		for i := range all.Items {
			if all.Items[i].State != targetProbed {
				t = &all.Items[i] // the last one is the newest
			}
		}
	}
	if t == nil || t.State == targetProbed {
		return ""
	}
	return fmt.Sprintf(": the target %s of group %s is %s%s: %s", line(t.Name), line(t.Group), line(t.State), goneFor(t), line(t.Reason))
}

// whyInvalid returns the reason for which a pod of a node has no such probe: the message of the newest event
// about its annotation. It returns "" if there is none.
func whyInvalid(ctx context.Context, c *client.Client, s *selection) string {
	var list v1.EventList
	if s.Pod == "" || c.Events(ctx, &list) != nil {
		return ""
	}
	for i := len(list.Items) - 1; i >= 0; i-- { // the newest first
		e := &list.Items[i]
		if e.Reason == "ProbeInvalid" && e.InvolvedObject.Name == s.Pod && (s.Namespace == "" || e.InvolvedObject.Namespace == s.Namespace) {
			return ": " + line(e.Message)
		}
	}
	return ""
}

// goneFor returns the time since a target was removed.
func goneFor(t *api.Target) string {
	if t.Since.IsZero() {
		return ""
	}
	return " for " + ago(t.Since)
}

// String returns the selection as text.
func (s *selection) String() string {
	name := s.Pod
	if s.Container != "" {
		name += "/" + s.Container
	}
	if s.target != nil || name == "" {
		name = s.word
	}
	if s.Kind != "" {
		name += " " + s.Kind
	}
	if s.Namespace != "" {
		name += " in namespace " + s.Namespace
	}
	return name
}
