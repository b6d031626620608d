package plugincmd

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/plugin"
)

func newNew(env *command.Env) *cobra.Command {
	var lang, kind, runtime string
	c := &cobra.Command{
		Use:   "new NAME [--lang LANGUAGE] [--kind KIND]",
		Short: "Make the project of a new plugin, which builds and passes tests",
		Long: "New makes a folder with a plugin: the source, the manifest plugin.yaml, test cases, a README.md, a\n" +
			"Makefile, a workflow for GitHub Actions, and a copy of the SDK. NAME may be a path. Its last part\n" +
			"is the name of the plugin. --kind selects what it does:\n\n" + kindTable() +
			"\n--runtime process and nagios are older names of these kinds.",
		Example: "  prober plugin new demo --lang rust\n  prober plugin build demo && prober plugin test demo\n  prober plugin new demo --kind http --lang c++",
		Args:    command.Arguments("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := projectOfFlags(lang, kind, runtime)
			if err != nil {
				return err
			}
			return makeProject(env, args[0], p)
		},
	}
	runtimes := []string{string(plugin.Wasm), string(plugin.Process), string(plugin.Nagios)}
	c.Flags().Var(command.OneOf(&lang, append(languageNames(), "c++")...), "lang", "language of the plugin (default the first of its kind)")
	c.Flags().Var(command.OneOf(&kind, kindNames()...), "kind", "what the plugin does, or how it runs (default line)")
	c.Flags().Var(command.OneOf(&runtime, runtimes...), "runtime", "how it runs: as a module in a sandbox, as a process, or as a command for each attempt")
	return c
}

// kindTable returns the kinds with their languages, for the help, whose lines are at most 80 columns wide.
func kindTable() string {
	var table strings.Builder
	for _, k := range kinds() {
		fmt.Fprintf(&table, "  %-9s%s\n           in %s\n", k.name, k.does, strings.Join(k.langs, ", "))
	}
	return table.String()
}

// projectOfFlags returns a project without a name. A flag that is not set is "".
func projectOfFlags(lang, kind, runtime string) (p newProject, err error) {
	older := ""
	if runtime == string(plugin.Process) || runtime == string(plugin.Nagios) {
		older = runtime
	}
	if older != "" && kind != "" && kind != older {
		return p, command.Usage("omit --runtime", "--runtime %s and --kind %s", runtime, kind)
	}
	k := kindOf(cmp.Or(kind, older, kindLine))
	if lang == "c++" {
		lang = langCPP
	}
	p = newProject{lang: cmp.Or(lang, k.langs[0]), kind: k.name}
	if !slices.Contains(k.langs, p.lang) {
		return p, command.Usage("its languages: "+strings.Join(k.langs, ", "), "there is no plugin of the kind %s in %s", k.name, p.lang)
	}
	return p, nil
}

// newProject describes a new plugin.
type newProject struct {
	name, lang, kind string
	version          string // of prober
}

// makeProject writes the folder of a new plugin. The plugin has the name of the folder.
func makeProject(env *command.Env, dir string, p newProject) error {
	dir = filepath.Clean(dir)
	p.name, p.version = filepath.Base(dir), env.Version
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
	if p.runtime() != plugin.Nagios {
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
