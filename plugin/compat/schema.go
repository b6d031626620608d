package compat

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/daeace23/prober/internal/semantic"
	"github.com/daeace23/prober/plugin/schema"
)

// Schemas returns the changes from the schema of a config to the next one. If none of them is [semantic.Major], every
// config that old accepts is accepted by next, except one with an unknown field that next declares. The reverse does
// not hold: a rule that Schemas cannot compare is a major change. So are schemas that take it more than a few
// seconds.
func Schemas(old, next *schema.Schema) []Change {
	w := &walk{oracle: newOracle()}
	marked, errOld := expand(old.JSON())
	markedNext, errNext := expand(next.JSON())
	if errOld != nil || errNext != nil {
		if a, b := source(old), source(next); !equal(a, b) {
			w.incomparable(errOld, errNext)
		}
		return w.changes
	}
	before, after := withoutRemarks(marked), withoutRemarks(markedNext)
	config := object{"type": "object"} // whatever the schemas say
	w.compare("config", node{before, config}, node{after, config}, true)
	if w.left < 0 {
		w.tooLarge("config")
	}
	if len(w.changes) == 0 && !equal(before, after) {
		w.add(semantic.Minor, "config", "accepts more")
	}
	w.remarked(marked, markedNext)
	return w.changes
}

// source returns the schema as a JSON value.
func source(s *schema.Schema) any {
	value, _ := parse(s.JSON()) // package schema has parsed it
	return value
}

func (w *walk) incomparable(errOld, errNext error) {
	for _, side := range []struct {
		name string
		err  error
	}{{"the old schema", errOld}, {"the new schema", errNext}} {
		if side.err != nil {
			w.add(semantic.Major, "config", "%s %v", side.name, side.err)
		}
	}
}

// node is a list of expanded schemas that all apply to one value.
type node []any

// walk compares two schemas.
type walk struct {
	*oracle
	strict  bool    // whether an unknown field that next declares counts as major
	full    bool    // whether tooLarge was called
	unclear error   // of the last comparison without a result
	guards  []guard // rules of next at this object and above
	before  []guard // rules of old
	changes []Change
}

func (w *walk) add(level semantic.Level, field, format string, args ...any) {
	w.changes = append(w.changes, Change{Area: Config, Field: field, Message: fmt.Sprintf(format, args...), Level: level})
}

// tooLarge adds one change for a comparison that takes too much work.
func (w *walk) tooLarge(path string) {
	if !w.full {
		w.full = true
		w.add(semantic.Major, path, "%v", errLarge)
	}
}

// undecided adds a change for a comparison without a result.
func (w *walk) undecided(path string, err error) {
	w.unclear = err
	if w.left < 0 {
		w.tooLarge(path)
		return
	}
	w.add(semantic.Major, path, "cannot be compared: %v", err)
}

// parts returns the objects that n consists of, without allOf. never reports whether n accepts nothing.
func (n node) parts() (all []object, never bool) {
	for _, s := range n {
		o, ok := s.(object)
		if !ok {
			never = never || s == false
			continue
		}
		list, _ := o["allOf"].([]any)
		inner, none := node(list).parts()
		all, never = append(append(all, inner...), o), never || none
	}
	return all, never
}

// pair is an old and a new node at one field.
type pair struct {
	path   string
	a, b   []object // parts of the old and the new schema
	old    node
	next   node
	types  []string // of values that old accepts
	filled bool     // whether defaults of properties are filled in
}

// compare adds the changes from old to next at path. filled reports whether defaults are filled in there.
func (w *walk) compare(path string, old, next node, filled bool) {
	if w.left < 0 {
		w.tooLarge(path)
		return
	}
	if len(old) == len(next) {
		w.spend(min(w.weigh([]any(old)), w.weigh([]any(next))))
		if equal([]any(old), []any(next)) {
			return
		}
	}
	a, never := old.parts()
	if never {
		return
	}
	b, none := next.parts()
	if none {
		w.add(semantic.Major, path, "accepts nothing")
		return
	}
	work := 10 + (1+len(a))*w.ownWeight(b) + (1+len(b))*w.ownWeight(a)
	if !w.strict { // guards are read
		work += (w.deepWeight(a) + w.deepWeight(b)) / 4
	}
	if !w.spend(work) {
		w.tooLarge(path)
		return
	}
	p := &pair{path: path, a: a, b: b, old: old, next: next, types: typesOf(a), filled: filled}
	if w.values(p) {
		return
	}
	depth, depthOld := len(w.guards), len(w.before)
	if !w.strict {
		w.guards, w.before = append(w.guards, guardsOf(b)...), append(w.before, guardsOf(a)...)
	}
	w.scalars(p)
	w.groups(p)
	w.arrays(p)
	if slices.Contains(p.types, "object") {
		w.objects(p)
	}
	w.guards, w.before = w.guards[:depth], w.before[:depthOld]
}

