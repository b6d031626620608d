package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/plugin"
)

func newPlugin(env *Env) *cobra.Command {
	c := folder("plugin", "Make, build, test and look at plugins", newPluginInspect(env), newPluginList(env),
		newPluginNew(env), newPluginBuild(env), newPluginVet(env), newPluginTest(env), newPluginRun(env), newPluginBench(env))
	c.Long = "A plugin is a sandboxed WebAssembly module that says what a probe does. From nothing to one\n" +
		"that is tested: new, build, test. Where a command takes NAME|FILE.wasm|DIR, NAME is looked\n" +
		"for in the folders of --plugins, and DIR is the folder of a project, with its plugin.yaml."
	return c
}

// pluginView is what can be known of a plugin without running it.
type pluginView struct {
	Name        string          `json:"name"`
	Version     string          `json:"version"`
	Description string          `json:"description,omitempty"`
	License     string          `json:"license,omitempty"`
	Path        string          `json:"path"`
	Digest      string          `json:"digest"`
	Size        int             `json:"size"`
	Mode        string          `json:"mode"`
	ABI         int             `json:"abi"`
	SDK         string          `json:"sdk,omitempty"`
	Isolation   string          `json:"isolation"`
	Requests    []requestView   `json:"requests"`
	Schema      json.RawMessage `json:"configSchema,omitempty"`
}

type requestView struct {
	Capability string   `json:"capability"`
	Allow      []string `json:"allow,omitempty"`
	Reason     string   `json:"reason,omitempty"`
	Optional   bool     `json:"optional,omitempty"`
}

func viewOf(f plugin.Found) pluginView {
	m := f.Manifest
	v := pluginView{
		Name: m.Name, Version: m.Version, Description: m.Description, License: m.License, Path: f.Path, Digest: f.Digest,
		Size: len(f.Module), Mode: string(m.Mode), ABI: m.ABI, SDK: m.SDK, Isolation: string(m.Isolation),
		Requests: []requestView{}, Schema: m.Config.JSON(),
	}
	for _, r := range m.Requests {
		v.Requests = append(v.Requests, requestView{r.Capability, r.Allow, r.Reason, r.Optional})
	}
	return v
}

func newPluginInspect(env *Env) *cobra.Command {
	var output string
	var dirs []string
	c := &cobra.Command{
		Use:   "inspect FILE|NAME",
		Short: "Show what a plugin is and asks for, without running it",
		Args:  arguments("FILE|NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := findPlugin(args[0], dirs)
			if err != nil {
				return err
			}
			if output != formatTable {
				return env.encode(output, viewOf(f))
			}
			return viewOf(f).print(env)
		},
	}
	c.Flags().StringArrayVar(&dirs, "plugins", nil, "folder of plugins")
	outputFlag(c, &output, formatTable, formatJSON, formatYAML)
	return c
}

func (v pluginView) print(env *Env) error {
	w := tabwriter.NewWriter(env.Stdout, 0, 8, 2, ' ', 0)
	for _, row := range [][2]string{
		{"Name", v.Name}, {"Version", v.Version}, {"Description", v.Description}, {"License", v.License},
		{"Path", v.Path}, {"Digest", v.Digest}, {"Size", fmt.Sprint(v.Size)}, {"Mode", v.Mode},
		{"ABI", fmt.Sprint(v.ABI)}, {"SDK", v.SDK}, {"Isolation", v.Isolation},
	} {
		if row[1] != "" {
			fmt.Fprintf(w, "%s:\t%s\n", row[0], oneLine(row[1]))
		}
	}
	for _, r := range v.Requests {
		fmt.Fprintf(w, "Requests:\t%s\n", oneLine(strings.Join(append([]string{r.Capability}, r.Allow...), " ")+"  "+r.Reason))
	}
	return w.Flush()
}
