package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/daeace23/prober/internal/yamlpos"
)

// Ref refers to an entry of the file by its name.
type Ref struct {
	Name string

	Line int // in the file, for later errors
	Path string
}

// names returns a reader of a list of names of other entries. It refuses a name that the list has twice.
// decoder.checkDependencies reports unknown names.
func (d *decoder) names(to *[]Ref) yamlpos.Reader {
	first := make(map[string]string) // paths by name
	return d.ListOf(func(n *yamlpos.Node, path string) {
		r := Ref{Line: n.Line, Path: path}
		d.NonEmpty(&r.Name)(n, path)
		if other, ok := first[r.Name]; ok && r.Name != "" {
			d.Errorf(n, path, "%.80q is set twice, first at %s", r.Name, other)
		} else {
			first[r.Name] = path
		}
		*to = append(*to, r)
	})
}

// node is an entry of the graph of dependencies. Its name is unique.
type node struct {
	name      string
	dependsOn []Ref
	members   []Ref // of an endpoint. An endpoint does not depend on its members, but must not be reached from them
}

// nodes returns the entries that may depend on others: target groups, pushes and endpoints.
func (a *Agent) nodes() (all []node) {
	for i := range a.Targets {
		all = append(all, node{name: a.Targets[i].Name, dependsOn: a.Targets[i].DependsOn})
	}
	for i := range a.Push {
		all = append(all, node{name: a.Push[i].Name, dependsOn: a.Push[i].DependsOn})
	}
	pods := make(map[string]string, len(a.Endpoints)) // names of endpoints by their pods
	for i := range a.Endpoints {
		pods[a.Endpoints[i].Namespace+"/"+a.Endpoints[i].Name] = a.Endpoints[i].Name
	}
	for i := range a.Endpoints {
		e := &a.Endpoints[i]
		n := node{name: e.Name, dependsOn: e.DependsOn}
		for _, m := range e.Members {
			r := m.Ref
			if m.IsPod() {
				r.Name = pods[m.podName()]
			}
			n.members = append(n.members, r)
		}
		all = append(all, n)
	}
	return all
}

// Dependencies returns the names on which each entry depends directly. Entries without dependencies are not
// in the map.
func (a *Agent) Dependencies() map[string][]string {
	all := make(map[string][]string)
	for _, n := range a.nodes() {
		for _, r := range n.dependsOn {
			all[n.name] = append(all[n.name], r.Name)
		}
	}
	return all
}

// validateDependencies reports dependencies on unknown names, and cycles.
func (d *decoder) validateDependencies(a *Agent) {
	nodes := a.nodes()
	known := make(map[string]bool, len(nodes))
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i], known[n.name] = n.name, true
	}
	for _, n := range nodes {
		for _, r := range n.dependsOn {
			if !known[r.Name] {
				d.Unknown(r.Line, r.Path, "name", r.Name, names)
			}
		}
	}
	for _, c := range cycles(nodes) {
		text := make([]string, 0, len(c)+1)
		for _, r := range c {
			text = append(text, r.Name)
		}
		first := c[0] // its entry is the last one of the cycle
		d.ErrorAt(first.Line, first.Path, fmt.Errorf("a cycle: %s -> %s", text[len(text)-1], strings.Join(text, " -> ")))
	}
}

// cycles returns cycles of nodes without a common node, at least one if there are any. Each cycle is the list
// of its references: the entry of the first one is named by the last one. References to unknown names are
// ignored.
func cycles(nodes []node) [][]Ref {
	w := walk{nodes: make(map[string]*node, len(nodes)), depth: make(map[string]int), reported: make(map[string]bool)}
	for i := range nodes {
		w.nodes[nodes[i].name] = &nodes[i]
	}
	for i := range nodes {
		w.visit(nodes[i].name)
	}
	return w.found
}

// walk is a depth-first search.
type walk struct {
	nodes    map[string]*node
	depth    map[string]int  // of visited nodes: references on the way to the node, or left after the visit
	way      []Ref           // from the first node to the visited one
	reported map[string]bool // nodes in found
	found    [][]Ref
}

const left = -1 // depth of a node whose references were followed

func (w *walk) visit(name string) {
	n := w.nodes[name]
	if _, visited := w.depth[name]; n == nil || visited {
		return
	}
	w.depth[name] = len(w.way)
	for _, refs := range [][]Ref{n.dependsOn, n.members} {
		for _, r := range refs {
			w.way = append(w.way, r)
			if depth, visited := w.depth[r.Name]; visited && depth != left {
				w.note(w.way[depth:])
			}
			w.visit(r.Name)
			w.way = w.way[:len(w.way)-1]
		}
	}
	w.depth[name] = left
}

// note adds a cycle, unless a cycle with one of its nodes is known.
func (w *walk) note(cycle []Ref) {
	if slices.ContainsFunc(cycle, func(r Ref) bool { return w.reported[r.Name] }) {
		return
	}
	for _, r := range cycle {
		w.reported[r.Name] = true
	}
	w.found = append(w.found, slices.Clone(cycle))
}
