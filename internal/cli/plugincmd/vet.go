package plugincmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/internal/joined"
	"github.com/daeace23/prober/internal/wasmfile"
	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest"
	"github.com/daeace23/prober/probe"
)

func newVet(env *command.Env) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "vet [PATH]",
		Short: "Report likely mistakes in a plugin",
		Long: "Vet checks the project of a plugin. PATH is the folder, its module or its plugin.yaml. It reports:\n\n" +
			"  calls that reach no network inside a guest, in all packages of its Go module\n" +
			"  a program that never serves\n" +
			"  missing parts of the manifest, and missing test cases\n" +
			"  errors of loading the built module, which vet starts once, in the sandbox\n" +
			"  requests of the manifest that the module does not use\n\n" +
			"Exit code 0 nothing found, 1 something found, 64 wrong usage.",
		Example: "  prober plugin vet demo\n  prober plugin vet -o json",
		Args:    command.AtMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			return vetPlugin(cmd.Context(), env, folderOf(args), output)
		},
	}
	command.OutputFlag(c, &output, command.Table, command.JSON, command.YAML)
	return c
}

// finding is one mistake and its place.
type finding struct {
	Path    string `json:"path"`
	Line    int    `json:"line,omitzero"`
	Column  int    `json:"column,omitzero"`
	Field   string `json:"field,omitzero"` // of the manifest
	Message string `json:"message"`
}

// String returns "PATH:LINE:COLUMN: message". A finding in a manifest has a field in place of the column.
func (f finding) String() string {
	place := f.Path
	if f.Line > 0 {
		place += fmt.Sprintf(":%d", f.Line)
	}
	if f.Column > 0 {
		place += fmt.Sprintf(":%d", f.Column)
	}
	if f.Field != "" {
		place += ": " + f.Field
	}
	return place + ": " + f.Message
}

// vetPlugin prints the findings about the plugin in a folder. path is the folder, or the module or
// plugin.yaml in it.
func vetPlugin(ctx context.Context, env *command.Env, path, output string) error {
	findings, err := vetFindings(ctx, env, path, projectOf(path))
	if err != nil {
		return err
	}
	if err := printFindings(env, findings, output); err != nil {
		return err
	}
	if len(findings) > 0 {
		return &command.Exit{Code: command.ExitFailed}
	}
	return nil
}

// vetFindings returns the findings about the plugin in the folder dir, at path.
func vetFindings(ctx context.Context, env *command.Env, path, dir string) ([]finding, error) {
	manifest, text, err := readProject(dir)
	if err != nil {
		return nil, err
	}
	if err := isModuleOf(path, dir, manifest); err != nil {
		return nil, command.Usage("", "%w", err)
	}
	findings := vetManifest(filepath.Join(dir, plugin.ManifestFile), text, manifest)
	for _, look := range []func() ([]finding, error){
		func() ([]finding, error) { return vetCases(dir, manifest.Name) },
		func() ([]finding, error) { return vetGo(dir, manifest) },
		func() ([]finding, error) { return vetOtherSources(dir) },
		func() ([]finding, error) { return vetModule(ctx, env, dir, manifest) },
	} {
		more, err := look()
		if _, ok := errors.AsType[*command.Exit](err); ok {
			return nil, err
		}
		if err != nil {
			return nil, command.Usage("", "%w", err)
		}
		findings = append(findings, more...)
	}
	return findings, nil
}

func printFindings(env *command.Env, findings []finding, output string) error {
	if output != command.Table {
		if findings == nil {
			findings = []finding{}
		}
		return env.Encode(output, map[string]any{"items": findings})
	}
	for _, f := range findings {
		fmt.Fprintln(env.Stdout, explain.OneLine(f.String()))
	}
	return nil
}

// vetManifest returns the findings about a manifest. text is the file at path.
func vetManifest(path string, text []byte, m *plugin.Manifest) (findings []finding) {
	d := yamlpos.Decoder{File: path}
	root := d.Parse(text, plugin.MaxManifest)
	if root == nil { // m was read from text
		return nil
	}
	add := func(field, format string, args ...any) {
		findings = append(findings, finding{Path: path, Line: yamlpos.Line(root, field), Field: field, Message: fmt.Sprintf(format, args...)})
	}
	if slices.Contains(builtinNames(), m.Name) {
		add("name", "%q is a built-in handler: no agent loads a plugin of that name", m.Name)
	}
	if m.Config.JSON() == nil {
		add("config.schema", "is not set: any config is accepted")
	}
	for i, r := range m.Requests {
		if r.Reason == "" {
			add(fmt.Sprintf("requests[%d]", i), "%s: no reason: the operator needs one to decide", r.Capability)
		}
	}
	for i, metric := range m.Metrics {
		if !abi.ValidMetricName(metric.Name) {
			add(fmt.Sprintf("metrics[%d].name", i), "%.80q is not a name of a metric: must match ^[a-z_][a-z0-9_]{0,127}$", metric.Name)
		}
	}
	return findings
}

