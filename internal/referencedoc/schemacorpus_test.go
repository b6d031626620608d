package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/docs"
)

// example is a document of the repository.
type document struct {
	file  string
	value any
}

var yamlBlock = regexp.MustCompile("(?ms)^ *```yaml\n(.*?)^ *```")

// examples returns the documents of the repository by the name of their schema: files, blocks of pages, and files in
// archives of scripts.
func examples(t *testing.T) map[string][]document {
	t.Helper()
	all := make(map[string][]document)
	add := func(file string, text []byte) {
		for _, value := range parsed(text) {
			addExample(all, file, value)
		}
	}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if err == nil && (d.Name() == ".git" || d.Name() == "bin" || d.Name() == "fuzz" || d.Name() == "node_modules" || d.Name() == "dist") {
				return fs.SkipDir
			}
			return err
		}
		ext := filepath.Ext(path)
		if ext != ".yaml" && ext != ".md" && ext != ".txtar" && ext != ".tmpl" {
			return nil
		}
		text, err := os.ReadFile(path)
		switch ext {
		case ".md":
			for _, block := range yamlBlock.FindAllSubmatch(text, -1) {
				add(path, block[1])
			}
		case ".txtar":
			for _, file := range txtar.Parse(text).Files {
				if filepath.Ext(file.Name) == ".yaml" {
					add(path, file.Data)
				}
			}
		default:
			add(path, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// addExample adds a document, if it has a schema.
func addExample(all map[string][]document, file string, value any) {
	top, _ := value.(map[string]any)
	names := map[any]string{config.Kind: docs.SchemaOfConfig, "Plugin": docs.SchemaOfPlugin, "PluginTest": docs.SchemaOfTest}
	name := names[top["kind"]]
	if _, ok := top["apiVersion"].(string); ok && name != "" {
		all[name] = append(all[name], document{file, value})
		return
	}
	metadata, _ := top["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	text, ok := annotations[declared.Annotation].(string)
	if !ok {
		return
	}
	asJSON, err := declared.AnnotationJSON(text)
	var probes any
	if err == nil && json.Unmarshal(asJSON, &probes) == nil {
		all[docs.SchemaOfAnnotation] = append(all[docs.SchemaOfAnnotation], document{file, probes})
	}
}

// TestSchemasAcceptValidFiles validates all documents of the repository that their reader accepts.
func TestSchemasAcceptValidFiles(t *testing.T) {
	all := examples(t)
	for name, r := range readers(t) {
		valid := 0
		for _, e := range all[name] {
			if r.decode(t, e.value) != nil {
				continue
			}
			valid++
			if err := r.schema.Validate(e.value); err != nil {
				t.Errorf("%s is valid, and not by the schema: %v\n%s", e.file, err, asJSON(t, e.value))
			}
		}
		if valid < 20 {
			t.Errorf("%d of %d documents of %s are valid", valid, len(all[name]), name)
		}
	}
}

// odd is a text that no field with few values has.
const odd = "no such text"

// spoiled are the values that take the place of each value of a valid document.
var spoiled = []any{odd, "", 1.5, 7, -7, true, "5s", []any{}, []any{odd}, map[string]any{}, map[string]any{unknown: 1}}

// byShape matches the errors of readers about types, fields and values of an enumeration: those that a schema must
// find too.
var byShape = regexp.MustCompile(`unknown field|the field is required|must be (a mapping|a list|a string|true or false|an integer|a duration|a number|an object)|unknown value|Unsupported value`)

// laxer are the errors among them that no schema finds, with the reason.
var laxer = map[string]string{
	`must be a duration such as 30d`:                                       "durations with days have no pattern",
	`(mode|protocol): Unsupported value`:                                   "only one release of Kubernetes has the field",
	`command(\.args)?\[0\]: must be a string, not a list`:                  "only the first of a list is a text",
	`\.want: the field is required`:                                        "the session of replay may have it",
	`\.result: the field is required`:                                      "the session of replay may have it",
	`(url|urlFile|room|[a-zA-Z]+File|chatID): the field is required`:       "the format of a webhook decides",
	`source: the field is required`:                                        "only a shadow needs it",
	`\.(min|max|eq).*: must be a number|metrics.*: must be a number`:       "a number may be written as a text",
	`port: Invalid value: ("[^"]*"): must be a number`:                     "only targets need a number",
	`examples\[\d+\]`:                                                      "the schema of the manifest checks its examples",
	`\.let\..*must be an integer`:                                          "an expression has no pattern",
	`config\.schema`:                                                       "the schema of a manifest is any value here",
	`(idle|start|fuel|limits|budgets|seed).*must be (an integer|a number)`: "a count may be written as a text",
}

// TestSchemasAgreeWithReaders replaces each value of valid documents by others, and adds unknown fields. What a reader
// accepts, the schema must accept. What a reader refuses for its type, its name or an enumeration, the schema must
// refuse.
func TestSchemasAgreeWithReaders(t *testing.T) {
	all := examples(t)
	for name, r := range readers(t) {
		t.Run(name, func(t *testing.T) {
			refused, accepted := 0, 0
			s := spoiler{seen: make(map[string]bool), fields: map[string]bool{unknown: true}}
			r.visit(r.tree, nil, func(_ map[string]any, path []string) {
				if len(path) > 0 {
					s.fields[path[len(path)-1]] = true
				}
			})
			slices.SortStableFunc(all[name], func(a, b document) int { return cmp.Compare(len(asJSON(t, a.value)), len(asJSON(t, b.value))) })
			for _, e := range all[name] { // the smallest first, which take the least time
				if !s.adds(e.value, "") || r.decode(t, e.value) != nil {
					continue
				}
				if less := s.pruned(e.value, ""); r.decode(t, less) == nil {
					e.value = less
				}
				s.spoil(e.value, "", func(at string) {
					err, schemaErr := r.decode(t, e.value), r.schema.Validate(normal(t, e.value))
					switch {
					case err == nil && schemaErr != nil && !stricter.MatchString(at):
						t.Errorf("%s: the reader accepts %s, the schema does not: %v", e.file, at, schemaErr)
					case err == nil:
						accepted++
					case schemaErr != nil:
						refused++
					case byShape.MatchString(err.Error()) && !isLaxer(err.Error()):
						t.Errorf("%s: the schema accepts %s, the reader does not: %v", e.file, at, err)
					}
				})
			}
			if refused < 200 || accepted < 20 {
				t.Errorf("%d changed documents were refused by both, %d accepted by both", refused, accepted)
			}
		})
	}
}

// stricter matches changes that only the reader accepts: a text that is empty is as if it were not set.
var stricter = regexp.MustCompile(`\.(errorPolicy|warningAs|initialState|scheme|mode|protocol|jitter): $`)

func isLaxer(err string) bool {
	for pattern := range laxer {
		if regexp.MustCompile(pattern).MatchString(err) {
			return true
		}
	}
	return false
}

// normal returns the document as JSON has it: with numbers of one type.
func normal(t *testing.T, was any) (value any) {
	t.Helper()
	if err := json.Unmarshal(asJSON(t, was), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// spoiler changes documents.
type spoiler struct {
	fields map[string]bool // all names of fields in the schema; other names are of maps, and stand for each other
	seen   map[string]bool // paths whose values were changed
}

// anyValue matches the paths of values that the schema does not describe.
var anyValue = regexp.MustCompile(`\.(config\.schema|(examples\[\]|request|plugin)\.config|json)$`)

// below returns the path of a field.
func (s *spoiler) below(path, name string) string {
	if !s.fields[name] {
		name = "*"
	}
	return path + "." + name
}

// adds reports whether a value has a path that was not seen.
func (s *spoiler) adds(value any, path string) bool {
	if path != "" && !s.seen[path] {
		return true
	}
	if anyValue.MatchString(path) {
		return false
	}
	switch v := value.(type) {
	case map[string]any:
		for name, below := range v {
			if s.adds(below, s.below(path, name)) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(below any) bool { return s.adds(below, path+"[]") })
	}
	return false
}

// pruned returns a value without the items of lists that have no path that was not seen.
func (s *spoiler) pruned(value any, path string) any {
	switch v := value.(type) {
	case map[string]any:
		less := make(map[string]any, len(v))
		for name, below := range v {
			less[name] = s.pruned(below, s.below(path, name))
		}
		return less
	case []any:
		less := []any{}
		for _, below := range v {
			if s.adds(below, path+"[]") {
				less = append(less, s.pruned(below, path+"[]"))
			}
		}
		if len(less) == 0 {
			return v[:min(1, len(v))]
		}
		return less
	default:
		return value
	}
}

// spoil calls f with each change of a value below value, while the change is made.
func (s *spoiler) spoil(value any, path string, f func(at string)) {
	if anyValue.MatchString(path) {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		if !s.seen[path+"."+unknown] {
			s.seen[path+"."+unknown] = true
			v[unknown] = 1
			f(path + "." + unknown)
			delete(v, unknown)
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			was, at := v[name], s.below(path, name)
			if !s.seen[at] {
				delete(v, name)
				f("the missing " + at)
			}
			s.replace(was, at, func(other any) { v[name] = other }, f)
			v[name] = was
			s.spoil(was, at, f)
		}
	case []any:
		for i, was := range v {
			s.replace(was, path+"[]", func(other any) { v[i] = other }, f)
			v[i] = was
			s.spoil(was, path+"[]", f)
		}
	}
}

// replace calls f with each value in the place of one.
func (s *spoiler) replace(was any, at string, set func(any), f func(at string)) {
	if s.seen[at] {
		return
	}
	s.seen[at] = true
	for _, other := range spoiled {
		set(other)
		f(fmt.Sprintf("%s: %v", at, other))
	}
	set(was)
}
