package plugincmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/handlers/shipped"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/internal/nearest"
	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/admit"
	"github.com/daeace23/prober/plugin/index"
	"github.com/daeace23/prober/plugin/oci"
	"github.com/daeace23/prober/plugin/trust"
)

// installing is one run of `prober plugin install`.
type installing struct {
	indexFlags
	env            *command.Env
	dir, lock      string
	configFile     string
	keys           []string
	replaceShipped bool
}

func newInstall(env *command.Env) *cobra.Command {
	i := &installing{env: env}
	c := &cobra.Command{
		Use:   "install NAME[@VERSION] --index INDEX [--plugins DIR]",
		Short: "Install a plugin of an index: download, verify and lock it",
		Long: "Install downloads the newest version of a plugin of an index, or VERSION. It verifies the digests of the\n" +
			"index, and the signature: by the keys of --key, or else by trust in the prober.yaml of --agent-config. Then it\n" +
			"writes the plugin to the folder --plugins, and its digest to the lock. Nothing is written if a check fails.\n\n" +
			"A program, which has no sandbox, must be signed by such a key. A plugin with the name of a built-in\n" +
			"handler cannot be installed. One with the name of a plugin that is part of prober needs\n" +
			"--replace-shipped.",
		Example: "  prober plugin install demo --index https://plugins.example.com/index.yaml --plugins /etc/prober/plugins --key ops.pub\n" +
			"  prober plugin install demo@1.2.0 --index index.yaml",
		Args: command.Arguments("NAME[@VERSION]"),
		RunE: func(cmd *cobra.Command, args []string) error { return i.run(cmd.Context(), args[0]) },
	}
	i.add(c)
	c.Flags().StringVar(&i.dir, "plugins", ".", "folder to write to")
	command.AgentFileFlag(c, &i.configFile, "the agent's file, prober.yaml, with pins and trusted keys")
	c.Flags().StringArrayVar(&i.keys, "key", nil, "file of a public key that must have signed the plugin")
	command.FileFlag(c, &i.lock, "", "lock", trust.LockFile, "lock to add the plugin to")
	c.Flags().BoolVar(&i.replaceShipped, "replace-shipped", false, "allow the name of a plugin that is part of prober")
	command.NotFromEnv(c.Flags().Lookup("replace-shipped"))
	return c
}

func (i *installing) run(ctx context.Context, text string) error {
	name, number, _ := strings.Cut(text, "@")
	if err := i.checkName(name); err != nil {
		return err
	}
	x, err := i.load(ctx, i.env)
	if err != nil {
		return err
	}
	v, err := chosen(x, name, number)
	if err != nil {
		return err
	}
	a, f, err := i.fetch(ctx, x, v)
	if err != nil {
		return err
	}
	if err := matches(a, name, v); err != nil {
		return &command.Exit{Code: command.ExitFailed, Err: err, Hint: nothingWritten}
	}
	verdict, err := i.verify(f)
	if err == nil && a.Beside != nil && verdict.State != trust.Signed { // it would have all permissions of prober
		err = fmt.Errorf("plugin %q is a program without a sandbox, and --key or trust in --agent-config must name a key that signed it", name)
	}
	if err != nil {
		return &command.Exit{Code: command.ExitFailed, Err: err, Hint: nothingWritten}
	}
	return i.write(ctx, a, f, verdict)
}

// checkName returns an error for a name that prober has. It warns of a name that differs little from one.
func (i *installing) checkName(name string) error {
	switch owner := ownerOf(name); {
	case owner == partOfProber && i.replaceShipped:
		return nil
	case owner == partOfProber:
		return command.Usage("use it without an installation; --replace-shipped replaces it", "plugin %q is %s", name, owner)
	case owner != "":
		return command.Usage("no agent loads a plugin of that name", "%q is %s", name, owner)
	}
	if near := nearest.Name(name, slices.Concat(shipped.Names(), builtinNames())); near != "" {
		i.env.Warn("the name %q is similar to %q, which is part of prober", explain.OneLine(name), near)
	}
	return nil
}

// chosen returns the version number of a plugin, or the newest one.
func chosen(x *placedIndex, name, number string) (index.Version, error) {
	p, ok := x.Find(name)
	if !ok {
		hint := "`prober plugin search` lists the plugins"
		names := make([]string, len(x.Plugins))
		for n := range x.Plugins {
			names[n] = x.Plugins[n].Name
		}
		if near := nearest.Name(name, names); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		return index.Version{}, command.Usage(hint, "no plugin named %q in the index", explain.OneLine(name))
	}
	if number == "" {
		return p.Newest(""), nil
	}
	v, ok := p.Version(number)
	if !ok {
		known := make([]string, 0, len(p.Versions))
		for _, v := range p.Versions {
			known = append(known, explain.OneLine(v.Version))
		}
		return v, command.Usage("known: "+strings.Join(known, ", "), "plugin %q has no version %q in the index", name, explain.OneLine(number))
	}
	return v, nil
}

