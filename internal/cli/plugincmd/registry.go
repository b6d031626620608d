package plugincmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/admit"
	"github.com/daeace23/prober/plugin/oci"
	"github.com/daeace23/prober/plugin/trust"
)

// registryFlags are the flags of commands that use a registry.
type registryFlags struct {
	plainHTTP bool
	timeout   time.Duration
	platform  string // platform of pulled programs; "" for the host's
	cosign    bool   // whether to pull signatures of cosign
}

func (f *registryFlags) add(c *cobra.Command) {
	c.Flags().BoolVar(&f.plainHTTP, "plain-http", false, "use HTTP instead of HTTPS for the registry")
	c.Flags().DurationVar(&f.timeout, "timeout", 10*time.Minute, "overall time limit")
	command.NotFromEnv(c.Flags().Lookup("timeout"))
}

// withClient calls do with a client. Its context ends at a signal and after --timeout. what is the name of
// the transfer in progress lines.
func (f *registryFlags) withClient(ctx context.Context, env *command.Env, what string, do func(context.Context, *oci.Client) error) error {
	on, err := parsePlatform(f.platform)
	if err != nil {
		return err
	}
	ctx, stop := env.Interruptible(ctx)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("not done within %s", f.timeout))
	defer cancel()
	c, err := oci.NewClient(oci.ClientConfig{
		PlainHTTP: f.plainHTTP, DockerConfig: oci.DockerConfig(env.LookupEnv), UserAgent: "prober/" + env.Version,
		Progress: progress(env, what), Platform: on, Cosign: f.cosign,
	})
	if err != nil {
		return command.Usage("", "%w", err)
	}
	defer c.Close()
	err = do(ctx, c)
	if _, ok := errors.AsType[*command.Exit](err); ok || err == nil {
		return err
	}
	hint := ""
	if errors.Is(err, oci.ErrPlainHTTP) {
		hint = "--plain-http allows it"
	}
	if _, ok := errors.AsType[*oci.PlatformError](err); ok {
		hint = "--platform names another one"
	}
	return &command.Exit{Code: command.ExitFailed, Err: err, Hint: hint}
}

// progressPeriod is the time between two lines about a slow transfer.
const progressPeriod = 2 * time.Second

// progress returns a function that prints the progress of a slow transfer to stderr. It is safe
// for concurrent use: a registry may answer before an upload has ended.
func progress(env *command.Env, what string) func(done, total int64) {
	var mu sync.Mutex
	next := time.Now().Add(progressPeriod)
	return func(done, total int64) {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.After(next) {
			next = now.Add(progressPeriod)
			fmt.Fprintf(env.Stderr, "prober: %s: %.1f of %.1f MiB\n", what, float64(done)/(1<<20), float64(total)/(1<<20))
		}
	}
}

func newPush(env *command.Env) *cobra.Command {
	var f registryFlags
	var force, skip bool
	c := &cobra.Command{
		Use:   "push FILE REF",
		Short: "Put a plugin into a registry",
		Long: "Push puts a plugin into an OCI registry, with its signature FILE.sig if there is one. It prints\n" +
			"the reference with the digest, which always names the same bytes. The same files always have\n" +
			"the same digest. It uses docker's credentials and credential helpers.\n\n" +
			"An artifact of a module has the manifest inside the module. If the manifest is beside the\n" +
			"module, push puts it inside, which changes the digest of the module.\n\n" +
			"Push runs prober plugin check first, against the newest older version in the repository, and puts the\n" +
			"report into the artifact. It starts a module in the sandbox, and neither programs nor commands of test cases.\n" +
			"A module that prober cannot load is not pushed, even with --skip-check.\n\n" +
			"A program is pushed for one platform, with the manifest beside it. If the registry has programs\n" +
			"of the same version for other platforms, it is added to them, and the reference changes.\n\n" +
			"A tag of another plugin, or of an image, is not replaced without --force.",
		Example: "  prober plugin push demo/demo.wasm ghcr.io/me/demo:1.0.0\n" +
			"  prober plugin push arm64/prober-plugin-demo ghcr.io/me/demo:1.0.0 --platform linux/arm64",
		Args: command.Arguments("FILE", "REF"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, found, err := packed(cmd.Context(), env, args[0], f.platform)
			if err != nil {
				return err
			}
			ref, err := plugin.ParseReference(args[1])
			if err != nil {
				return err
			}
			return f.withClient(cmd.Context(), env, "push "+a.Manifest.Name, func(ctx context.Context, c *oci.Client) error {
				if err := mayReplace(ctx, c, ref, a.Manifest.Name, force); err != nil {
					return err
				}
				if a, err = checkedArtifact(ctx, env, c, ref, found, a, skip); err != nil {
					return err
				}
				if a, err = c.Join(ctx, ref, a); err != nil {
					return err
				}
				if err := c.Push(ctx, ref, a); err != nil {
					return err
				}
				fmt.Fprintf(env.Stderr, "prober: pushed %s as %s%s\n", nameOf(a), ref, platformsOf(a))
				fmt.Fprintln(env.Stdout, ref.Pinned(a.Digest))
				return nil
			})
		},
	}
	f.add(c)
	skipFlag(c, &skip, "push without a check; the artifact says so")
	platformFlag(c, &f.platform, "platform of the program, such as linux/arm64 (default the host's)")
	c.Flags().BoolVar(&force, "force", false, "replace a tag that belongs to another plugin or is no plugin")
	return c
}

