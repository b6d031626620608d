package compat

import (
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/daeace23/prober/internal/semantic"
)

// scalars compares types, bounds and patterns.
func (w *walk) scalars(p *pair) {
	for _, b := range p.b {
		if listed := typeList(b); listed != nil && len(intersect(p.types, listed)) < len(p.types) {
			w.add(semantic.Major, p.path, "has the type %s in place of %s", text(b["type"]), shownTypes(p.types))
			return // the other rules compare values of the accepted types
		}
	}
	for _, b := range p.b {
		w.bounds(p, b)
		w.steps(p, b)
		w.same(p, b, "string", "pattern")
		if b["uniqueItems"] == true {
			w.same(p, b, "array", "uniqueItems")
		}
	}
}

// shownTypes returns types for messages.
func shownTypes(types []string) string {
	if len(types) == len(allTypes) {
		return "any"
	}
	if slices.Contains(types, "number") {
		types = slices.DeleteFunc(slices.Clone(types), func(t string) bool { return t == "integer" })
	}
	return strings.Join(types, " or ")
}

// same adds a change for each of the keywords that no part of old has with the same value. The keywords apply to
// values of one type.
func (w *walk) same(p *pair, b object, ofType string, keywords ...string) {
	if !slices.Contains(p.types, ofType) {
		return
	}
	for _, keyword := range keywords {
		v, ok := b[keyword]
		if ok && !slices.ContainsFunc(p.a, func(a object) bool { other, ok := a[keyword]; return ok && equal(other, v) }) {
			w.add(semantic.Major, p.path, "%s is %s", keyword, text(v))
		}
	}
}

// bound is a keyword that bounds values of some types.
type bound struct {
	keyword, ofType string
	lower           bool
	others          []string // keywords of old that imply the bound if they are stricter
	exclusive       string   // the one of others that excludes its own value
}

var bounds = []bound{
	{"minimum", "number", true, []string{"minimum", "exclusiveMinimum"}, "exclusiveMinimum"},
	{"exclusiveMinimum", "number", true, []string{"minimum", "exclusiveMinimum"}, "exclusiveMinimum"},
	{"maximum", "number", false, []string{"maximum", "exclusiveMaximum"}, "exclusiveMaximum"},
	{"exclusiveMaximum", "number", false, []string{"maximum", "exclusiveMaximum"}, "exclusiveMaximum"},
	{"minLength", "string", true, []string{"minLength"}, ""},
	{"maxLength", "string", false, []string{"maxLength"}, ""},
	{"minItems", "array", true, []string{"minItems"}, ""},
	{"maxItems", "array", false, []string{"maxItems"}, ""},
	{"minProperties", "object", true, []string{"minProperties"}, ""},
	{"maxProperties", "object", false, []string{"maxProperties"}, ""},
}

func (w *walk) bounds(p *pair, b object) {
	for _, k := range bounds {
		limit, ok := b[k.keyword].(json.Number)
		if !ok || !slices.Contains(p.types, k.ofType) && (k.ofType != "number" || !slices.Contains(p.types, "integer")) {
			continue
		}
		if k.ofType != "number" && k.lower && number(limit).Sign() <= 0 {
			continue // a length is never below 0
		}
		if !slices.ContainsFunc(p.a, func(a object) bool { return k.implied(a, number(limit)) }) {
			w.add(semantic.Major, p.path, "%s is %s", k.keyword, limit)
		}
	}
}

// implied reports whether the part a of old has a bound that is as strict as limit.
func (k *bound) implied(a object, limit *big.Rat) bool {
	return slices.ContainsFunc(k.others, func(keyword string) bool {
		own, ok := a[keyword].(json.Number)
		if !ok {
			return false
		}
		order := number(own).Cmp(limit)
		if !k.lower {
			order = -order
		}
		return order > 0 || order == 0 && (keyword == k.exclusive || k.keyword != k.exclusive)
	})
}

// steps compares multipleOf.
func (w *walk) steps(p *pair, b object) {
	step, ok := b["multipleOf"].(json.Number)
	integers := slices.Contains(p.types, "integer")
	numbers := slices.Contains(p.types, "number")
	if !ok || !integers && !numbers {
		return
	}
	multiple := func(of *big.Rat) bool { return new(big.Rat).Quo(of, number(step)).IsInt() }
	if integers && !numbers && multiple(big.NewRat(1, 1)) {
		return
	}
	if !slices.ContainsFunc(p.a, func(a object) bool { own, ok := a["multipleOf"].(json.Number); return ok && multiple(number(own)) }) {
		w.add(semantic.Major, p.path, "multipleOf is %s", step)
	}
}

// group is a list of keywords that make one rule together, for values of one type; "" for all.
type group struct {
	ofType   string
	keywords []string
}

// wholes are the rules that Compare does not take apart: old must have the same.
var wholes = []group{
	{"", []string{"not"}},
	{"", []string{"if", "then", "else"}},
	{"", []string{"oneOf"}},
	{"array", []string{"contains", "minContains", "maxContains"}},
	{"object", []string{"propertyNames"}},
	{"object", []string{"dependentSchemas"}},
}

