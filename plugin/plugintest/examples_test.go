package plugintest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest"
)

const (
	examplesFolder = "../../examples/plugins"
	exampleOf      = "EXAMPLE" // environment variable: the example that a process serves
)

// exampleLeftOut maps the example plugins in Go to the case that is left out for a process, if any.
var exampleLeftOut = map[string]string{
	"httpjson": "", "redis": "metadata address is denied", "tls-expiry": "",
}

// overlay writes an overlay for go build and returns its path. It adds the examples as packages, and
// a program that serves the example named by an environment variable. The examples themselves need
// not support processes.
func overlay() (path string, err error) {
	dir, err := os.MkdirTemp(scratch, "examples-")
	if err != nil {
		return "", err
	}
	root, err := filepath.Abs("testdata/examples")
	if err != nil {
		return "", err
	}
	seen := make(map[string]string)
	put := func(name, text string) error {
		file := filepath.Join(dir, strings.ReplaceAll(name, "/", "-"))
		seen[filepath.Join(root, filepath.FromSlash(name))] = file
		return os.WriteFile(file, []byte(text), 0o600)
	}
	var imports, plugins strings.Builder
	for name := range exampleLeftOut {
		ident := strings.ReplaceAll(name, "-", "")
		manifest, err := os.ReadFile(filepath.Join(examplesFolder, name, "plugin.yaml"))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&imports, "\t%s %q\n", ident, "github.com/daeace23/prober/plugin/plugintest/testdata/examples/"+name)
		fmt.Fprintf(&plugins, "\tcase %q:\n\t\tprocess.Serve(%s.Plugin(), []byte(%q))\n", name, ident, manifest)
		if err := asPackage(name, ident, put); err != nil {
			return "", err
		}
	}
	main := "package main\n\nimport (\n\t\"os\"\n\n\t\"github.com/daeace23/prober/sdk/process\"\n" + imports.String() + ")\n\n" +
		"func main() {\n\tswitch os.Getenv(\"" + exampleOf + "\") {\n" + plugins.String() + "\t}\n}\n"
	if err := put("main.go", main); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{"Replace": seen})
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

// asPackage adds the sources of an example as a package that exports its plugin.
func asPackage(name, ident string, put func(name, text string) error) error {
	files, err := filepath.Glob(filepath.Join(examplesFolder, name, "*.go"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		renamed := strings.Replace(string(text), "package main\n", "package "+ident+"\n", 1)
		if err := put(name+"/"+filepath.Base(file), renamed); err != nil {
			return err
		}
	}
	return put(name+"/export.go", "package "+ident+"\n\nfunc Plugin() check { return check{} }\n")
}

func TestExamplesPassAsProcesses(t *testing.T) {
	t.Parallel()
	path, err := overlay()
	if err != nil {
		t.Fatal(err)
	}
	examples := built("examples", nil, "-overlay", path, "./testdata/examples")
	for name, left := range exampleLeftOut {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := filepath.Join(examplesFolder, name)
			f, err := plugintest.Load(filepath.Join(folder, name+plugintest.Suffix))
			if err != nil {
				t.Fatal(err)
			}
			start := func(ctx context.Context, found plugin.Found, env []string) (plugintest.Program, error) {
				cfg := process.Config{Env: append(env, exampleOf+"="+name), StartTimeout: time.Minute, Pause: time.Millisecond, MaxPause: time.Millisecond}
				return process.Load(ctx, cfg, found)
			}
			report := run(t, f, plugintest.Config{Plugin: program(t, examples, name, read(t, filepath.Join(folder, "plugin.yaml"))), Process: start})
			judged(t, report)
			for _, r := range report.Results {
				if check := strings.HasPrefix(r.Name, "conformance: "); r.LeftOut != "" && !check && r.Name != left {
					t.Errorf("%s is left out: %s", r.Name, r.LeftOut)
				}
			}
		})
	}
}
