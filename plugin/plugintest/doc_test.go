package plugintest_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/plugin/plugintest"
)

// TestDocumentationExamplesLoad loads the examples in doc.go of a request, a wanted answer and the
// field of each protocol.
func TestDocumentationExamplesLoad(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	empty, err := loadCase(t, "  want: {result: success}\n")
	if err != nil {
		t.Fatal(err)
	}
	protocols := len(empty.Cases[0].Peers)
	loaded := make(map[string]int)
	for _, block := range codeBlocks(string(text)) {
		name, _, _ := strings.Cut(strings.TrimSpace(block), ":")
		if strings.Contains(block, "…") {
			continue
		}
		var example string
		switch {
		case name == "want":
			example = strings.ReplaceAll(block, "\n    ", "\n  ")[2:]
		case name == "kind":
			example = "  request:\n" + block + "  want: {result: success}\n"
		case isProtocol(t, name):
			name, example = "host", "  host:\n"+block+"  want: {result: success}\n"
		default:
			continue
		}
		loaded[name]++
		if _, err := loadCase(t, example); err != nil {
			t.Errorf("%v\n%s", err, example)
		}
	}
	if want := map[string]int{"want": 1, "kind": 1, "host": protocols}; !maps.Equal(loaded, want) {
		t.Errorf("loaded examples %v, want %v", loaded, want)
	}
}

// codeBlocks returns the code blocks of a comment, indented by four spaces. Some are empty.
func codeBlocks(text string) (blocks []string) {
	var block strings.Builder
	for line := range strings.Lines(text) {
		if code, ok := strings.CutPrefix(line, "//\t"); ok {
			block.WriteString("    " + code)
			continue
		}
		blocks = append(blocks, block.String())
		block.Reset()
	}
	return blocks
}

// isProtocol reports whether host takes a list of peers in the field name.
func isProtocol(t *testing.T, name string) bool {
	t.Helper()
	if name == "" || strings.Contains(name, "\n") {
		return false
	}
	_, err := loadCase(t, "  host: {"+name+": []}\n  want: {result: success}\n")
	return err == nil
}

// loadCase loads a test file with one case, whose fields are indented by two spaces.
func loadCase(t *testing.T, fields string) (*plugintest.File, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "doc_test.yaml")
	text := "apiVersion: prober.dev/v1\nkind: PluginTest\nplugin: x.wasm\ncases:\n- name: documented\n" + fields
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return plugintest.Load(path)
}
