package plugincmd

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/agent/secrets"
	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/handlers/shipped"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/cli/oneshot"
	"github.com/daeace23/prober/internal/nearest"
	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/admit"
	"github.com/daeace23/prober/plugin/credentials"
	"github.com/daeace23/prober/plugin/plugintest"
	"github.com/daeace23/prober/plugin/trust"
	"github.com/daeace23/prober/probe"
)

// pluginFlags are the flags of commands that call a plugin.
type pluginFlags struct {
	target, config string
	grants, dirs   []string
	agentFile      string // path of prober.yaml; "" for none

	credentials credentials.Store // of agentFile, set by find
}

func (f *pluginFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.target, "target", "", "target of the probe: HOST:PORT, unix:PATH, a URL (for plugins with url in their config) or HOST (for plugins that ping)")
	c.Flags().StringVar(&f.config, "config", "{}", "the plugin's config, as JSON or @FILE, with secrets as ${file:PATH} or ${env:NAME}")
	command.NotFromEnv(c.Flags().Lookup("config"))
	c.Flags().StringArrayVar(&f.grants, "grant", nil, "grant in addition to the target: kv, dns, or a pattern such as tcp://*.internal:5432")
	c.Flags().StringArrayVar(&f.dirs, "plugins", nil, "folder of plugins")
	c.ValidArgsFunction = completePlugins(&f.dirs)
}

// addAgentFile adds the flag that names prober.yaml, since --config is the plugin's config.
func (f *pluginFlags) addAgentFile(c *cobra.Command) {
	c.Flags().StringVar(&f.agentFile, "agent-config", "", "the agent's file, prober.yaml: its pins, trusted keys, grants and limits apply")
}

// find returns the plugin called name. With --agent-config, prober.yaml must admit it, and sets
// its grants and limits.
func (f *pluginFlags) find(env *command.Env, name string) (plugin.Found, error) {
	own, err := shipped.Plugins()
	if err != nil {
		return plugin.Found{}, command.Failed(err)
	}
	policy, err := admit.New(admit.Config{ConfigFile: f.agentFile, Shipped: own})
	if err != nil {
		return plugin.Found{}, command.Usage("", "%w", err)
	}
	f.credentials.Set(f.agentFile, policy.AgentConfig().Credentials)
	found, err := located(env, name, f.agentFile, policy, f.dirs)
	if err != nil {
		return found, err
	}
	warnManifest(env, found)
	verdict, err := policy.Admit(&found)
	if err != nil {
		return found, command.Usage("", "%w", err)
	}
	if verdict.State == trust.Unsigned {
		env.Warn("plugin %q of %s is %s", found.Manifest.Name, found.Path, verdict)
	}
	return found, nil
}

// input is the target, config and grants of a plugin's call.
type input struct {
	target  probe.Target
	url     func(field string) string // of a target that is a URL, see [oneshot.ParseTarget]
	noPort  error                     // error for a plugin that needs a port; nil if the target has one
	config  json.RawMessage
	secrets declared.Secrets // that config refers to
	grants  []plugin.Grant
}

// read returns the values of the flags. It reads the file of --config and the secrets.
func (f *pluginFlags) read(ctx context.Context, env *command.Env) (in input, err error) {
	if f.target != "" {
		in.target, in.url, err = oneshot.ParseTarget(f.target)
		if host, ok := hostAlone(f.target); err != nil && ok {
			in.target, in.noPort, err = host, err, nil
		}
		if err != nil {
			return in, err
		}
	}
	if in.config, err = rawJSON(ctx, f.config); err != nil {
		return in, command.Usage(`a config looks like '{"maxLag":"5s"}', or @FILE`, "--config: %w", err)
	}
	if in.config, err = withURL(in.config, in.url); err != nil {
		return in, command.Usage("", "--config: %w", err)
	}
	in.config, in.secrets, err = declared.ResolveSecrets(in.config, func(source, name string) (string, error) {
		return secret(ctx, env, source, name)
	})
	if err != nil {
		return in, command.Usage("", "--config: %w", err)
	}
	if in.grants, err = plugin.ParseGrants(f.grants); err != nil {
		return in, command.Usage("", "--grant: %w", err)
	}
	return in, nil
}

// hostAlone parses HOST, a name or an address without a port. ok is false if it is invalid.
func hostAlone(text string) (target probe.Target, ok bool) {
	host := text
	if inner, bracketed := strings.CutPrefix(text, "["); bracketed {
		host = strings.TrimSuffix(inner, "]")
	}
	_, err := netip.ParseAddr(host)
	return probe.Target{Host: host}, err == nil || plugin.ValidHost(strings.ToLower(strings.TrimSuffix(host, ".")))
}

