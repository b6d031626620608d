package cli

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober"
	"github.com/daeace23/prober/plugin"
)

// scaffolds hold the files of new projects, one folder a language.
//
//go:embed scaffold
var scaffolds embed.FS

// langGo is the one language that projects are made for.
const langGo = "go"

// otherLangs have an SDK or none, and no scaffold.
var otherLangs = []string{"rust", "c", "assemblyscript", "wat"}

func newPluginNew(env *Env) *cobra.Command {
	var lang string
	c := &cobra.Command{
		Use:   "new NAME --lang go",
		Short: "Make the folder of a new plugin, which builds and whose tests pass",
		Args:  arguments("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			return env.newProject(args[0], lang)
		},
	}
	lang = langGo
	c.Flags().Var(choice{&lang, append([]string{langGo}, otherLangs...)}, "lang", "language of the plugin")
	return c
}

// newProject writes the folder of a new plugin, which is called as the plugin is.
func (env *Env) newProject(dir, lang string) error {
	name := filepath.Base(filepath.Clean(dir))
	if !plugin.ValidName(name) {
		return usage("a plugin has a name of lower-case letters, digits and dashes", "%.80q is no name of a plugin", name)
	}
	if lang != langGo {
		return usage("known: go", "--lang %s: this version of prober makes projects in Go only", lang)
	}
	files, err := project(name)
	if err != nil {
		return &exit{code: exitFailed, err: err}
	}
	if err := os.Mkdir(dir, 0o755); errors.Is(err, fs.ErrExist) {
		return usage("name a folder that does not exist yet", "%s is there already", dir)
	} else if err != nil {
		return usage("", "%w", err)
	}
	for path, data := range files {
		path = filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return &exit{code: exitFailed, err: err}
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return &exit{code: exitFailed, err: err}
		}
	}
	fmt.Fprintf(env.Stdout, "made %s; next: prober plugin build %s && prober plugin test %s\n", dir, dir, dir)
	return nil
}

// sdkFolder holds the copy of the SDK in a project.
const sdkFolder = "prober-sdk"

// project returns the files of a project in Go by path.
func project(name string) (map[string][]byte, error) {
	sources, err := prober.SDK()
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	for path, data := range sources {
		files[sdkFolder+"/"+path] = data
	}
	for file, path := range map[string]string{
		"main.go": "main.go", "main_test.go": "main_test.go", "plugin.yaml": "plugin.yaml",
		"test.yaml": name + "_test.yaml", "go.mod": "go.mod", "sdk.go.mod": sdkFolder + "/go.mod",
		"gitignore": ".gitignore", "README.md": "README.md",
	} {
		text, err := scaffolds.ReadFile("scaffold/go/" + file + ".tmpl")
		if err != nil {
			return nil, err
		}
		files[path] = bytes.ReplaceAll(text, []byte("{{.Name}}"), []byte(name))
	}
	return files, nil
}