// mayReplace returns an error if a push of the plugin called name would replace something else at ref.
func mayReplace(ctx context.Context, c *oci.Client, ref plugin.Reference, name string, force bool) error {
	if force {
		return nil
	}
	holder, err := c.Holder(ctx, ref)
	switch {
	case errors.Is(err, oci.ErrNotPlugin):
		return &command.Exit{Code: command.ExitFailed, Err: fmt.Errorf("push: %w", err), Hint: "nothing was sent; --force replaces it"}
	case err == nil && holder != "" && holder != name:
		return &command.Exit{Code: command.ExitFailed, Err: fmt.Errorf("push: %s is the plugin %q, not %q", ref, holder, name), Hint: "nothing was sent; --force replaces it"}
	default:
		return err
	}
}

// packed returns the plugin in a file or project folder as an artifact, if hosts can load it, and the plugin as it was
// read. platform is the platform of a program; "" means the host's.
func packed(ctx context.Context, env *command.Env, name, platform string) (*oci.Artifact, plugin.Found, error) {
	on, err := parsePlatform(platform)
	if err != nil {
		return nil, plugin.Found{}, err
	}
	f, err := readPlugin(name)
	if err != nil {
		return nil, f, err
	}
	a, err := packedFound(ctx, env, f, on, platform)
	return a, f, err
}

// packedFound returns the plugin f as an artifact. on is the parsed platform.
func packedFound(ctx context.Context, env *command.Env, f plugin.Found, on oci.Platform, platform string) (*oci.Artifact, error) {
	if f.Manifest.Runtime == plugin.Nagios {
		return nil, command.Usage("copy its plugin.yaml", "plugin %s is a command of this host, and cannot be pushed", f.Path)
	}
	signature, err := regular.Read(f.Path+oci.SignatureSuffix, oci.MaxSignature)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, command.Usage("", "%w", err)
	}
	if f.Manifest.Runtime == plugin.Process {
		return packedProgram(f, on, signature)
	}
	if platform != "" {
		return nil, command.Usage("", "--platform is for programs, and %s is a module, which runs on all platforms", f.Path)
	}
	if f.Beside != "" {
		if err := putInside(env, &f, signature != nil); err != nil {
			return nil, err
		}
	}
	if err := refuse(ctx, env, f, "it was not packed"); err != nil {
		return nil, err
	}
	a, err := oci.Pack(f.Module, signature)
	if err != nil {
		return nil, command.Usage("", "plugin %s: %w", f.Path, err)
	}
	return a, nil
}

// putInside embeds the manifest beside a module in f, since the artifact of a module has no separate
// manifest. It returns an error for a signed module, since the signature would not cover the result.
func putInside(env *command.Env, f *plugin.Found, signed bool) error {
	manifest := filepath.Join(filepath.Dir(f.Path), plugin.ManifestFile)
	if signed {
		return command.Usage(fmt.Sprintf("`prober plugin embed %s %s` puts it inside; then sign it again", f.Path, manifest),
			"plugin %s is signed without the manifest inside, and an artifact has it inside", f.Path)
	}
	module, err := plugin.Embed(f.Module, f.Text)
	if err != nil {
		return command.Usage("", "plugin %s: %w", f.Path, err)
	}
	f.SetModule(module)
	fmt.Fprintf(env.Stderr, "prober: put %s into the module of the artifact, whose digest is %s; %s is as it was\n", manifest, f.Digest, f.Path)
	return nil
}