// withURL sets the field url of a config to the URL of the target, as for a target of prober.yaml.
func withURL(config json.RawMessage, url func(field string) string) (json.RawMessage, error) {
	if url == nil {
		return config, nil
	}
	fields := make(map[string]any)
	if err := json.Unmarshal(config, &fields); err != nil {
		return nil, err
	}
	before, _ := fields["url"].(string)
	fields["url"] = url(before)
	return json.Marshal(fields)
}

// check returns an error if the plugin cannot use the target. Plugins that ping or read
// files need no port.
func (in *input) check(m *plugin.Manifest) error {
	var schema configSchema
	if in.url != nil && (json.Unmarshal(m.Config.JSON(), &schema) != nil || schema.Properties["url"] == nil) {
		return command.Usage("a target looks like 127.0.0.1:6379", "--target: a URL needs a plugin with url in its config")
	}
	portless := func(r plugin.Request) bool {
		return r.Capability == plugin.CapabilityICMP || r.Capability == plugin.CapabilityFiles
	}
	if slices.ContainsFunc(m.Requests, portless) {
		return nil
	}
	return in.noPort
}

// secret resolves a reference in --config. Its file may be a pipe, such as <(…) of a shell.
func secret(ctx context.Context, env *command.Env, source, name string) (string, error) {
	value, err := secrets.Resolve(env.LookupEnv, source, name)
	if !errors.Is(err, regular.ErrNotRegular) {
		return value, err
	}
	data, err := regular.Input(ctx, name, secrets.MaxSize, regular.Patience)
	return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), err
}

// pluginProbe is one probe by a plugin.
type pluginProbe struct {
	oneshot.Probe
	grants   []plugin.Grant
	module   string               // its path
	recorder *plugintest.Recorder // nil unless --record is set

	credentials func(plugin, name string) (*tls.Config, error)
}

// NewProbe returns the command `prober probe plugin`.
func NewProbe(env *command.Env) *cobra.Command {
	o := &pluginProbe{Probe: oneshot.Probe{Env: env}}
	var f pluginFlags
	c := &cobra.Command{
		Use:   "plugin NAME|FILE.wasm [--target HOST:PORT] [--config JSON|@FILE]",
		Short: "Probe a target with a plugin",
		Example: "  prober probe plugin redis --plugins /etc/prober/plugins --target 127.0.0.1:6379\n" +
			"  prober probe plugin demo/demo.wasm --target 127.0.0.1:25 --config @demo.json --explain\n" +
			"  prober probe plugin redis --plugins /etc/prober/plugins --target unix:/run/redis.sock -o json\n" +
			"  prober probe plugin httpcheck --target https://shop.example/ready\n" +
			"  prober probe plugin icmp --target 10.0.0.7",
		Args: command.Arguments("NAME|FILE.wasm"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			return o.probePlugin(cmd.Context(), args[0], &f)
		},
	}
	f.add(c)
	f.addAgentFile(c)
	return o.Flags(c)
}

// probePlugin carries out the probe with the plugin called name.
func (o *pluginProbe) probePlugin(ctx context.Context, name string, f *pluginFlags) error {
	in, err := f.read(ctx, o.Env)
	if err != nil {
		return err
	}
	o.Target, o.Config, o.Secrets, o.grants = in.target, in.config, in.secrets, in.grants
	found, err := f.find(o.Env, name)
	if err != nil {
		return err
	}
	if err := in.check(found.Manifest); err != nil {
		return err
	}
	o.credentials = f.credentials.TLS
	handler, done, err := o.loadPlugin(ctx, found) // without quarantine
	if err != nil {
		return err
	}
	defer done()
	var registry handlers.Registry
	if err := registry.Register(found.Manifest.Name, found.Path, handler); err != nil {
		return command.Usage("", "%w", err)
	}
	o.Handler, o.module = found.Manifest.Name, found.Path
	err = o.Run(ctx, &registry)
	if e, ok := errors.AsType[*command.Exit](err); ok && e.Hint == "" && e.Code != command.ExitOK && o.Target == (probe.Target{}) && takesTarget(found.Manifest) {
		e.Hint = "--target HOST:PORT sets the target"
	}
	return err
}

