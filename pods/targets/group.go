package targets

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/internal/address"
	"github.com/daeace23/prober/internal/joined"
	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/probe"
)

// group has the common settings of the targets of a group in prober.yaml. All fields except probe are read-only.
type group struct {
	name, namespace string
	labels          map[string]string
	steps           []step
	blueprint       *blueprint

	definition string        // equal for groups that generate the same pods; see definitionOf
	probe      *config.Probe // from the last call of compile, for the lines of errors
}

// compiled is a group with its sources.
type compiled struct {
	*group
	sources []sourceSpec
}

// compile returns the groups of a prober.yaml. It reuses unchanged groups of known. The error joins a
// [*yamlpos.Error] for each problem.
func compile(file string, cfg *config.Agent, known []compiled) ([]compiled, error) {
	before := make(map[string]*group, len(known))
	for _, g := range known {
		before[g.definition] = g.group
	}
	d := yamlpos.Decoder{File: file}
	reported := make(map[string]bool)               // several groups may share the problems of a module
	groups := make([]compiled, 0, len(cfg.Targets)) // not nil, since nil means an error
	for i := range cfg.Targets {
		c := &cfg.Targets[i]
		text := cfg.ModuleOf(c)
		definition := definitionOf(c, text)
		g := before[definition]
		if g == nil {
			g = &group{name: c.Name, namespace: c.Namespace, labels: c.Labels, definition: definition}
			g.steps = compileRelabel(c.Relabel, d.ErrorAt)
			var problems []problem
			g.blueprint, problems = newBlueprint(c.Name, c.Kind, text.JSON)
			for _, p := range problems {
				if at := joinPath(text.Path, p.path) + p.err.Error(); !reported[at] {
					reported[at] = true
					d.ErrorAt(text.Line(p.path), joinPath(text.Path, p.path), p.err)
				}
			}
		}
		if b := g.blueprint; b != nil && b.Probe().Spec.Timeout > config.MaxWitnessTimeout && slices.Contains(cfg.WitnessGroups(), c.Name) {
			d.ErrorAt(text.Line(""), text.Path, fmt.Errorf("the timeout of %s must be at most %s, since uplink names the group %s: other probes wait for it",
				b.Probe().Spec.Timeout, config.MaxWitnessTimeout, c.Name))
		}
		groups = append(groups, compiled{g, specsOf(file, c)})
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	for i := range groups {
		groups[i].probe = cfg.ModuleOf(&cfg.Targets[i])
	}
	return groups, nil
}

func joinPath(path, below string) string {
	if below == "" || strings.HasPrefix(below, "[") {
		return path + below
	}
	return path + "." + below
}

// definitionOf returns a text that is equal for groups that generate the same pods from the same
// targets. It does not depend on positions in the file.
func definitionOf(c *config.TargetGroup, text *config.Probe) string {
	relabel := append([]config.Relabel(nil), c.Relabel...)
	for i := range relabel {
		relabel[i].Line, relabel[i].Path = 0, ""
	}
	definition, _ := json.Marshal([]any{c.Name, c.Namespace, c.Kind, c.Labels, relabel, json.RawMessage(text.JSON)}) // it was decoded
	return string(definition)
}

// warnings returns a [*yamlpos.Error] for each warning about the probe of the group.
func (g *group) warnings(file string) (all []error) {
	for _, w := range g.blueprint.problemsOf(g.blueprint.Warnings()) {
		all = append(all, &yamlpos.Error{File: file, Line: g.probe.Line(w.path), Field: joinPath(g.probe.Path, w.path), Err: w.err})
	}
	return all
}

// check checks the probe of the group. The error joins a [*yamlpos.Error] for each problem.
func (g *group) check(file string, check func(*declared.Pod) []error) error {
	a := address.Address{Host: "127.0.0.1", Port: 1}
	sample, err := newPod(g, podName(g.name, "sample"), "sample", &a, a.Host, g.labels)
	d := yamlpos.Decoder{File: file}
	if err != nil {
		d.ErrorAt(g.probe.Line(""), g.probe.Path, err)
		return d.Err()
	}
	for _, err := range check(sample) {
		for _, err := range joined.Errors(err) {
			at := ""
			text := err.Error()
			if path, rest, ok := strings.Cut(text, ": "); ok && !strings.ContainsRune(path, ' ') {
				at, text = g.blueprint.below(path), rest
			}
			d.ErrorAt(g.probe.Line(at), joinPath(g.probe.Path, at), fmt.Errorf("%s", text))
		}
	}
	return d.Err()
}

// Specs returns the spec of the probe of each group in a prober.yaml, by the group's name. The error joins a
// [*yamlpos.Error] for each problem.
func Specs(file string, cfg *config.Agent) (map[string]probe.Spec, error) {
	groups, err := compile(file, cfg, nil)
	if err != nil {
		return nil, err
	}
	specs := make(map[string]probe.Spec, len(groups))
	for _, g := range groups {
		specs[g.name] = g.blueprint.Probe().Spec
	}
	return specs, nil
}