// nameOf returns the name of a in messages.
func nameOf(a *oci.Artifact) string {
	name := a.Manifest.Name + " " + explain.OneLine(a.Manifest.Version)
	if a.Beside != nil {
		name += " for " + a.Platform.String()
	}
	if a.Signature != nil {
		name += " with its signature"
	}
	return name
}

func newPull(env *command.Env) *cobra.Command {
	var (
		f               registryFlags
		out, configFile string
		stateDir        string
	)
	c := &cobra.Command{
		Use:   "pull REF [-o FILE] | --agent-config FILE",
		Short: "Download a plugin from a registry",
		Long: "Pull writes a plugin from an OCI registry to NAME.wasm, or to the file or folder of -o, with its\n" +
			"signature beside it. A program is written to prober-plugin-NAME, with its manifest beside it.\n" +
			"All bytes are verified against their digests. It prints the reference with the digest, which\n" +
			"always names the same bytes. It uses docker's credentials and credential helpers. It warns if prober\n" +
			"cannot load a module, without running it.\n\n" +
			"With --agent-config it pulls the plugins of prober.yaml whose source is a registry into the cache of\n" +
			"prober run, which uses them when a registry cannot be reached.",
		Example: "  prober plugin pull ghcr.io/me/demo:1.0.0 -o /etc/prober/plugins\n  prober plugin pull --agent-config /etc/prober/prober.yaml",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case configFile != "" && (len(args) > 0 || out != "" || f.platform != ""):
				return command.Usage("usage: "+cmd.UseLine(), "pull: --agent-config takes neither REF nor -o nor --platform")
			case configFile != "":
				return prefetch(cmd.Context(), env, configFile, stateDir)
			}
			if err := command.Arguments("REF")(cmd, args); err != nil {
				return err
			}
			return pull(cmd.Context(), env, &f, args[0], out)
		},
	}
	f.add(c)
	platformFlag(c, &f.platform, "platform of the program to pull, such as linux/arm64 (default the host's)")
	command.FileFlag(c, &out, "o", "out", "", "file or folder to write to")
	command.AgentFileFlag(c, &configFile, "the agent's file, prober.yaml, whose plugins are pulled")
	command.NotFromEnv(c.Flags().Lookup("agent-config"))
	command.NotFromEnv(c.Flags().Lookup("config"))
	c.Flags().StringVar(&stateDir, "state-dir", "", "the --state-dir of prober run, for --agent-config")
	return c
}

func pull(ctx context.Context, env *command.Env, f *registryFlags, text, out string) error {
	ref, err := plugin.ParseReference(text)
	if err != nil {
		return err
	}
	return f.withClient(ctx, env, "pull "+ref.Repository, func(ctx context.Context, c *oci.Client) error {
		a, err := c.Pull(ctx, ref)
		if err != nil {
			return err
		}
		if err := unpack(ctx, env, a, out); err != nil {
			return err
		}
		fmt.Fprintln(env.Stdout, ref.Pinned(a.Digest))
		return nil
	})
}

// prefetch pulls the plugins of prober.yaml into the cache of the agent.
func prefetch(ctx context.Context, env *command.Env, configFile, stateDir string) error {
	policy, err := admit.New(admit.Config{ConfigFile: configFile})
	if err != nil {
		return command.Usage("", "%w", err)
	}
	all, err := pullSources(ctx, env, policy, stateDir)
	for _, r := range all {
		if r.Err == nil {
			fmt.Fprintln(env.Stdout, strings.TrimPrefix(r.Found.Path, plugin.OCIScheme))
			warnUnloadable(ctx, env, r.Found)
		}
	}
	if err != nil {
		return command.Failed(err)
	}
	if len(all) == 0 {
		fmt.Fprintf(env.Stderr, "prober: %s names no plugin of a registry\n", configFile)
	}
	return nil
}

