package cli

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober"
	"github.com/daeace23/prober/plugin"
)

// scaffolds hold the files of new projects: one folder a language, and what all of them
// have.
//
//go:embed scaffold
var scaffolds embed.FS

func newPluginNew(env *Env) *cobra.Command {
	var lang string
	c := &cobra.Command{
		Use:   "new NAME --lang go|rust|c|assemblyscript|wat",
		Short: "Make the folder of a new plugin, which builds and whose tests pass",
		Long: "New makes a folder with a plugin that asks a server for a line: its source, its manifest\n" +
			"plugin.yaml, test cases, a README.md, and a copy of the SDK that it is built with. NAME may\n" +
			"be a path, whose last part is the plugin's name then.",
		Example: "  prober plugin new demo --lang rust\n  prober plugin build demo && prober plugin test demo",
		Args:    arguments("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			return env.newProject(args[0], lang)
		},
	}
	lang = langGo
	names := languageNames()
	c.Flags().Var(choice{&lang, names}, "lang", "language of the plugin")
	_ = c.RegisterFlagCompletionFunc("lang", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// newProject writes the folder of a new plugin, which is called as the plugin is.
func (env *Env) newProject(dir, lang string) error {
	dir = filepath.Clean(dir)
	name := filepath.Base(dir)
	if !plugin.ValidName(name) {
		return usage("a plugin has a name of lower-case letters, digits and dashes", "%.80q is no name of a plugin", name)
	}
	files, err := project(name, lang)
	if err != nil {
		return &exit{code: exitFailed, err: err}
	}
	if err := os.Mkdir(dir, 0o755); errors.Is(err, fs.ErrExist) {
		return usage("name a folder that does not exist yet", "%s is there already", dir)
	} else if err != nil {
		return usage("", "%w", err)
	}
	if err := writeFiles(dir, files); err != nil {
		return &exit{code: exitFailed, err: err}
	}
	fmt.Fprintf(env.Stdout, "made %s; next: prober plugin build %s && prober plugin test %s\n", dir, dir, dir)
	return nil
}

// writeFiles writes files below dir, by their slash-separated paths.
func writeFiles(dir string, files map[string][]byte) error {
	for name, data := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// sdkFolder holds the copy of the SDK in a project.
const sdkFolder = "prober-sdk"

// project returns the files of a new project by path.
func project(name, lang string) (map[string][]byte, error) {
	files := make(map[string][]byte)
	if lang != langWAT {
		sources, err := prober.SDK(lang)
		if err != nil {
			return nil, err
		}
		for file, data := range sources {
			files[sdkFolder+"/"+file] = data
		}
	}
	for _, folder := range []string{"common", lang} {
		entries, err := scaffolds.ReadDir(path.Join("scaffold", folder))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			text, err := scaffolds.ReadFile(path.Join("scaffold", folder, e.Name()))
			if err != nil {
				return nil, err
			}
			text = bytes.ReplaceAll(text, []byte("{{.Name}}"), []byte(name))
			files[projectPath(e.Name(), name)] = bytes.ReplaceAll(text, []byte("{{.Lang}}"), []byte(lang))
		}
	}
	return files, nil
}

// projectPath is where the file of a scaffold goes in a project.
func projectPath(file, name string) string {
	switch file = strings.TrimSuffix(file, ".tmpl"); file {
	case "gitignore":
		return "." + file
	case "sdk.go.mod":
		return sdkFolder + "/go.mod"
	case "test.yaml":
		return name + "_test.yaml"
	case "main.wat":
		return name + ".wat"
	default:
		return file
	}
}