// groups compares rules of several keywords.
func (w *walk) groups(p *pair) {
	for _, b := range p.b {
		for _, g := range wholes {
			if b[g.keywords[0]] == nil || g.ofType != "" && !slices.Contains(p.types, g.ofType) {
				continue
			}
			if !slices.ContainsFunc(p.a, func(a object) bool { return equal(g.of(a), g.of(b)) }) {
				w.add(semantic.Major, p.path, "%s was added or changed", g.keywords[0])
			}
		}
		for _, keyword := range []string{"unevaluatedProperties", "unevaluatedItems"} {
			if v, ok := b[keyword]; ok && v != true {
				w.add(semantic.Major, p.path, "%s cannot be compared", keyword)
			}
		}
		w.alternatives(p, b)
		w.dependents(p, b)
	}
}

// of returns the values of the keywords in a part.
func (g *group) of(part object) []any {
	all := make([]any, len(g.keywords))
	for i, k := range g.keywords {
		all[i] = part[k]
	}
	return all
}

// alternatives compares anyOf: one of its schemas must accept all that old accepts, or each of old's alternatives
// must be within one of them.
func (w *walk) alternatives(p *pair, b object) {
	list, ok := b["anyOf"].([]any)
	if !ok {
		return
	}
	w.unclear = nil
	within := func(old node) bool {
		return slices.ContainsFunc(list, func(s any) bool { return w.includes(old, node{s}) })
	}
	if within(p.old) {
		return
	}
	for _, a := range p.a {
		before, ok := a["anyOf"].([]any)
		if ok && !slices.ContainsFunc(before, func(s any) bool { return !within(append(node{s}, p.old...)) }) {
			return
		}
	}
	switch {
	case w.left < 0:
		w.tooLarge(p.path)
	case w.unclear != nil:
		w.add(semantic.Major, p.path, "anyOf cannot be compared: %v", w.unclear)
	default:
		w.add(semantic.Major, p.path, "anyOf was added or narrowed")
	}
}

// dependents compares dependentRequired.
func (w *walk) dependents(p *pair, b object) {
	needs, _ := b["dependentRequired"].(object)
	if !slices.Contains(p.types, "object") {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(needs)) {
		for _, other := range stringsOf(needs[name]) {
			implied := slices.ContainsFunc(p.a, func(a object) bool {
				before, _ := a["dependentRequired"].(object)
				return slices.Contains(stringsOf(before[name]), other)
			})
			if !implied && !(requires(p.a, other) && !p.filled) {
				w.add(semantic.Major, p.path+"."+other, "is required with %s", name)
			}
		}
	}
}

// arrays compares items.
func (w *walk) arrays(p *pair) {
	if !slices.Contains(p.types, "array") {
		return
	}
	for _, b := range p.b {
		first, _ := b["prefixItems"].([]any)
		for i, s := range first {
			w.compare(p.path+"["+strconv.Itoa(i)+"]", itemsAt(p.a, i), node{s}, false)
		}
		rest, ok := b["items"]
		if !ok {
			continue
		}
		longest := len(first)
		for _, a := range p.a {
			own, _ := a["prefixItems"].([]any)
			longest = max(longest, len(own))
		}
		for i := len(first); i < longest; i++ {
			w.compare(p.path+"["+strconv.Itoa(i)+"]", itemsAt(p.a, i), node{rest}, false)
		}
		w.compare(p.path+"[]", itemsAt(p.a, longest), node{rest}, false)
	}
}

// itemsAt returns the schemas that apply to the item at an index.
func itemsAt(parts []object, at int) (n node) {
	for _, p := range parts {
		first, _ := p["prefixItems"].([]any)
		if at < len(first) {
			n = append(n, first[at])
		} else if rest, ok := p["items"]; ok {
			n = append(n, rest)
		}
	}
	return n
}

// guard is a rule of next whose result may depend on the presence or value of properties at or below an object.
type guard struct {
	keyword string
	text    string // its value as JSON
}

// guardsOf returns the guards of parts.
func guardsOf(parts []object) (all []guard) {
	for _, p := range parts {
		for _, keyword := range []string{
			"anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependentRequired", "propertyNames", "minProperties", "maxProperties",
			"const", "enum", "unevaluatedProperties",
		} {
			if v, ok := p[keyword]; ok {
				data, _ := json.Marshal(object{keyword: v})
				all = append(all, guard{keyword, string(data)})
			}
		}
	}
	return all
}

// generic are the keywords by which a rule depends on properties that it does not name.
var generic = []string{
	"additionalProperties", "unevaluatedProperties", "propertyNames", "patternProperties", "minProperties", "maxProperties", "const", "enum",
}

// names reports whether g names a property.
func (g *guard) names(name string) bool {
	quoted, _ := json.Marshal(name)
	return strings.Contains(g.text, string(quoted))
}

// mentions reports whether g may depend on a property of this name.
func (g *guard) mentions(name string) bool {
	return g.names(name) || slices.ContainsFunc(generic, func(k string) bool { return strings.Contains(g.text, `"`+k+`"`) })
}
