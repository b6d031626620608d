package cli

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/plugin"
)

func newPluginVet(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "vet [DIR]",
		Short: "Look for the mistakes that plugins are made with",
		Long: "Vet looks at the folder of a plugin without running it: at calls that reach no network\n" +
			"inside a guest, at a manifest that says too little, and, where the plugin is built,\n" +
			"at imports that the manifest does not ask for.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			return env.vetPlugin(dir)
		},
	}
}

// vetPlugin prints what is wrong with the plugin in dir, one line a finding.
func (env *Env) vetPlugin(dir string) error {
	path := filepath.Join(dir, "plugin.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		return usage("`prober plugin new` makes the folder of a plugin", "%w", err)
	}
	manifest, err := plugin.ParseManifest(path, text)
	if err != nil {
		return usage("", "%w", err)
	}
	findings := vetManifest(path, manifest)
	sources, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return usage("", "%w", err)
	}
	for _, file := range sources {
		found, err := vetSource(file)
		if err != nil {
			return usage("", "%w", err)
		}
		findings = append(findings, found...)
	}
	built, err := vetModule(filepath.Join(dir, manifest.Name+".wasm"), manifest)
	if err != nil {
		return usage("", "%w", err)
	}
	findings = append(findings, built...)
	for _, f := range findings {
		fmt.Fprintln(env.Stdout, f)
	}
	if len(findings) > 0 {
		return &exit{code: exitFailed}
	}
	return nil
}

func vetManifest(path string, m *plugin.Manifest) (findings []string) {
	if m.Config.JSON() == nil {
		findings = append(findings, path+": config.schema: there is none, so that any config is taken")
	}
	for _, r := range m.Requests {
		if r.Reason == "" {
			findings = append(findings, fmt.Sprintf("%s: requests: %s: there is no reason for the operator who decides", path, r.Capability))
		}
	}
	return findings
}

// unreachable are functions that reach no network inside a guest: there they meet a
// fake, and a target that is well looks as if it were down.
var unreachable = map[string][]string{
	"net":        {"Dial", "DialTimeout", "DialTCP", "DialUDP", "DialUnix", "Dialer", "LookupHost", "LookupIP", "LookupAddr", "DefaultResolver", "Resolver"},
	"net/http":   {"Get", "Head", "Post", "PostForm", "DefaultClient", "DefaultTransport"},
	"crypto/tls": {"Dial", "DialWithDialer", "Dialer"},
}

// vetSource finds the uses of what is unreachable in a file that is no test and that a
// guest is built of.
func vetSource(path string) (findings []string, err error) {
	if strings.HasSuffix(path, "_test.go") {
		return nil, nil
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	names := make(map[string]string) // of packages, to their paths
	for _, spec := range parsed.Imports {
		from, _ := strconv.Unquote(spec.Path.Value)
		if unreachable[from] == nil {
			continue
		}
		name := filepath.Base(from)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = from
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		use, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, ok := use.X.(*ast.Ident)
		if ok && slices.Contains(unreachable[names[pkg.Name]], use.Sel.Name) {
			findings = append(findings, fmt.Sprintf("%s: %s.%s reaches no network in a guest: use sdk.Dial, or sdkhttp",
				files.Position(use.Pos()), pkg.Name, use.Sel.Name))
		}
		return true
	})
	return findings, nil
}

// vetModule looks at the plugin where it has been built.
func vetModule(path string, m *plugin.Manifest) (findings []string, err error) {
	module, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	imports, err := importsOf(module)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, capability := range unasked(imports, m) {
		findings = append(findings, fmt.Sprintf("%s: imports prober_v1_%s, and the manifest does not ask for %q", path, capability, capability))
	}
	sections, err := plugin.Sections(module)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	named := func(s plugin.Section) bool { return s.ID == 0 && s.Name == "name" }
	if !slices.ContainsFunc(sections, named) {
		findings = append(findings, path+": the names of functions are stripped: a trap says no more where it was")
	}
	return findings, nil
}
