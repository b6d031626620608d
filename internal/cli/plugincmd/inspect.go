package plugincmd

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/handlers/shipped"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/admit"
	"github.com/daeace23/prober/plugin/trust"
)

// pluginView is the output about a plugin and its manifest.
type pluginView struct {
	Name        string          `json:"name"`
	Version     string          `json:"version"`
	Description string          `json:"description,omitempty"`
	License     string          `json:"license,omitempty"`
	Path        string          `json:"path"`
	Digest      string          `json:"digest"`
	Beside      string          `json:"manifestDigest,omitempty"` // of a manifest that is a file of its own
	Size        int             `json:"size"`
	Runtime     string          `json:"runtime"`
	Command     []string        `json:"command,omitempty"` // of nagios
	Env         []string        `json:"env,omitempty"`     // of Command: names
	Stdin       string          `json:"stdin,omitempty"`   // of Command, as in the manifest
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
		Name: m.Name, Version: m.Version, Description: m.Description, License: m.License, Path: f.Path, Digest: f.Digest, Beside: f.Beside,
		Runtime: string(cmp.Or(m.Runtime, plugin.Wasm)), Size: len(f.Module), Mode: string(m.Mode), ABI: m.ABI, SDK: m.SDK, Isolation: string(m.Isolation),
		Requests: []requestView{}, Schema: m.Config.JSON(),
	}
	for _, a := range m.Command {
		v.Command = append(v.Command, a.String())
	}
	v.Env, v.Stdin = slices.Sorted(maps.Keys(m.Env)), m.Stdin
	for _, r := range m.Requests {
		v.Requests = append(v.Requests, requestView{r.Capability, r.Allow, r.Reason, r.Optional})
	}
	return v
}

func newInspect(env *command.Env) *cobra.Command {
	var output, configFile string
	var dirs, keys []string
	c := &cobra.Command{
		Use:   "inspect FILE|NAME",
		Short: "Show a plugin's manifest, requests, grants and limits",
		Long: "Inspect shows a plugin's manifest, what it requests, the fields of its config, and its limits,\n" +
			"without running it. It compiles a module, and says if prober cannot load it. With --config it also\n" +
			"shows the grants and limits of prober.yaml. Signatures are checked with the keys of --key, or\n" +
			"else with the trusted keys of prober.yaml. The report of prober plugin check is the author's claim.",
		Example: "  prober plugin inspect demo/demo.wasm\n" +
			"  prober plugin inspect redis --plugins /etc/prober/plugins --config /etc/prober/prober.yaml\n" +
			"  prober plugin inspect redis --plugins /etc/prober/plugins --key ops.pub -o json",
		Args:              command.Arguments("FILE|NAME"),
		ValidArgsFunction: completePlugins(&dirs),
		RunE: func(cmd *cobra.Command, args []string) error {
			policy, err := admit.New(admit.Config{ConfigFile: configFile})
			if err != nil {
				return command.Usage("", "%w", err)
			}
			cfg := policy.AgentConfig()
			f, err := located(env, args[0], configFile, policy, dirs)
			if err != nil {
				return err
			}
			if err := policy.Constrain(&f); err != nil {
				return command.Usage("", "%w", err)
			}
			warnManifest(env, f)
			signature, err := signatureOf(f, keys, configFile, cfg)
			if err != nil {
				return command.Usage("", "%w", err)
			}
			v := inspect(f, cfg)
			v.Check = claimedReport(f)
			v.Signature, v.Unloadable = signature, whyUnloadable(cmd.Context(), env, f)
			if output != command.Table {
				return env.Encode(output, v)
			}
			return v.print(env)
		},
	}
	c.Flags().StringArrayVar(&dirs, "plugins", nil, "folder of plugins")
	c.Flags().StringVar(&configFile, "config", "", "the agent's file, prober.yaml")
	c.Flags().StringArrayVar(&keys, "key", nil, "file of a public key")
	command.OutputFlag(c, &output, command.Table, command.JSON, command.YAML)
	return c
}

// inspect returns f with the grants and limits of the operator.
func inspect(f plugin.Found, cfg *config.Agent) inspection {
	v := inspection{
		pluginView: viewOf(f), ErrorPolicy: string(f.Manifest.ErrorPolicy), Grants: []string{}, InForce: []plugin.Effective{},
		Limits: append(plugin.ExplainLimits(f.Manifest.Limits, f.Limits), totalMemory(cfg)),
	}
	if f.Manifest.SecretsInArguments {
		v.Warnings = append(v.Warnings, plugin.SecretsInArgumentsWarning)
	}
	for _, g := range f.Grants {
		v.Grants = append(v.Grants, g.String())
	}
	if f.Manifest.Mode == plugin.Command {
		v.ExitCodes = string(f.Manifest.ExitCodes)
	}
	if v.Sandbox = v.Runtime == string(plugin.Wasm); v.Sandbox {
		v.InForce = plugin.EffectiveGrants(f.Manifest.Requests, f.Grants)
		return v
	}
	v.Limits = slices.DeleteFunc(v.Limits, func(l plugin.Limit) bool { return !slices.Contains(programLimits, l.Name) })
	return v
}

// programLimits are the limits of a plugin without a sandbox.
var programLimits = []plugin.LimitName{"message", "result", "logLines", "logBytes", "stdio", "kv", "series", "instances"}

// signatureView is the state of a plugin's signature.
type signatureView struct {
	State   string   `json:"state"` // signed, unsigned, unchecked or refused
	Signers []string `json:"signers,omitempty"`
	Unknown []string `json:"unknownKeys,omitempty"`
	Reason  string   `json:"reason,omitempty"` // why it is refused
	text    string
}