// includes reports whether next accepts all values that old accepts, in positions without defaults.
func (w *walk) includes(old, next node) bool {
	trial := &walk{oracle: w.oracle, strict: true}
	trial.compare("", old, next, false)
	if trial.unclear != nil {
		w.unclear = trial.unclear
	}
	return !slices.ContainsFunc(trial.changes, Change.Breaking)
}

// allTypes are the types of values. "integer" is a part of "number".
var allTypes = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

// typesOf returns the types of values that all parts accept, sorted.
func typesOf(parts []object) []string {
	types := allTypes
	for _, p := range parts {
		if listed := typeList(p); listed != nil {
			types = intersect(types, listed)
		}
	}
	return types
}

// typeList returns the types of the keyword type, nil if there is none.
func typeList(p object) (types []string) {
	switch v := p["type"].(type) {
	case string:
		types = []string{v}
	case []any:
		types = stringsOf(v)
	default:
		return nil
	}
	if slices.Contains(types, "number") {
		types = append(types, "integer")
	}
	return types
}

func stringsOf(list any) (all []string) {
	items, _ := list.([]any)
	for _, item := range items {
		if s, ok := item.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

func intersect(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(t string) bool { return !slices.Contains(b, t) })
}

// values compares nodes of which old accepts a finite list of values, none of which is an object or array. ok is
// false for other nodes.
func (w *walk) values(p *pair) (ok bool) {
	list, finite := listed(p.a)
	if !finite {
		w.narrowed(p)
		return false
	}
	for _, v := range list {
		switch v.(type) {
		case object, []any:
			w.narrowed(p)
			return false
		}
	}
	lost, err := w.difference(list, p.old, p.next)
	for _, v := range lost {
		w.add(semantic.Major, p.path, "does not accept %s", text(v))
	}
	more, _ := listed(p.b)
	won, errMore := w.difference(more, p.next, p.old)
	for _, v := range won {
		w.add(semantic.Minor, p.path, "also accepts %s", text(v))
	}
	if err = cmp.Or(err, errMore); err != nil {
		w.undecided(p.path, err)
	}
	return true
}

// difference returns the values of a list that one node accepts and the other does not.
func (w *walk) difference(list []any, one, other node) (values []any, err error) {
	for _, v := range list {
		ok, err := w.accepts(one, v)
		if ok && err == nil {
			ok, err = w.accepts(other, v)
			if !ok && err == nil {
				values = append(values, v)
			}
		}
		if err != nil {
			return values, err
		}
	}
	return values, nil
}

// narrowed adds a change for each list of values of next that no part of old has.
func (w *walk) narrowed(p *pair) {
	for _, b := range p.b {
		for _, keyword := range []string{"enum", "const"} {
			v, ok := b[keyword]
			if ok && !slices.ContainsFunc(p.a, func(a object) bool { other, ok := a[keyword]; return ok && equal(other, v) }) {
				w.add(semantic.Major, p.path, "only accepts %s", text(v))
			}
		}
	}
}

// listed returns the values of an enum or const of the parts; ok is false if there is none.
func listed(parts []object) (values []any, ok bool) {
	for _, p := range parts {
		if v, ok := p["const"]; ok {
			return []any{v}, true
		}
		if list, ok := p["enum"].([]any); ok {
			return list, true
		}
	}
	return nil, false
}

// objects compares the properties.
func (w *walk) objects(p *pair) {
	for _, name := range names(p.a, p.b) {
		if !w.spend(len(p.a) + len(p.b)) {
			w.tooLarge(p.path)
			return
		}
		w.property(p, name)
	}
	w.unknown(p)
	w.required(p)
}

// names returns the names of all properties, sorted.
func names(lists ...[]object) []string {
	all := make(map[string]bool)
	for _, parts := range lists {
		for _, p := range parts {
			properties, _ := p["properties"].(object)
			for name := range properties {
				all[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// property compares the property name.
func (w *walk) property(p *pair, name string) {
	path := strings.TrimPrefix(p.path+"."+name, ".")
	before, after := w.propertyOf(p.a, name), w.propertyOf(p.b, name)
	_, forbidden := before.node.parts()
	count := len(w.changes)
	switch {
	case before.declared && !after.declared:
		if !forbidden {
			w.add(semantic.Major, path, "was removed")
		}
		return
	case before.declared && (before.mixed || after.mixed) && !equal([]any(before.node), []any(after.node)):
		w.add(semantic.Major, path, "has a second schema by its pattern or as an additional property, which cannot be compared")
	case before.declared, !forbidden && w.knew(before, name):
		w.compare(path, before.node, after.node, p.filled)
	case !requires(p.b, name):
		w.add(semantic.Minor, path, "is new")
	}
	if p.filled {
		w.defaults(path, name, p, after.node)
	}
	if before.declared && len(w.changes) == count && !equal([]any(before.node), []any(after.node)) {
		w.add(semantic.Minor, path, "accepts more")
	}
}

// knew reports whether old has rules for a property that it does not declare.
func (w *walk) knew(before property, name string) bool {
	return w.strict || len(before.node) > 0 || slices.ContainsFunc(w.before, func(g guard) bool { return g.names(name) })
}

// property has the schemas that apply to a property.
type property struct {
	node
	declared bool // whether one of them is in properties
	mixed    bool // whether it is declared, and others are not in properties
}

// propertyOf returns the schemas of the property name.
func (w *walk) propertyOf(parts []object, name string) (all property) {
	others := false
	for _, p := range parts {
		properties, _ := p["properties"].(object)
		own, matched := properties[name]
		if matched {
			all.node, all.declared = append(all.node, own), true
		}
		patterns, _ := p["patternProperties"].(object)
		for _, pattern := range slices.Sorted(maps.Keys(patterns)) {
			if w.matches(pattern, name) {
				all.node, matched = append(all.node, patterns[pattern]), true
				others = true
			}
		}
		if other, ok := p["additionalProperties"]; ok && !matched {
			all.node = append(all.node, other)
			_, isObject := other.(object)
			others = others || isObject
		}
	}
	all.mixed = all.declared && others
	return all
}

// unknown compares the schemas of the properties that neither schema declares.
func (w *walk) unknown(p *pair) {
	for _, b := range p.b {
		patterns, hasPatterns := b["patternProperties"]
		same := func(a object) bool { return equal(a["patternProperties"], patterns) }
		if hasPatterns && !slices.ContainsFunc(p.a, same) {
			w.add(semantic.Major, p.path, "patternProperties was changed")
		}
		rest, ok := b["additionalProperties"]
		if !ok {
			continue
		}
		var before node
		for _, a := range p.a {
			if own, ok := a["additionalProperties"]; ok && (a["patternProperties"] == nil || hasPatterns && same(a)) {
				before = append(before, own)
			}
		}
		if _, closed := before.parts(); rest == false && !closed {
			w.add(semantic.Major, p.path, "refuses unknown fields (additionalProperties: false)")
			continue
		}
		w.compare(p.path+".*", before, node{rest}, false)
	}
}

func requires(parts []object, name string) bool {
	return slices.ContainsFunc(parts, func(p object) bool { return slices.Contains(stringsOf(p["required"]), name) })
}

// required adds a change for each property that next requires, unless old requires it or next has a default.
func (w *walk) required(p *pair) {
	seen := make(map[string]bool)
	for _, b := range p.b {
		for _, name := range stringsOf(b["required"]) {
			if seen[name] {
				continue
			}
			seen[name] = true
			path := strings.TrimPrefix(p.path+"."+name, ".")
			hadDefault := p.filled && defaultOf(p.a, name) != nil
			switch {
			case p.filled && defaultOf(p.b, name) != nil:
				if !w.propertyOf(p.a, name).declared {
					w.add(semantic.Minor, path, "is new, with a default")
				}
			case requires(p.a, name) && !hadDefault:
			case hadDefault:
				w.add(semantic.Major, path, "is required, and its default was removed")
			default:
				w.add(semantic.Major, path, "is required, and has no default")
			}
		}
	}
}

// defaultOf returns the default of a property, nil if it has none.
func defaultOf(parts []object, name string) any {
	for _, p := range parts {
		properties, _ := p["properties"].(object)
		if o, ok := properties[name].(object); ok && o["default"] != nil {
			return o["default"]
		}
	}
	return nil
}

// defaults compares the defaults of a property. after is its schema in next.
func (w *walk) defaults(path, name string, p *pair, after node) {
	was, is := defaultOf(p.a, name), defaultOf(p.b, name)
	if equal(was, is) {
		return
	}
	if is != nil {
		if ok, err := w.accepts(after, is); err != nil {
			w.undecided(path, err)
		} else if !ok {
			w.add(semantic.Major, path, "does not accept its default %s", text(is))
		}
	}
	for _, g := range w.guards {
		if g.mentions(name) {
			w.add(semantic.Major, path, "the default was changed, and %s may depend on it", g.keyword)
			return
		}
	}
	if w.propertyOf(p.a, name).declared {
		w.add(semantic.Minor, path, "the default is %s in place of %s", text(is), text(was))
	}
}
