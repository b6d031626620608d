package compat

import (
	"maps"
	"slices"
	"strconv"

	"github.com/daeace23/prober/internal/semantic"
)

// remarks are keywords that hosts do not check in a config. Their changes are reported, and are never breaking.
var remarks = []string{"format", "writeOnly"}

// isRemark reports whether a keyword of a schema is one of the remarks.
func isRemark(keyword string) bool { return slices.Contains(remarks, keyword) }

// withoutRemarks returns a copy of an expanded schema without its remarks.
func withoutRemarks(schema any) any {
	from, ok := schema.(object)
	if !ok {
		return schema
	}
	to := make(object, len(from))
	for keyword, value := range from {
		if !isRemark(keyword) {
			to[keyword] = value
		}
	}
	for keyword, value := range to {
		switch v := value.(type) {
		case []any:
			if keywords[keyword] == inList {
				list := make([]any, len(v))
				for i := range v {
					list[i] = withoutRemarks(v[i])
				}
				to[keyword] = list
			}
		case object:
			if keywords[keyword] == inMap {
				named := make(object, len(v))
				for name := range v {
					named[name] = withoutRemarks(v[name])
				}
				to[keyword] = named
			} else if keywords[keyword] == inSchema {
				to[keyword] = withoutRemarks(v)
			}
		}
	}
	return to
}

// remarksOf has the remarks of each field by its path, such as `format "email"`. A field without remarks has an
// empty set.
type remarksOf map[string]map[string]bool

// collect adds the remarks of an expanded schema, and of its parts.
func (r remarksOf) collect(path string, schema any) {
	s, ok := schema.(object)
	if !ok {
		return
	}
	if r[path] == nil {
		r[path] = make(map[string]bool)
	}
	for _, keyword := range remarks {
		if v, ok := s[keyword]; ok {
			r[path][keyword+" "+text(v)] = true
		}
	}
	for keyword, value := range s {
		switch v := value.(type) {
		case []any:
			for i := range v {
				if keyword == "prefixItems" {
					r.collect(path+"["+strconv.Itoa(i)+"]", v[i])
				} else if keywords[keyword] == inList {
					r.collect(path, v[i])
				}
			}
		case object:
			r.collectObject(path, keyword, v)
		}
	}
}

// collectObject adds the remarks of a keyword's value that is an object.
func (r remarksOf) collectObject(path, keyword string, value object) {
	switch kind := keywords[keyword]; {
	case keyword == "items" || keyword == "contains" || keyword == "unevaluatedItems":
		r.collect(path+"[]", value)
	case keyword == "additionalProperties" || keyword == "unevaluatedProperties":
		r.collect(path+".*", value)
	case kind == inSchema:
		r.collect(path, value)
	case kind == inMap:
		for name, inner := range value {
			switch keyword {
			case "properties":
				r.collect(path+"."+name, inner)
			case "patternProperties":
				r.collect(path+".*", inner)
			default:
				r.collect(path, inner)
			}
		}
	}
}

// remarked adds a change for each remark that a field has in only one of two expanded schemas.
func (w *walk) remarked(old, next any) {
	before, after := make(remarksOf), make(remarksOf)
	before.collect("config", old)
	after.collect("config", next)
	for _, path := range slices.Sorted(maps.Keys(after)) {
		was, declared := before[path]
		if !declared {
			continue
		}
		for _, remark := range slices.Sorted(maps.Keys(after[path])) {
			if !was[remark] {
				w.add(semantic.Minor, path, "%s was added; hosts do not check it", remark)
			}
		}
		for _, remark := range slices.Sorted(maps.Keys(was)) {
			if !after[path][remark] {
				w.add(semantic.Minor, path, "%s was removed; hosts did not check it", remark)
			}
		}
	}
}