// signatureOf checks the signatures of f with the keys in files, or else with the trusted keys of
// the agent's file.
func signatureOf(f plugin.Found, files []string, configFile string, cfg *config.Agent) (v signatureView, err error) {
	if f.Path == shipped.Path(f.Manifest.Name) {
		return signatureView{State: string(admit.Shipped), text: "not needed: it is part of prober"}, nil
	}
	var policy *trust.Policy
	if len(files) > 0 {
		policy, err = policyOf(files)
	} else {
		policy, err = admit.TrustPolicy(configFile, cfg)
	}
	if err != nil {
		return v, err
	}
	verdict, err := policy.Check(f)
	if refusal, ok := errors.AsType[*trust.Refusal](err); ok {
		return signatureView{State: "refused", Reason: refusal.Reason, text: "refused: " + refusal.Reason}, nil
	}
	v = signatureView{State: string(verdict.State), Unknown: verdict.Unknown, text: verdict.String()}
	for _, k := range verdict.Signers {
		v.Signers = append(v.Signers, k.ID)
	}
	return v, err
}

// located returns the plugin called name: from its source in the agent's file, or else from dirs. If the
// source is in a registry, it returns the last pulled version.
func located(env *command.Env, name, configFile string, policy *admit.Policy, dirs []string) (plugin.Found, error) {
	cfg := policy.AgentConfig()
	at := slices.IndexFunc(cfg.Plugins, func(p config.Plugin) bool { return p.Name == name })
	if at >= 0 && cfg.Plugins[at].Source != "" {
		if _, ok := cfg.Plugins[at].Reference(); ok {
			return pulled(env, name, configFile, policy)
		}
		name = cfg.Plugins[at].Source
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(configFile), name)
		}
	}
	return findPlugin(name, dirs)
}

// totalMemory returns the limit that all plugins share.
func totalMemory(cfg *config.Agent) plugin.Limit {
	limit := plugin.Limit{Name: plugin.LimitNames[plugin.LimitTotalMemory], From: "default", Value: plugin.FormatSize(plugin.DefaultTotalMemory)}
	if cfg.TotalMemory > 0 {
		limit.From, limit.Value = "operator", plugin.FormatSize(int(cfg.TotalMemory))
	}
	return limit
}

// inspection is a plugin with the grants and limits of the operator.
type inspection struct {
	pluginView
	Signature   signatureView      `json:"signature"`
	Check       *claim             `json:"check,omitempty"`      // what its author says of prober plugin check
	Unloadable  string             `json:"unloadable,omitempty"` // why no host loads the module
	Sandbox     bool               `json:"sandbox"`              // false: a program may do what prober may
	ExitCodes   string             `json:"exitCodes,omitempty"`  // of a command
	ErrorPolicy string             `json:"errorPolicy"`
	Grants      []string           `json:"grants"` // of the operator; the probe's target needs none
	InForce     []plugin.Effective `json:"inForce"`
	Limits      []plugin.Limit     `json:"limits"`
	Warnings    []string           `json:"warnings,omitempty"`
}

func (v inspection) print(env *command.Env) error {
	w := tabwriter.NewWriter(env.Stdout, 0, 8, 2, ' ', 0)
	sandbox := ""
	if !v.Sandbox {
		sandbox, v.Mode, v.Isolation = "none: it has all permissions of prober", "", ""
	}
	for _, row := range [][2]string{
		{"Name", v.Name}, {"Version", v.Version}, {"Description", v.Description}, {"License", v.License},
		{"Path", v.Path}, {"Digest", v.Digest}, {"Manifest", v.Beside}, {"Signature", v.Signature.text}, {"Check", v.Check.String()}, {"Cannot be loaded", v.Unloadable}, {"Size", fmt.Sprint(v.Size)}, {"Runtime", v.Runtime}, {"Sandbox", sandbox}, {"Command", strings.Join(v.Command, " ")}, {"Environment", strings.Join(v.Env, " ")}, {"Stdin", v.Stdin}, {"Mode", v.Mode},
		{"ABI", fmt.Sprint(v.ABI)}, {"SDK", v.SDK}, {"Isolation", v.Isolation}, {"Exit codes", v.ExitCodes}, {"Error policy", v.ErrorPolicy},
	} {
		if row[1] != "" {
			fmt.Fprintf(w, "%s:\t%s\n", row[0], explain.OneLine(row[1]))
		}
	}
	for _, text := range v.Warnings {
		fmt.Fprintf(w, "Warning:\t%s\n", text)
	}
	for _, r := range v.Requests {
		c, _ := plugin.CapabilityNamed(r.Capability)
		fmt.Fprintf(w, "Requests:\t%s\n", explain.OneLine(strings.Join(append([]string{r.Capability}, r.Allow...), " ")+"  "+cmp.Or(r.Reason, c.Summary)))
	}
	for _, g := range v.Grants {
		fmt.Fprintf(w, "Granted:\t%s\n", explain.OneLine(g))
	}
	for _, p := range v.InForce {
		label, text := "In force", p.Capability
		if p.Asked != p.Capability {
			text += " " + p.Asked
		}
		switch {
		case len(p.Granted) == 0:
			label = "Not granted"
		case p.Granted[0] != p.Asked:
			text += "  as far as " + strings.Join(p.Granted, " ")
		}
		fmt.Fprintf(w, "%s:\t%s\n", label, explain.OneLine(text))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := printConfig(env.Stdout, v.Schema); err != nil {
		return err
	}
	w = tabwriter.NewWriter(env.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "Limits:")
	for _, l := range v.Limits {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", l.Name, l.Value, l.From)
	}
	return w.Flush()
}