// pullSources pulls the plugins of prober.yaml that are in registries. It also returns an error if only an
// older version is available.
func pullSources(ctx context.Context, env *command.Env, policy *admit.Policy, stateDir string) ([]admit.Pulled, error) {
	sources, err := sources(env, stateDir, false)
	if err != nil {
		return nil, err
	}
	ctx, stop := env.Interruptible(ctx)
	defer stop()
	all := policy.Pull(ctx, sources)
	var errs []error
	for _, r := range all {
		if r.Newest != "" {
			env.Warn("plugin %q of %s is version %s, and was %s before", r.Name, r.Source, explain.OneLine(r.Found.Manifest.Version), explain.OneLine(r.Newest))
		}
		for _, err := range []error{r.Err, r.Stale, r.Unkept} {
			if err != nil {
				errs = append(errs, fmt.Errorf("plugin %q: %w", r.Name, err))
			}
		}
	}
	return all, errors.Join(errs...)
}

// sources returns the registries and the cache of an agent with the given state folder.
func sources(env *command.Env, stateDir string, offline bool) (*admit.Sources, error) {
	if stateDir == "" {
		stateDir, _ = env.LookupEnv("PROBER_STATE_DIR")
	}
	dir, err := admit.CacheDir(stateDir)
	if err != nil {
		return nil, err
	}
	return admit.NewSources(admit.SourcesConfig{
		CacheDir: dir, DockerConfig: oci.DockerConfig(env.LookupEnv), Version: env.Version, Offline: offline,
	}), nil
}

// pulled returns the last pulled version of a plugin of prober.yaml, from the cache.
func pulled(env *command.Env, name, configFile string, policy *admit.Policy) (plugin.Found, error) {
	sources, err := sources(env, "", true)
	if err != nil {
		return plugin.Found{}, command.Usage("", "%w", err)
	}
	all := policy.Pull(context.Background(), sources)
	at := slices.IndexFunc(all, func(r admit.Pulled) bool { return r.Name == name && !r.Shadow })
	if at < 0 {
		return plugin.Found{}, command.Usage("", "no plugin named %q in %s", name, configFile)
	}
	if err := all[at].Err; err != nil {
		return plugin.Found{}, command.Usage("`prober plugin pull --agent-config "+configFile+"` pulls it", "%w", err)
	}
	return all[at].Found, nil
}

// unpack writes a to the file out, into the folder out, or into the working folder: the module, or
// the program and its manifest, the signature and the report. It removes the files of an older one, and warns
// if no host can load the module.
func unpack(ctx context.Context, env *command.Env, a *oci.Artifact, out string) (err error) {
	folder := filepath.Dir(out)
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return command.Usage("mkdir -p "+folder+" makes it", "-o %s: there is no folder %s", out, folder)
	}
	if a.Beside == nil {
		if info, statErr := os.Stat(out); statErr == nil && info.IsDir() {
			out = filepath.Join(out, a.Manifest.Name+".wasm")
		}
		if out = cmp.Or(out, a.Manifest.Name+".wasm"); filepath.Ext(out) != ".wasm" { // plugin folders ignore other files
			return command.Usage("mkdir -p "+out+" makes a folder", "-o %s: it is not a folder, and the file of a module ends in .wasm", out)
		}
		err = regular.ReplaceBytes(out, 0o644, a.Module)
	} else {
		if out, err = programPath(a, out); err != nil {
			return err
		}
		err = errors.Join(regular.ReplaceBytes(manifestBeside(out), 0o644, a.Beside), regular.ReplaceBytes(out, 0o755, a.Module))
	}
	for _, file := range trust.Files(out) {
		if file == out+oci.SignatureSuffix && a.Signature != nil {
			err = errors.Join(err, regular.ReplaceBytes(file, 0o644, a.Signature))
		} else if removeErr := os.Remove(file); !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}
	if err = errors.Join(err, replaceReport(out, a.Report)); err != nil {
		return command.Usage("", "%w", err)
	}
	fmt.Fprintf(env.Stderr, "prober: wrote %s to %s\n", nameOf(a), out)
	warnUnloadable(ctx, env, plugin.Found{Path: out, Manifest: a.Manifest, Module: a.Module})
	return nil
}
