package clientcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/nearest"
	"github.com/daeace23/prober/probe"
)

// probeNames is the part of the help about arguments that name probes.
const probeNames = "A name is POD, POD/CONTAINER[/KIND], NAMESPACE/POD[/CONTAINER[/KIND]], a line of\n" +
	"get probes -o name, or the address, name or group of a target of prober.yaml. Its parts\n" +
	"may be patterns, such as 'shop-*'. Without a container or a kind it selects all probes\n" +
	"of the pod, the container or the group. A kind may follow the names."

// maxCandidates is the maximum number of probes that the error of an ambiguous name lists.
const maxCandidates = 8

// probeName is a name of probes on the command line. Fields of its filters may be patterns.
type probeName struct {
	word     string
	readings []client.Filter // its possible meanings
	chosen   []client.Filter // its meaning, once it is resolved; none if nothing of the name is probed
	exists   bool            // whether a probe has the name
	target   *api.Target     // the target of the name; nil for none
}

// meanings returns the meanings of all names.
func (s *selection) meanings() (all []client.Filter) {
	for _, w := range s.words {
		all = append(all, w.chosen...)
	}
	return all
}

// means reports whether a meaning of a name fulfils is. Without names all do.
func (s *selection) means(is func(*client.Filter) bool) bool {
	for _, w := range s.words {
		for i := range w.chosen {
			if is(&w.chosen[i]) {
				return true
			}
		}
	}
	return len(s.words) == 0
}

// text returns the name for messages.
func (w *probeName) text(s *selection) string {
	if w.target != nil || len(w.readings) == 0 {
		return line(w.word) + kindAndNamespace(s.Kind, s.Namespace)
	}
	f := w.readings[0]
	name := f.Pod
	if f.Container != "" {
		name += "/" + f.Container
	}
	return line(name) + kindAndNamespace(f.Kind, f.Namespace)
}

// pod returns the namespace and the pod of the name; "" for a pattern or an address.
func (w *probeName) pod(s *selection) (namespace, pod string) {
	if len(w.readings) == 0 || isPattern(w.word) {
		return s.Namespace, ""
	}
	return w.readings[0].Namespace, w.readings[0].Pod
}

// kindWords are words that users write for a kind.
var kindWords = map[string]string{
	"live": "liveness", "liveness": "liveness", "livenessprobe": "liveness", "ready": "readiness", "readiness": "readiness", "readinessprobe": "readiness",
	"start": "startup", "startup": "startup", "startupprobe": "startup",
}

// objectWords are the words before a name that kubectl requires. Here, a single one is a name.
var objectWords = []string{"pod", "pods", "po", "probe", "probes", "target", "targets", "endpoint", "endpoints"}

// kindArg reads the kind that may follow the names, and returns the names. all means that flags select the
// probes without a name.
func (s *selection) kindArg(cmd *cobra.Command, args []string, all bool) ([]string, error) {
	for i, a := range args {
		kind := cmp.Or(kindWords[strings.ToLower(a)], nearest.Name(a, []string{"liveness", "readiness", "startup"}))
		names := args[:i]
		switch {
		case kind == "" || i == 0 && !all && s.selector == nil:
		case kind != a:
			_, err := probe.ParseKind(a)
			return nil, command.Usage(command.Line(cmd, append(slices.Clone(names), kind)), "%w", err)
		case i < len(args)-1:
			args = append(slices.Delete(slices.Clone(args), i, i+1), kind)
			return nil, command.Usage(command.Line(cmd, args), "%s: the kind must follow the names", kind)
		case conflict(s.Kind, kind):
			return nil, command.Usage(command.Line(cmd, names), "%s: --kind is %s", kind, s.Kind)
		default:
			s.Kind = kind
			return names, nil
		}
	}
	return args, nil
}

