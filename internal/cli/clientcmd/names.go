package clientcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/probe"
)

// probeNames is the part of the help about arguments that name probes.
const probeNames = "The argument is POD, POD/CONTAINER[/KIND], NAMESPACE/POD/CONTAINER[/KIND], a line of get probes -o name,\n" +
	"or the address or the name of a target of prober.yaml. Without a container or a kind, it selects all\n" +
	"probes of the pod or the container."

// maxCandidates is the maximum number of probes that the error of an ambiguous name lists.
const maxCandidates = 8

// probeArgs reads the arguments NAME [KIND], which [selection.resolve] interprets.
func (s *selection) probeArgs(args []string) error {
	if len(args) > 2 {
		return command.Usage("", "want POD[/CONTAINER] [KIND], got %s", command.Count(len(args), "argument"))
	}
	if len(args) > 1 {
		if _, err := probe.ParseKind(args[1]); err != nil {
			return command.Usage("", "%w", err)
		}
		s.Kind = args[1]
	}
	if len(args) == 0 {
		return nil
	}
	s.word = args[0]
	if isAddress(s.word) {
		return nil
	}
	parts := strings.Split(s.word, "/")
	if slices.Contains(parts, "") {
		parts = nil // otherwise it would select all
	}
	for _, r := range readings(parts) {
		if !conflict(r.Namespace, s.Namespace) && !conflict(r.Kind, s.Kind) {
			f := s.Filter
			f.Namespace, f.Pod, f.Container, f.Kind = cmp.Or(r.Namespace, f.Namespace), r.Pod, r.Container, cmp.Or(r.Kind, f.Kind)
			s.readings = append(s.readings, f)
		}
	}
	if len(s.readings) == 0 {
		return command.Usage("", "%q%s: must be POD[/CONTAINER[/KIND]] or NAMESPACE/POD/CONTAINER[/KIND]", s.word, kindAndNamespace(s.Kind, s.Namespace))
	}
	return nil
}

// isAddress reports whether a name can only be the address of a target: no name of Kubernetes has a colon.
func isAddress(word string) bool { return strings.Contains(word, ":") }

// kindAndNamespace returns the text of the kind and namespace on the command line, for messages.
func kindAndNamespace(kind, namespace string) (text string) {
	if kind != "" {
		text = " " + kind
	}
	if namespace != "" {
		text += " in namespace " + namespace
	}
	return text
}

func conflict(a, b string) bool { return a != "" && b != "" && a != b }

// readings returns the possible interpretations of the parts of a name, the most likely first.
func readings(parts []string) (all []client.Filter) {
	if len(parts) == 0 {
		return nil
	}
	switch parts[0] {
	case "probe", "probes":
		if len(parts) > 1 {
			all = shapes(parts[1:])
		}
	case "pod", "pods", "target", "targets", "endpoint", "endpoints":
		if len(parts) == 2 {
			all = shapes(parts[1:])
		}
	}
	return append(all, shapes(parts)...)
}

// shapes returns the interpretations of parts as namespace, pod, container and kind.
func shapes(parts []string) (all []client.Filter) {
	n := len(parts)
	_, err := probe.ParseKind(parts[n-1])
	isKind := err == nil
	switch {
	case n == 1:
		all = []client.Filter{{Pod: parts[0]}}
	case n == 2:
		all = []client.Filter{{Pod: parts[0], Container: parts[1]}}
	case n == 3 && isKind:
		all = []client.Filter{{Pod: parts[0], Container: parts[1], Kind: parts[2]}, {Namespace: parts[0], Pod: parts[1], Container: parts[2]}}
	case n == 3:
		all = []client.Filter{{Namespace: parts[0], Pod: parts[1], Container: parts[2]}}
	case n == 4 && isKind:
		all = []client.Filter{{Namespace: parts[0], Pod: parts[1], Container: parts[2], Kind: parts[3]}}
	}
	return all
}

// resolve determines the meaning of the name on the command line. It takes the interpretation whose
// objects exist, or else a target. If nothing exists, it takes the first interpretation.
func (s *selection) resolve(ctx context.Context, c *client.Client) error {
	if s.word == "" || s.resolved {
		return nil
	}
	var chosen client.Filter
	var candidates []string
	selected := make(map[string]bool) // sets of probes that the readings select
	for _, f := range s.readings {
		probes, err := c.Probes(ctx, client.Filter{Namespace: f.Namespace, Pod: f.Pod, Container: f.Container, Kind: f.Kind})
		if err != nil {
			return err
		}
		var names []string
		for i := range probes {
			names = append(names, line(probeName(&probes[i])))
		}
		if len(names) > 0 {
			selected[strings.Join(names, ", ")], chosen = true, f
		}
		candidates = append(candidates, names...)
	}
	if len(selected) > 1 {
		return ambiguous(s.word, candidates, "name it with its namespace, as NAMESPACE/POD/CONTAINER KIND, or with -n")
	}
	if s.resolved = true; len(selected) == 1 {
		s.Filter = chosen
		return nil
	}
	if len(s.readings) > 0 {
		s.Filter = s.readings[0]
	}
	return s.resolveTarget(ctx, c)
}

// resolveTarget searches the targets for the name.
func (s *selection) resolveTarget(ctx context.Context, c *client.Client) (err error) {
	s.target, err = targetNamed(ctx, c, s.Namespace, s.word)
	if t := s.target; t != nil && t.State == targetProbed {
		s.Filter.Namespace, s.Filter.Pod, s.Filter.Container = t.Namespace, t.Pod, ""
	}
	return err
}

// targetNamed returns the target with a name or an address, nil if there is none. It prefers a probed target,
// then the newest one. An empty namespace means all.
func targetNamed(ctx context.Context, c *client.Client, namespace, word string) (*api.Target, error) {
	all, err := c.Targets(ctx, client.TargetFilter{Namespace: namespace})
	if _, ok := errors.AsType[*client.StatusError](err); ok {
		return nil, nil // older agents have no targets
	}
	if err != nil {
		return nil, err
	}
	name := find("targets").withoutKindPrefix(word)
	var chosen *api.Target
	var probed []string
	for i := range all.Items {
		t := &all.Items[i]
		if !slices.Contains(targetNames(t), name) {
			continue
		}
		switch {
		case t.State == targetProbed:
			probed = append(probed, "target/"+line(t.Pod))
			chosen = t
		case len(probed) == 0:
			chosen = t
		}
	}
	if len(probed) > 1 {
		return nil, ambiguous(word, probed, "name its pod")
	}
	return chosen, nil
}

func ambiguous(word string, candidates []string, hint string) error {
	slices.Sort(candidates)
	candidates = slices.Compact(candidates)
	text := strings.Join(candidates[:min(len(candidates), maxCandidates)], ", ")
	if more := len(candidates) - maxCandidates; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return command.Usage(hint, "%s is ambiguous: %s", line(word), text)
}

// targetProbed is the state of a target that has a probe.
const targetProbed = "probed"

// targetNames returns the names of a target.
func targetNames(t *api.Target) []string {
	return []string{t.Pod, t.Name, t.Address, t.Group + "/" + t.Name}
}

// withoutKindPrefix returns a name without the prefix KIND/ of -o name. For events, the prefix may be a
// pod's.
func (r *resource) withoutKindPrefix(word string) string {
	kind, name, ok := strings.Cut(word, "/")
	if ok && (kind == r.name || slices.Contains(r.aliases, kind) || r.name == "events" && kind == "pod") {
		return name
	}
	return word
}