// fetch returns the plugin of a version.
func (i *installing) fetch(ctx context.Context, x *placedIndex, v index.Version) (a *oci.Artifact, f plugin.Found, err error) {
	ref, ok := v.Reference()
	if !ok {
		if x.dir == "" {
			return nil, f, command.Usage("only an index in a folder of this host may have paths", "%s has the path %q as a source", i.place(), explain.OneLine(v.Source))
		}
		a, err = i.local(ctx, filepath.Join(x.dir, filepath.FromSlash(v.Source)), v.Digest)
		if err == nil {
			f = a.Found(plugin.Reference{Registry: "localhost", Repository: a.Manifest.Name})
		}
		return a, f, err
	}
	i.cosign = true
	err = i.withClient(ctx, i.env, "pull "+ref.Repository, func(ctx context.Context, c *oci.Client) (err error) {
		a, err = c.Pull(ctx, ref)
		return err
	})
	if err == nil {
		f = a.Found(ref)
	}
	return a, f, err
}

// local returns the plugin at a path: the one with this digest in an OCI layout, or the plugin in a file.
func (i *installing) local(ctx context.Context, path, digest string) (*oci.Artifact, error) {
	if !exists(filepath.Join(path, "oci-layout")) && !strings.HasSuffix(path, ".tar") {
		a, _, err := packed(ctx, i.env, path, "")
		return a, err
	}
	all, err := oci.Load(path, oci.Platform{})
	if err != nil {
		return nil, command.Usage("", "%w", err)
	}
	at := slices.IndexFunc(all, func(a *oci.Artifact) bool { return plugin.Digest(a.Module) == digest })
	if at < 0 {
		return nil, command.Failed(fmt.Errorf("%s has no plugin with the digest %s of the index", path, digest))
	}
	return all[at], nil
}

// matches returns an error unless a is the plugin that the index describes.
func matches(a *oci.Artifact, name string, v index.Version) error {
	m := a.Manifest
	digest := plugin.Digest(a.Module)
	switch {
	case v.Digest != "" && v.Digest != digest:
		return fmt.Errorf("plugin %q: its digest is %s, the index has %s", name, digest, v.Digest)
	case m.Name != name || m.Version != v.Version:
		return fmt.Errorf("plugin %q: its manifest is of %s %s, the index has version %s", name, m.Name, explain.OneLine(m.Version), explain.OneLine(v.Version))
	}
	return nil
}

// verify checks the signature of f by --key or --agent-config.
func (i *installing) verify(f plugin.Found) (trust.Verdict, error) {
	if len(i.keys) > 0 {
		policy, err := policyOf(i.keys)
		if err != nil {
			return trust.Verdict{}, err
		}
		verdict, err := policy.Check(f)
		if err == nil && verdict.State != trust.Signed {
			err = fmt.Errorf("plugin %q: %s", f.Manifest.Name, verdict)
		}
		return verdict, err
	}
	policy, err := admit.New(admit.Config{ConfigFile: i.configFile})
	if err != nil {
		return trust.Verdict{}, err
	}
	verdict, err := policy.Admit(&f)
	if err == nil && verdict.State != trust.Signed {
		i.env.Warn("the signature of plugin %q was not verified: --key or trust in --agent-config names the keys", f.Manifest.Name)
	}
	return verdict, err
}

// write writes the plugin into the folder, and adds it to the lock. verified is the plugin of a, with its verdict.
func (i *installing) write(ctx context.Context, a *oci.Artifact, verified plugin.Found, verdict trust.Verdict) error {
	if info, err := os.Stat(i.dir); err != nil || !info.IsDir() {
		return command.Usage("mkdir -p "+i.dir+" makes it", "--plugins: there is no folder %s", i.dir)
	}
	old, err := trust.ReadLock(i.lock)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return command.Usage("remove the file to start again", "%w", err)
	}
	if err := unpack(ctx, i.env, a, i.dir); err != nil {
		return err
	}
	file := a.Manifest.Name + ".wasm"
	if a.Beside != nil {
		file = oci.ProgramFile(a.Manifest.Name, a.Platform)
	}
	found, err := readPlugin(filepath.Join(i.dir, file))
	if err != nil {
		return err
	}
	if found.ModuleDigest() != verified.ModuleDigest() || found.Beside != verified.Beside {
		return &command.Exit{Code: command.ExitFailed, Hint: "no lock was written",
			Err: fmt.Errorf("plugin %s: it or the manifest beside it is not what was verified", found.Path)}
	}
	lock := trust.NewLock([]plugin.Found{found}, func(plugin.Found) string { return verdict.Signer() })
	if old != nil {
		others := slices.DeleteFunc(slices.Clone(old.Plugins), func(p trust.Locked) bool { return p.Name == found.Manifest.Name })
		lock.Plugins = append(lock.Plugins, others...)
		slices.SortFunc(lock.Plugins, func(a, b trust.Locked) int { return strings.Compare(a.Name, b.Name) })
	}
	data, err := lock.Encode()
	if err != nil {
		return command.Failed(err)
	}
	if err := regular.ReplaceBytes(i.lock, 0o644, data); err != nil {
		return command.Usage("", "lock: %w", err)
	}
	printLockChanges(i.env, i.lock, old, lock)
	return nil
}
