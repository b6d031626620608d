package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/docs"
	"github.com/daeace23/prober/internal/shape"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest"
)

// schemas returns the files of docs/schemas by name. Their fields and types are what the readers of the files record,
// their descriptions the texts of the pages of reference. dir is the folder of the documents.
func schemas(dir string) (map[string]string, error) {
	ofProbe, err := annotationTexts()
	ofConfig, configErr := configTexts()
	ofPlugin, pluginErr := manifestTexts(dir)
	ofTest, testErr := testTexts(dir)
	if err := errors.Join(err, configErr, pluginErr, testErr); err != nil {
		return nil, err
	}
	annotation, err := decoded(declared.AnnotationSchema(ofProbe.text))
	manifest, pluginErr := decoded(plugin.ManifestSchema(ofPlugin.text))
	agent, test := config.Shape(), plugintest.Shape()
	agent.Describe("", ofConfig.text)
	test.Describe("", ofTest.text)
	err = errors.Join(err, pluginErr)
	for _, texts := range []*texts{ofProbe, ofConfig, ofPlugin, ofTest} {
		err = errors.Join(err, texts.unused())
	}
	if err != nil {
		return nil, err
	}
	agentSchema := agent.Schema()
	definitions := annotation["$defs"].(map[string]any)
	ofAgent := map[string]any{config.ProbeDefinition: definitions[config.ProbeDefinition]}
	for _, b := range declared.Builtins() {
		ofAgent[b.Field] = definitions[b.Field]
	}
	delete(definitions, config.ProbeDefinition)
	agentSchema["$defs"] = ofAgent
	files := make(map[string]string)
	for _, s := range []struct {
		name, title string
		schema      map[string]any
	}{
		{docs.SchemaOfAnnotation, "The annotation prober.dev/probes of a pod", annotation},
		{docs.SchemaOfConfig, "prober.yaml", agentSchema},
		{docs.SchemaOfPlugin, "plugin.yaml, the manifest of a plugin", manifest},
		{docs.SchemaOfTest, "*_test.yaml, test cases of a plugin", test.Schema()},
	} {
		s.schema["$schema"], s.schema["$id"], s.schema["title"] = "https://json-schema.org/draft/2020-12/schema", docs.SchemaURL(s.name), s.title
		text, err := shape.Encode(s.schema)
		if err != nil {
			return nil, err
		}
		files[s.name+".json"] = string(text)
	}
	return files, nil
}

// decoded returns the value of a JSON text.
func decoded(text []byte, err error) (schema map[string]any, _ error) {
	if err == nil {
		err = json.Unmarshal(text, &schema)
	}
	return schema, err
}

// texts are the texts of fields by path.
type texts struct {
	byPath map[string]string
	used   map[string]bool
}

func newTexts() *texts { return &texts{make(map[string]string), make(map[string]bool)} }

// text returns the text of the field at a path, without links.
func (t *texts) text(path string) string {
	t.used[path] = true
	return plain(t.byPath[path])
}

// unused returns an error about the texts of fields that no reader has.
func (t *texts) unused() (err error) {
	for path := range t.byPath {
		if !t.used[path] {
			err = errors.Join(err, fmt.Errorf("no reader has the field %s", path))
		}
	}
	return err
}

var link = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// plain returns text without the links of Markdown.
func plain(text string) string { return link.ReplaceAllString(text, "$1") }

// withDefault returns the text of a field with its default, if it has one.
func withDefault(text, value string) string {
	if value == "" || value == "none" || strings.HasPrefix(value, "required") {
		return text
	}
	return text + ". Default: " + value
}

// annotationTexts returns the texts of the fields of a probe by path.
func annotationTexts() (*texts, error) {
	defaults, err := annotationDefaults()
	all := newTexts()
	for _, f := range probeFields {
		all.byPath[f.path] = withDefault(f.text, cmp.Or(f.value, defaults[f.path]))
	}
	return all, err
}

// configTexts returns the texts of the fields of prober.yaml by path.
func configTexts() (*texts, error) {
	parsed, err := config.Parse("sample", []byte(sample))
	if err != nil {
		return nil, err
	}
	all := newTexts()
	for _, s := range proberYAML {
		if s.text != "" {
			all.byPath[s.key] = s.text
		}
		for _, f := range s.fields {
			all.byPath[f.path] = withDefault(f.text, cmp.Or(f.value, defaultOf(parsed, f.path)))
		}
	}
	return all, nil
}

// manifestTexts returns the texts of the fields of plugin.yaml by path, from the table of docs/abi.md.
func manifestTexts(dir string) (*texts, error) {
	page, err := os.ReadFile(filepath.Join(dir, "abi.md"))
	if err != nil {
		return nil, err
	}
	all := newTexts()
	_, part, _ := strings.Cut(string(page), "\n## Manifest\n")
	part, _, _ = strings.Cut(part, "\n## ")
	for _, row := range tables(part)["field"] {
		for _, path := range codes(row[0]) {
			if !strings.HasSuffix(path, "*") && row[2] != "" && path != "apiVersion" && path != "kind" {
				all.byPath[path] = withDefault(row[2], row[1])
			}
		}
	}
	return all, nil
}

// testTables are the tables of docs/plugins/test-cases.md with fields of test files, by their first heading, and the
// paths of these fields.
var testTables = map[string]string{
	"field of a case": "cases[].", "field of `host`": "cases[].host.", "step of a `script`": "cases[].host.net[].script[].",
	"field of `lengthPrefix`": "cases[].host.net[].script[].recv.lengthPrefix.", "field of `peer`": "cases[].host.net[].peer.",
	"field of `want`": "cases[].want.",
}

// testTexts returns the texts of the fields of test files by path, from the tables of the page about them.
func testTexts(dir string) (*texts, error) {
	page, err := os.ReadFile(filepath.Join(dir, "plugins", "test-cases.md"))
	if err != nil {
		return nil, err
	}
	all, found := newTexts(), tables(string(page))
	for heading, prefix := range testTables {
		if len(found[heading]) == 0 {
			return nil, fmt.Errorf("docs/plugins/test-cases.md has no table %q", heading)
		}
		for _, row := range found[heading] {
			for _, code := range codes(row[0]) {
				name, _, _ := strings.Cut(code, ":") // such as handshake: {}
				all.byPath[prefix+name] = row[1]
			}
		}
	}
	return all, nil
}

// tables returns the rows of the tables of a page by the first cell of their head.
func tables(page string) map[string][][]string {
	all := make(map[string][][]string)
	heading := ""
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| ") {
			if !strings.HasPrefix(line, "|") {
				heading = ""
			}
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if heading == "" {
			heading = cells[0]
			continue
		}
		all[heading] = append(all[heading], cells)
	}
	return all
}

var code = regexp.MustCompile("`([^`]+)`")

// codes returns the texts between backquotes.
func codes(text string) (all []string) {
	for _, m := range code.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}