// probeArgs reads the arguments NAME... [KIND], which [selection.resolve] interprets.
func (s *selection) probeArgs(cmd *cobra.Command, args []string, all bool) error {
	names, err := s.kindArg(cmd, args, all)
	if err != nil {
		return err
	}
	if len(names) > 1 && slices.Contains(objectWords, args[0]) {
		return command.Usage(command.Line(cmd, args[1:]), "%q: names of probes have no such word before them", args[0])
	}
	for _, word := range names {
		w := &probeName{word: word, readings: s.readingsOf(word)}
		if len(w.readings) == 0 && !isAddress(word) {
			return command.Usage(cmd.CommandPath()+" shop/web readiness", "%q%s: must be POD[/CONTAINER[/KIND]] or NAMESPACE/POD[/CONTAINER[/KIND]]",
				word, kindAndNamespace(s.Kind, s.Namespace))
		}
		s.words = append(s.words, w)
	}
	return nil
}

// readingsOf returns the possible meanings of a name that do not contradict s, the most likely first.
func (s *selection) readingsOf(word string) (all []client.Filter) {
	parts := strings.Split(word, "/")
	if isAddress(word) || slices.Contains(parts, "") { // an empty part would select all
		return nil
	}
	for _, r := range readings(parts) {
		if !conflict(r.Namespace, s.Namespace) && !conflict(r.Kind, s.Kind) {
			r.Namespace, r.Kind = cmp.Or(r.Namespace, s.Namespace), cmp.Or(r.Kind, s.Kind)
			all = append(all, r)
		}
	}
	return all
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
		all = []client.Filter{{Pod: parts[0], Container: parts[1]}, {Namespace: parts[0], Pod: parts[1]}}
	case n == 3 && isKind:
		all = []client.Filter{{Pod: parts[0], Container: parts[1], Kind: parts[2]}, {Namespace: parts[0], Pod: parts[1], Container: parts[2]}}
	case n == 3:
		all = []client.Filter{{Namespace: parts[0], Pod: parts[1], Container: parts[2]}}
	case n == 4 && isKind:
		all = []client.Filter{{Namespace: parts[0], Pod: parts[1], Container: parts[2], Kind: parts[3]}}
	}
	return all
}

// resolve determines the meanings of the names on the command line. A name has the interpretation whose
// objects exist, or else names targets. If nothing exists, it has the first interpretation.
func (s *selection) resolve(ctx context.Context, c *client.Client) error {
	if len(s.words) == 0 || s.resolved {
		return nil
	}
	world := namedObjects{
		probes:  func(f client.Filter) ([]api.ProbeStatus, error) { return c.Probes(ctx, f) },
		targets: sync.OnceValues(func() ([]api.Target, error) { return listedTargets(ctx, c, s.Namespace) }),
	}
	if len(s.words) > 1 || isPattern(s.words[0].word) { // one request for all names
		all, err := c.Probes(ctx, client.Filter{Namespace: s.Namespace})
		if err != nil {
			return err
		}
		world.probes = func(f client.Filter) (found []api.ProbeStatus, _ error) {
			for i := range all {
				if matches(&f, &all[i]) {
					found = append(found, all[i])
				}
			}
			return found, nil
		}
	}
	for _, w := range s.words {
		if err := w.resolve(&world, s.Kind); err != nil {
			return err
		}
	}
	s.resolved = true
	return nil
}

// namedObjects are the objects of an agent that names select.
type namedObjects struct {
	probes  func(f client.Filter) ([]api.ProbeStatus, error)
	targets func() ([]api.Target, error)
}

func (w *probeName) resolve(world *namedObjects, kind string) error {
	var candidates []string
	selected := make(map[string]client.Filter) // by the probes that they select
	for _, f := range w.readings {
		probes, err := world.probes(f)
		if err != nil {
			return err
		}
		var names []string
		for i := range probes {
			names = append(names, line(nameOf(&probes[i])))
		}
		if len(names) > 0 {
			selected[strings.Join(names, ", ")] = f
		}
		candidates = append(candidates, names...)
	}
	if len(selected) > 1 {
		return ambiguous(w.word, candidates, "name it with its namespace, as NAMESPACE/POD/CONTAINER KIND, or with -n")
	}
	for _, f := range selected {
		w.chosen, w.exists = []client.Filter{f}, true
		return nil
	}
	return w.resolveTarget(world, kind)
}

