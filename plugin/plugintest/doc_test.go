package plugintest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/plugin/plugintest"
)

// What the documentation shows of the format can be read as it stands.
func TestDocumentationExamplesLoad(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	var block strings.Builder
	for line := range strings.Lines(string(text)) {
		code, ok := strings.CutPrefix(line, "//\t")
		if ok {
			block.WriteString("    " + code)
			continue
		}
		blocks = append(blocks, block.String())
		block.Reset()
	}
	read := 0
	for _, b := range blocks {
		name, _, _ := strings.Cut(strings.TrimSpace(b), ":")
		if strings.Contains(b, "…") {
			continue
		}
		switch name {
		case "net", "http", "dns":
			b = "  host:\n" + b + "  want: {result: success}\n"
		case "want":
			b = strings.ReplaceAll(b, "\n    ", "\n  ")[2:]
		case "kind":
			b = "  request:\n" + b + "  want: {result: success}\n"
		default:
			continue
		}
		read++
		path := filepath.Join(t.TempDir(), "doc_test.yaml")
		if err := os.WriteFile(path, []byte("apiVersion: prober.dev/v1\nkind: PluginTest\nplugin: x.wasm\ncases:\n- name: documented\n"+b), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := plugintest.Load(path); err != nil {
			t.Errorf("%v\n%s", err, b)
		}
	}
	if read != 5 {
		t.Errorf("%d blocks were read", read)
	}
}
