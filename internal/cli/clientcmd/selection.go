package clientcmd

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/remote"
)

// selection is the set of objects that a command applies to.
type selection struct {
	client.Filter // for all names
	names         []objectName
	words         []*probeName // names of probes; empty for all
	targets       client.TargetFilter
	endpoints     client.EndpointFilter
	warnings      []string // from the last list
	selector      labels.Selector
	labelled      map[podName]bool // the pods that the selector matches
	resolved      bool             // whether words have their meanings
}

type podName struct{ namespace, name string }

// objectName is a name of an object that is no probe.
type objectName struct {
	word string // from the command line
	bare string // without its kind
}

// selects reports whether n is one of names, or a pattern that matches one.
func (n objectName) selects(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return n.word == name || n.bare == name || isPattern(n.bare) && (matchAll(n.word, name) || matchAll(n.bare, name))
	})
}

// selectsName reports whether the command line names an object with these names.
func (s *selection) selectsName(names ...string) bool {
	return len(s.names) == 0 || slices.ContainsFunc(s.names, func(n objectName) bool { return n.selects(names...) })
}

// match resolves the names of probes, and finds the pods of the selector.
func (s *selection) match(ctx context.Context, c *client.Client) error {
	if err := s.resolve(ctx, c); err != nil {
		return err
	}
	return s.matchLabels(ctx, c)
}

// matchLabels finds the pods of the selector.
func (s *selection) matchLabels(ctx context.Context, c *client.Client) error {
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
		return !s.hasPod(p.Namespace, p.Name) || !s.selectsName(p.Name) || !s.namesPod(p.Namespace, p.Name)
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
	filter, ok := s.request()
	if !ok {
		return nil, nil
	}
	probes, err := c.Probes(ctx, filter)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(probes, func(p api.ProbeStatus) bool { return !s.hasPod(p.Namespace, p.Pod) || !s.namesProbe(&p) }), nil
}

// request returns the filter of a request for the probes of s, which are all or a part of its response. It reports
// false if s selects none.
func (s *selection) request() (client.Filter, bool) {
	if len(s.words) == 0 {
		return s.Filter, true
	}
	chosen := slices.Concat(meanings(s.words)...)
	if len(chosen) != 1 || isPattern(chosen[0].Namespace+chosen[0].Pod+chosen[0].Container) {
		return s.Filter, len(chosen) > 0
	}
	f := chosen[0]
	f.Handler, f.State = s.Handler, s.State
	return f, true
}

// selects reports whether s selects the object of an event of the stream.
func (s *selection) selects(i *item) bool {
	if p, ok := i.object.(*api.ProbeStatus); ok {
		f := &s.Filter
		return s.hasPod(p.Namespace, p.Pod) && s.namesProbe(p) && matches(f, p) &&
			(f.Handler == "" || f.Handler == p.Handler) && (f.State == "" || f.State == p.Counted())
	}
	return s.hasPod(i.namespace, i.pod) && s.selectsName(append(i.also, i.pod)...)
}

// someProbes returns the probes that a command's arguments name, and the names that no probe has. It returns an
// error if there are no probes.
func someProbes(ctx context.Context, c *client.Client, s *selection) ([]api.ProbeStatus, *missing, error) {
	probes, err := s.probes(ctx, c)
	if err != nil {
		return nil, nil, remote.Failed(err)
	}
	m := s.missing(ctx, c)
	if len(probes) > 0 {
		return probes, m, nil
	}
	if len(m.errs) > 0 {
		return nil, nil, m.exit()
	}
	return nil, nil, &command.Exit{Code: command.ExitFailed, Err: fmt.Errorf("no probe of %s", s), Hint: "prober get probes lists them"}
}

// whyNone returns the reason for which a name selects no probe; "" if it is unknown.
func (s *selection) whyNone(ctx context.Context, c *client.Client, w *probeName) string {
	namespace, pod := w.pod(s)
	return cmp.Or(whyNoTarget(ctx, c, w.target, namespace, pod), whyInvalid(ctx, c, namespace, pod))
}

// whyNoTarget returns the reason for which a pod does not exist, if it belongs to a target that discovery has
// dropped; "" if it is unknown.
func whyNoTarget(ctx context.Context, c *client.Client, t *api.Target, namespace, pod string) string {
	if t == nil && pod != "" {
		all, err := c.Targets(ctx, client.TargetFilter{Namespace: namespace, Pod: pod})
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
func whyInvalid(ctx context.Context, c *client.Client, namespace, pod string) string {
	var list v1.EventList
	if pod == "" || c.Events(ctx, &list) != nil {
		return ""
	}
	for i := len(list.Items) - 1; i >= 0; i-- { // the newest first
		e := &list.Items[i]
		if e.Reason == "ProbeInvalid" && e.InvolvedObject.Name == pod && (namespace == "" || e.InvolvedObject.Namespace == namespace) {
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
	var parts []string
	for _, w := range s.words {
		parts = append(parts, w.text(s))
	}
	text := strings.Join(parts, ", ")
	if len(parts) == 0 {
		text = strings.TrimSpace("the agent" + kindAndNamespace(s.Kind, s.Namespace))
	}
	if s.selector != nil {
		text += " with the labels " + line(s.selector.String())
	}
	if s.Handler != "" {
		text += " with the handler " + line(s.Handler)
	}
	if s.State != "" {
		text += " with the state " + s.State
	}
	return text
}