// resolveTarget searches the targets for the name.
func (w *probeName) resolveTarget(world *namedObjects, kind string) error {
	targets, err := world.targets()
	if err != nil {
		return err
	}
	if w.target, err = targetNamed(targets, w.word); err != nil {
		return err
	}
	var named []api.Target
	switch {
	case w.target != nil:
		named = []api.Target{*w.target}
	case isPattern(w.word):
		named = slices.DeleteFunc(slices.Clone(targets), func(t api.Target) bool {
			return !slices.ContainsFunc(targetNames(&t), func(n string) bool { return matchAll(w.word, n) })
		})
	default:
		named = ofGroup(targets, w.word)
	}
	for i := range named {
		if t := &named[i]; t.State == targetProbed {
			f := client.Filter{Namespace: t.Namespace, Pod: t.Pod, Kind: kind}
			probes, err := world.probes(f)
			if err != nil {
				return err
			}
			w.chosen, w.exists = append(w.chosen, f), w.exists || len(probes) > 0
		}
	}
	switch {
	case len(named) > 0:
	case isPattern(w.word):
		w.chosen = w.readings
	default:
		w.chosen = w.readings[:min(len(w.readings), 1)]
	}
	return nil
}

// namesProbe reports whether a name of s selects a probe.
func (s *selection) namesProbe(p *api.ProbeStatus) bool {
	return s.means(func(f *client.Filter) bool { return matches(f, p) })
}

// namesPod reports whether a name of s selects a pod, or a part of it.
func (s *selection) namesPod(namespace, pod string) bool {
	return s.means(func(f *client.Filter) bool { return matchPart(f.Namespace, namespace) && matchPart(f.Pod, pod) })
}

// matches reports whether a probe has the names of f, which may be patterns.
func matches(f *client.Filter, p *api.ProbeStatus) bool {
	return matchPart(f.Namespace, p.Namespace) && matchPart(f.Pod, p.Pod) && matchPart(f.Container, p.Container) && (f.Kind == "" || f.Kind == p.Kind)
}

// isPattern reports whether a name is a pattern of [path.Match]. An invalid pattern is a name, as in a shell.
func isPattern(word string) bool {
	_, err := path.Match(word, "")
	return err == nil && strings.ContainsAny(word, "*?[")
}

// matchPart reports whether a part of a name is "", the text, or a pattern that matches it.
func matchPart(part, text string) bool {
	if part == "" || part == text {
		return true
	}
	ok, _ := path.Match(part, text) // an invalid pattern is a name
	return ok
}

// matchAll reports whether a pattern matches a text, in which * matches slashes too.
func matchAll(pattern, text string) bool {
	flat := strings.NewReplacer("/", "\x00")
	ok, _ := path.Match(flat.Replace(pattern), flat.Replace(text)) // an invalid pattern is a name
	return ok
}

// listedTargets returns the targets of a namespace; none for older agents. An empty namespace means all.
func listedTargets(ctx context.Context, c *client.Client, namespace string) ([]api.Target, error) {
	all, err := c.Targets(ctx, client.TargetFilter{Namespace: namespace})
	if _, ok := errors.AsType[*client.StatusError](err); ok {
		return nil, nil
	}
	return all.Items, err
}

// targetNamed returns the target with a name or an address, nil if there is none. It prefers a probed target,
// then the newest one.
func targetNamed(targets []api.Target, word string) (*api.Target, error) {
	name := find("targets").withoutKindPrefix(word)
	var chosen *api.Target
	var probed []string
	for i := range targets {
		t := &targets[i]
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

// ofGroup returns the targets of a group.
func ofGroup(targets []api.Target, word string) []api.Target {
	name := find("targets").withoutKindPrefix(word)
	return slices.DeleteFunc(slices.Clone(targets), func(t api.Target) bool { return t.Group != name })
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