// vetCases returns a finding if there are no test cases.
func vetCases(dir, name string) ([]finding, error) {
	files, err := filepath.Glob(filepath.Join(escapeGlob(dir), "*"+plugintest.Suffix))
	if err != nil || len(files) > 0 {
		return nil, err
	}
	return []finding{{Path: filepath.Join(dir, name+plugintest.Suffix), Message: "is missing: there are no test cases"}}, nil
}

// moduleOf returns the path of a plugin's module. For a program, this is the module that can be built from
// the same source.
func moduleOf(dir string, m *plugin.Manifest) (string, error) {
	if cmp.Or(m.Runtime, plugin.Wasm) == plugin.Wasm {
		return plugin.Locate(dir)
	}
	return filepath.Join(dir, m.Name+".wasm"), nil
}

// isModuleOf returns an error if path is a file that does not exist, or is neither the module nor the program of
// the plugin in dir.
func isModuleOf(path, dir string, m *plugin.Manifest) error {
	if path == dir || filepath.Base(path) == plugin.ManifestFile {
		return nil
	}
	if _, err := os.Stat(path); err != nil {
		return err
	}
	own, err := moduleOf(dir, m)
	if m.Runtime == plugin.Process && filepath.Ext(path) != ".wasm" {
		own = filepath.Join(dir, plugin.ProcessPrefix+m.Name)
	}
	if err == nil && strings.TrimSuffix(filepath.Clean(path), ".exe") != own {
		err = fmt.Errorf("%s: the plugin.yaml beside it describes %s", path, own)
	}
	return err
}

// vetModule checks the module, if it has been built.
func vetModule(ctx context.Context, env *command.Env, dir string, m *plugin.Manifest) (findings []finding, err error) {
	path, err := moduleOf(dir, m)
	if err != nil || !exists(path) {
		return nil, err
	}
	add := func(text string) { findings = append(findings, finding{Path: path, Message: text}) }
	found, unloadable := plugin.Read(path)
	if unloadable == nil {
		if unloadable, err = gate(ctx, env, found, started); err != nil {
			return nil, err
		}
	}
	reasons := unloadable
	if e, ok := errors.AsType[*probe.Error](unloadable); ok { // the finding names the plugin already
		reasons = e.Err
	}
	for _, reason := range joined.Errors(reasons) {
		add(reason.Error())
	}
	g, err := wasmfile.Guest(found.Module)
	if err != nil {
		return findings, nil // the module cannot be loaded
	}
	imports, _ := wasmfile.Imports(found.Module) // cannot fail: the gate has read them
	if m.Mode != plugin.Command && g.Command(false) {
		add("exports _start and no probe, so it runs as a program: set mode: command in plugin.yaml")
	}
	for _, problem := range vetImports(imports, m) {
		add(problem)
	}
	sections, _ := wasmfile.Sections(found.Module)
	if !slices.ContainsFunc(sections, func(s wasmfile.Section) bool { return s.ID == 0 && s.Name == "name" }) {
		add("the names of functions are stripped: a trap cannot say where it was")
	}
	if found.Inside != "" {
		add("the manifest inside differs from plugin.yaml, which takes precedence: build it again, or put it inside with prober plugin embed")
	}
	return findings, nil
}

// vetImports compares the imports of a loadable module with the requests of its manifest, and returns the
// differences. A module that imports a capability without a target is loadable only with a request for it.
func vetImports(imports map[string][]string, m *plugin.Manifest) (problems []string) {
	for _, module := range slices.Sorted(maps.Keys(imports)) {
		c, ok := plugin.CapabilityOfModule(module)
		if ok && c.Target && !slices.ContainsFunc(m.Requests, func(r plugin.Request) bool { return r.Capability == c.Name }) {
			problems = append(problems, fmt.Sprintf("imports %s, but the manifest does not request %q", module, c.Name))
		}
	}
	for _, r := range m.Requests {
		if c, ok := plugin.CapabilityNamed(r.Capability); ok && imports[c.Module] == nil {
			problems = append(problems, fmt.Sprintf("imports nothing of %s, but the manifest requests %q", c.Module, r.Capability))
		}
	}
	return problems
}