// takesTarget reports whether a plugin can use a target. A Nagios check can only if its command refers to it.
func takesTarget(m *plugin.Manifest) bool {
	return m.Runtime != plugin.Nagios || slices.ContainsFunc(m.Command, func(a plugin.Argument) bool {
		return strings.Contains(a.Text+strings.Join(a.Group, " "), "{{target.")
	})
}

// findPlugin returns the plugin in the file or project folder called name, or the plugin of this name in
// dirs.
func findPlugin(name string, dirs []string) (plugin.Found, error) {
	if isPath(name, dirs) {
		return readPlugin(name)
	}
	all, err := plugin.List(dirs, builtinNames()...)
	names := make([]string, 0, len(all))
	for _, l := range all {
		if l.Name() == name {
			f, err := l.Read()
			if err != nil {
				return plugin.Found{}, command.Usage("", "%w", err)
			}
			return f, nil
		}
		names = append(names, l.Name())
	}
	if err != nil {
		return plugin.Found{}, command.Usage("", "%w", err)
	}
	own, err := shipped.Plugins()
	if err != nil {
		return plugin.Found{}, command.Failed(err)
	}
	for _, f := range own {
		if f.Manifest.Name == name {
			return f, nil
		}
		names = append(names, f.Manifest.Name)
	}
	hint := "--plugins names a folder of plugins"
	slices.Sort(names)
	names = slices.Compact(names)
	if len(dirs) > 0 {
		hint = "known: " + strings.Join(names, ", ")
	}
	if near := nearest.Name(name, names); near != "" {
		hint = fmt.Sprintf("did you mean %q? %s", near, hint)
	}
	return plugin.Found{}, command.Usage(hint, "no plugin named %q", name)
}

// isPath reports whether name is a file or the folder of a project, rather than the name of
// a plugin of dirs.
func isPath(name string, dirs []string) bool {
	if strings.ContainsRune(name, filepath.Separator) || strings.HasSuffix(name, ".wasm") || plugin.IsProcess(name) || name == plugin.ManifestFile {
		return true
	}
	if name != "." && len(dirs) > 0 {
		return false
	}
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// readPlugin returns the plugin in the file or project folder at path.
func readPlugin(path string) (plugin.Found, error) {
	found, err := plugin.Read(path)
	if err != nil {
		return found, command.Usage(hintFor(path, err), "%w", err)
	}
	return found, nil
}

// hintFor returns the hint for an error of reading the plugin at path.
func hintFor(path string, err error) string {
	if errors.Is(err, plugin.ErrNoManifest) {
		return "`prober plugin embed " + path + " plugin.yaml` puts a manifest inside"
	}
	info, statErr := os.Stat(path)
	if statErr != nil || !info.IsDir() {
		return ""
	}
	if _, err := os.Stat(filepath.Join(path, plugin.ManifestFile)); err != nil {
		return "`prober plugin new` makes the folder of a plugin"
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "`prober plugin build` builds the plugin of a folder"
	}
	return ""
}

// warnManifest warns if the manifest inside a module differs from the one beside it.
func warnManifest(env *command.Env, f plugin.Found) {
	if f.Inside != "" {
		beside := filepath.Join(filepath.Dir(f.Path), plugin.ManifestFile)
		env.Warn("%s has another manifest inside than %s, which takes precedence", f.Path, beside)
	}
}

func builtinNames() []string {
	var registry handlers.Registry
	if err := builtin.Register(&registry, builtin.Config{Runner: &builtin.HostRunner{}}); err != nil {
		return nil // cannot happen: the registry is empty
	}
	return registry.Names()
}

// completePlugins returns a function that completes names of plugins in dirs, and files.
func completePlugins(dirs *[]string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found, _ := plugin.List(*dirs, builtinNames()...)
		for _, p := range found {
			names = append(names, p.Name())
		}
		for _, name := range shipped.Names() {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		return names, cobra.ShellCompDirectiveDefault
	}
}

// maxConfig bounds a plugin's config in a file.
const maxConfig = 8 << 20

// rawJSON returns a config from the command line: JSON, or @FILE, which may be a pipe.
func rawJSON(ctx context.Context, text string) (json.RawMessage, error) {
	if len(text) > 0 && text[0] == '@' {
		data, err := regular.Input(ctx, text[1:], maxConfig, regular.Patience)
		if err != nil {
			return nil, err
		}
		text = string(data)
	}
	if !json.Valid([]byte(text)) {
		return nil, errors.New("not valid JSON")
	}
	return json.RawMessage(text), nil
}

// exists reports whether there is a file or folder at path.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
