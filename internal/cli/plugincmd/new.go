package plugincmd

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest"
)

// scaffolds has the files of new projects, in a folder for each language and one for all.
//
//go:embed scaffold
var scaffolds embed.FS

func newNew(env *command.Env) *cobra.Command {
	p := newProject{lang: langGo, runtime: string(plugin.Wasm)}
	c := &cobra.Command{
		Use:   "new NAME [--lang go|rust|c|assemblyscript|wat] [--runtime wasm|process|nagios]",
		Short: "Make the project of a new plugin, which builds and passes tests",
		Long: "New makes a folder with a plugin that reads a line from a server: the source, the manifest\n" +
			"plugin.yaml, test cases, a README.md, and a copy of the SDK. NAME may be a path. Its last part\n" +
			"is the name of the plugin.\n\n" +
			"With --runtime process the plugin is a program in Go, which builds as a module, too. With\n" +
			"--runtime nagios it is a shell script with the exit codes and output of a Nagios check, which\n" +
			"counts the entries of a folder.",
		Example: "  prober plugin new demo --lang rust\n  prober plugin build demo && prober plugin test demo\n  prober plugin new demo --runtime process",
		Args:    command.Arguments("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if p.runtime == string(plugin.Process) && p.lang != langGo {
				return command.Usage("examples/python is one in another language", "--runtime process makes a project in Go, not in %s", p.lang)
			}
			if p.runtime == string(plugin.Nagios) && cmd.Flags().Changed("lang") {
				return command.Usage("omit --lang", "--runtime nagios makes a shell script, whatever the language")
			}
			return makeProject(env, args[0], p)
		},
	}
	runtimes := []string{string(plugin.Wasm), string(plugin.Process), string(plugin.Nagios)}
	c.Flags().Var(command.OneOf(&p.lang, languageNames()...), "lang", "language of the plugin")
	c.Flags().Var(command.OneOf(&p.runtime, runtimes...), "runtime", "how it runs: as a module in a sandbox, as a process, or as a command for each attempt")
	return c
}

// newProject describes a new plugin.
type newProject struct{ name, lang, runtime string }

// makeProject writes the folder of a new plugin. The plugin has the name of the folder.
func makeProject(env *command.Env, dir string, p newProject) error {
	dir = filepath.Clean(dir)
	p.name = filepath.Base(dir)
	if !plugin.ValidName(p.name) {
		return command.Usage("a name has at most 63 lower-case letters, digits and dashes", "%.80q is not a valid name of a plugin", p.name)
	}
	if slices.Contains(builtinNames(), p.name) {
		return command.Usage("choose another name: plugins and built-in handlers share their names", "%q is a built-in handler", p.name)
	}
	files, err := p.files()
	if err != nil {
		return command.Failed(err)
	}
	if err := os.Mkdir(dir, 0o755); errors.Is(err, fs.ErrExist) {
		return command.Usage("name a folder that does not exist yet", "%s already exists", dir)
	} else if err != nil {
		return command.Usage("", "%w", err)
	}
	if err := writeFiles(dir, files); err != nil {
		return command.Failed(err)
	}
	next := "prober plugin test " + dir
	if p.runtime != string(plugin.Nagios) {
		next = "prober plugin build " + dir + " && " + next
	}
	fmt.Fprintf(env.Stdout, "made %s; next: %s\n", dir, next)
	return nil
}

// writeFiles writes files below dir. Their names are slash-separated paths.
func writeFiles(dir string, files map[string][]byte) error {
	for name, data := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if bytes.HasPrefix(data, []byte("#!")) {
			mode = 0o755
		}
		if err := os.WriteFile(name, data, mode); err != nil {
			return err
		}
	}
	return nil
}

// sdkFolder holds the copy of the SDK in a project.
const sdkFolder = "prober-sdk"

// files returns the files of a new project by path.
func (p newProject) files() (map[string][]byte, error) {
	files, err := p.sdk()
	if err != nil {
		return nil, err
	}
	values, err := p.values()
	if err != nil {
		return nil, err
	}
	for _, folder := range p.scaffolds() {
		if err := p.add(files, path.Join("scaffold", folder), values); err != nil {
			return nil, err
		}
	}
	if p.runtime == string(plugin.Process) { // its main functions are in separate files
		files["check.go"] = bytes.Replace(files["main.go"], []byte(mainOfGuest), nil, 1)
		delete(files, "main.go")
	}
	return files, nil
}

// add adds the files of a scaffold to files, with values filled in.
func (p newProject) add(files map[string][]byte, folder string, values *strings.Replacer) error {
	return fs.WalkDir(scaffolds, folder, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := scaffolds.ReadFile(file)
		files[p.path(strings.TrimPrefix(file, folder+"/"))] = []byte(values.Replace(string(text)))
		return err
	})
}

// mainOfGuest is the part of scaffold/go/main.go that a process does not have.
const mainOfGuest = "// main never runs. The plugin starts with init.\nfunc main() {}\n\n"

// scaffolds returns the folders with the files of the project. Later ones replace files of earlier
// ones.
func (p newProject) scaffolds() []string {
	switch p.runtime {
	case string(plugin.Nagios):
		return []string{"nagios"}
	case string(plugin.Process):
		return []string{"common", p.lang, "process"}
	default:
		return []string{"common", p.lang}
	}
}

// sdk returns the copy of the SDK, as files of the project.
func (p newProject) sdk() (map[string][]byte, error) {
	var (
		sources map[string][]byte
		err     error
	)
	switch {
	case p.runtime == string(plugin.Process):
		sources, err = prober.ProcessSDK()
	case p.runtime == string(plugin.Wasm) && p.lang != langWAT:
		sources, err = prober.SDK(p.lang)
	}
	files := make(map[string][]byte, len(sources))
	for file, data := range sources {
		files[sdkFolder+"/"+file] = data
	}
	return files, err
}

// values returns the replacements for {{…}} in scaffolds.
func (p newProject) values() (*strings.Replacer, error) {
	built, runtime := p.name+".wasm", ""
	if p.runtime == string(plugin.Process) {
		built, runtime = plugin.ProcessPrefix+p.name, "runtime: process\n"
	}
	modules, sums, err := prober.ProcessModules()
	require := "require (\n\t" + strings.Join(modules, " // indirect\n\t") + " // indirect\n)"
	return strings.NewReplacer("{{.Name}}", p.name, "{{.Lang}}", p.lang, "{{.Crate}}", crateName(p.name), "{{.Built}}", built, "{{.Runtime}}", runtime,
		"{{.Require}}", require, "{{.Sums}}", string(sums)), err
}

// path returns the path in the project of a file of a scaffold.
func (p newProject) path(file string) string {
	switch file = strings.TrimSuffix(file, ".tmpl"); file {
	case "gitignore":
		return "." + file
	case "sdk.go.mod":
		return sdkFolder + "/go.mod"
	case "test.yaml":
		return p.name + plugintest.Suffix
	case "main.wat":
		return p.name + ".wat"
	case "check.sh":
		return "check_" + p.name
	default:
		return file
	}
}
