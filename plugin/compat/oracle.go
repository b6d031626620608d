package compat

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"

	"github.com/daeace23/prober/plugin/schema"
)

// maxWork bounds the work of one comparison, in units of about 0.1 µs: a second or two.
const maxWork = 15_000_000

// oracle answers questions about the schemas of one comparison. Its answers are kept by the address of a schema,
// which the oracle refers to.
type oracle struct {
	left     int // work that may still be done
	members  map[uintptr]*member
	weights  map[uintptr]weight
	patterns map[string]*regexp.Regexp // nil for one that package regexp does not read
}

func newOracle() *oracle {
	return &oracle{
		left: maxWork, members: make(map[uintptr]*member), weights: make(map[uintptr]weight), patterns: make(map[string]*regexp.Regexp),
	}
}

// spend reports whether work may be done.
func (o *oracle) spend(work int) bool {
	if o.left >= 0 {
		o.left -= work
	}
	return o.left >= 0
}

func addressOf(s object) uintptr { return reflect.ValueOf(s).Pointer() }

// weight is the number of values in a schema. A long text counts as several.
type weight struct {
	schema object
	deep   int // of all
	own    int // without the values that are compared by themselves
}

// apart are the keywords whose values are compared by themselves.
var apart = []string{"allOf", "anyOf", "properties", "items", "prefixItems", "additionalProperties"}

// weigh returns the weight of a JSON value.
func (o *oracle) weigh(value any) int {
	switch v := value.(type) {
	case object:
		return o.weightOf(v).deep
	case []any:
		sum := 1
		for _, item := range v {
			sum += o.weigh(item)
		}
		return sum
	case string:
		return 1 + len(v)/8
	case json.Number:
		return 1 + len(v)/8
	}
	return 1
}

func (o *oracle) weightOf(s object) weight {
	if w, ok := o.weights[addressOf(s)]; ok {
		return w
	}
	w := weight{s, 1, 1}
	for keyword, value := range s {
		n := o.weigh(value) + len(keyword)/8
		w.deep += n
		if !slices.Contains(apart, keyword) {
			w.own += n
		}
	}
	o.weights[addressOf(s)] = w
	return w
}

// ownWeight returns the weight of parts without the values that are compared by themselves.
func (o *oracle) ownWeight(parts []object) (sum int) {
	for _, p := range parts {
		sum += o.weightOf(p).own
	}
	return sum
}

func (o *oracle) deepWeight(parts []object) (sum int) {
	for _, p := range parts {
		sum += o.weightOf(p).deep
	}
	return sum
}

// matches reports whether a property's name may match a pattern.
func (o *oracle) matches(pattern, name string) bool {
	if !o.spend(1 + len(pattern)*len(name)/64) {
		return true
	}
	re, ok := o.patterns[pattern]
	if !ok {
		re, _ = regexp.Compile(pattern)
		o.patterns[pattern] = re
		o.spend(100 + 10*len(pattern))
	}
	return re == nil || re.MatchString(name)
}

// accepts reports whether a host accepts a value for a field of the schemas n. It returns an error if a host would
// refuse the schemas or the value for another reason than the schemas' rules, such as their size.
func (o *oracle) accepts(n node, value any) (bool, error) {
	switch value.(type) {
	case object, []any:
		// Together, since one schema may require what another fills in.
		return o.memberOf(object{"allOf": []any(n)}, false).apply(o, value)
	}
	return o.allAccept(n, scalar{value, keyOf(value)})
}

// scalar is a value that is neither an object nor an array.
type scalar struct {
	value any
	key   any // the same for equal values
}

// allAccept reports whether each of the schemas accepts v.
func (o *oracle) allAccept(schemas []any, v scalar) (bool, error) {
	for _, s := range schemas {
		if ok, err := o.acceptsScalar(s, v); !ok {
			return false, err
		}
	}
	return true, nil
}

// member is a schema, taken apart for scalars.
type member struct {
	schema   object
	values   map[any]bool // of enum and const, nil if there are none
	allOf    []any
	anyOf    []any // nil if there is none
	rest     object
	compiled *schema.Schema // of rest, nil if it is empty or after err
	err      error
	verdicts map[any]verdict // for values
}

type verdict struct {
	ok  bool
	err error
}

// memberOf returns s, compiled. If split is true, enum, const, allOf and anyOf are not a part of it: package schema
// takes microseconds for each value of an enum.
func (o *oracle) memberOf(s object, split bool) *member {
	if m, ok := o.members[addressOf(s)]; ok {
		return m
	}
	m := &member{schema: s, rest: maps.Clone(s), verdicts: make(map[any]verdict)}
	o.members[addressOf(s)] = m
	if split {
		m.allOf, _ = s["allOf"].([]any)
		m.anyOf, _ = s["anyOf"].([]any)
		if list, ok := listed([]object{s}); ok {
			m.values = make(map[any]bool, len(list))
			for _, v := range list {
				switch v.(type) {
				case object, []any: // equals no scalar
				default:
					m.values[keyOf(v)] = true
				}
			}
		}
		_, both := s["const"]
		for _, keyword := range []string{"allOf", "anyOf", "const", "default"} {
			delete(m.rest, keyword)
		}
		if !both {
			delete(m.rest, "enum")
		}
	}
	if len(m.rest) > 0 {
		m.compile(o)
	}
	return m
}

func (m *member) compile(o *oracle) {
	if !o.spend(100 + 50*o.weigh(m.rest)) {
		m.err = errLarge
		return
	}
	doc, err := json.Marshal(object{"properties": object{"v": m.rest}})
	if err == nil {
		m.compiled, err = schema.New(doc)
	}
	m.err = err
}

// acceptsScalar reports whether a host accepts v.
func (o *oracle) acceptsScalar(s any, v scalar) (bool, error) {
	of, ok := s.(object)
	if !ok {
		return s != false, nil
	}
	if !o.spend(2) {
		return false, errLarge
	}
	m := o.memberOf(of, true)
	if m.values != nil && !m.values[v.key] {
		return false, nil
	}
	known, ok := m.verdicts[v.key]
	if !ok {
		known.ok, known.err = m.decide(o, v)
		m.verdicts[v.key] = known
	}
	return known.ok, known.err
}

// decide returns the verdict of allOf, anyOf and the rest of m.
func (m *member) decide(o *oracle, v scalar) (bool, error) {
	if !o.spend(10 + o.weigh(v.value)) {
		return false, errLarge
	}
	if ok, err := o.allAccept(m.allOf, v); !ok {
		return false, err
	}
	if ok, err := m.apply(o, v.value); !ok || m.anyOf == nil {
		return ok, err
	}
	for _, s := range m.anyOf {
		if ok, err := o.acceptsScalar(s, v); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// apply returns the verdict of a host about a value for the compiled part of m.
func (m *member) apply(o *oracle, value any) (bool, error) {
	if m.err != nil || len(m.rest) == 0 {
		return m.err == nil, m.err
	}
	if !o.spend(100 + 50*o.weigh(m.rest)) {
		return false, errLarge
	}
	config, err := json.Marshal(object{"v": value})
	if err != nil {
		return false, fmt.Errorf("the value %s: %w", text(value), err)
	}
	_, err = m.compiled.Apply(config)
	if _, invalid := errors.AsType[*schema.FieldError](err); invalid {
		return false, nil
	}
	return err == nil, err
}

// numeral is a number's value in its shortest form.
type numeral string

// keyOf returns a key for a scalar, the same for equal ones.
func keyOf(value any) any {
	if n, ok := value.(json.Number); ok {
		return numeral(number(n).RatString())
	}
	return value
}
