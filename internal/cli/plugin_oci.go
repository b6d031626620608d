package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/oci"
)

// registryFlags say how a registry is talked to.
type registryFlags struct {
	plainHTTP bool
	timeout   time.Duration
}

func (f *registryFlags) add(c *cobra.Command) {
	c.Flags().BoolVar(&f.plainHTTP, "plain-http", false, "talk HTTP to the registry rather than HTTPS")
	c.Flags().DurationVar(&f.timeout, "timeout", 10*time.Minute, "the longest that all of it may take")
	c.Flags().Lookup("timeout").Annotations = map[string][]string{notFromEnv: {"true"}}
}

// with lets do talk to registries until it is done, a signal comes or it has taken too
// long. what is told when that is slow.
func (f *registryFlags) with(ctx context.Context, env *Env, what string, do func(context.Context, *oci.Client) error) error {
	ctx, stop := env.interruptible(ctx)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("not done within %s", f.timeout))
	defer cancel()
	c, err := oci.NewClient(oci.ClientConfig{
		PlainHTTP: f.plainHTTP, DockerConfig: oci.DockerConfig(env.LookupEnv), UserAgent: "prober/" + Version,
		Progress: env.progress(what),
	})
	if err != nil {
		return usage("", "%w", err)
	}
	defer c.Close()
	err = do(ctx, c)
	if _, ok := errors.AsType[*exit](err); ok || err == nil {
		return err
	}
	hint := ""
	if errors.Is(err, oci.ErrPlainHTTP) {
		hint = "--plain-http allows it"
	}
	return &exit{code: exitFailed, err: err, hint: hint}
}

// progressPeriod is how often a slow transfer is told of.
const progressPeriod = 2 * time.Second

// progress tells on stderr how far a transfer is that takes its time.
func (env *Env) progress(what string) func(done, total int64) {
	next := time.Now().Add(progressPeriod)
	return func(done, total int64) {
		if now := time.Now(); now.After(next) {
			next = now.Add(progressPeriod)
			fmt.Fprintf(env.Stderr, "prober: %s: %.1f of %.1f MiB\n", what, float64(done)/(1<<20), float64(total)/(1<<20))
		}
	}
}

func parseReference(text string) (plugin.Reference, error) {
	ref, err := plugin.ParseReference(text)
	if err != nil {
		return ref, usage("", "%w", err)
	}
	return ref, nil
}

func newPluginPush(env *Env) *cobra.Command {
	var f registryFlags
	c := &cobra.Command{
		Use:   "push FILE REF",
		Short: "Put a plugin into a registry",
		Long: "Push puts a plugin into an OCI registry, and its signature along with it where FILE.sig is\n" +
			"there. The same files always have the same digest: what stdout gets is the reference that\n" +
			"names these bytes for ever. Credentials are docker's, credential helpers included.",
		Example: "  prober plugin push demo/demo.wasm ghcr.io/me/demo:1.0.0",
		Args:    arguments("FILE", "REF"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := packed(args[0])
			if err != nil {
				return err
			}
			ref, err := parseReference(args[1])
			if err != nil {
				return err
			}
			return f.with(cmd.Context(), env, "push "+a.Manifest.Name, func(ctx context.Context, c *oci.Client) error {
				if err := c.Push(ctx, ref, a); err != nil {
					return err
				}
				fmt.Fprintf(env.Stderr, "prober: pushed %s as %s\n", nameOf(a), ref)
				fmt.Fprintln(env.Stdout, ref.Pinned(a.Digest))
				return nil
			})
		},
	}
	f.add(c)
	return c
}

// packed returns the plugin in a file, or of the project in a folder.
func packed(name string) (*oci.Artifact, error) {
	path, _, err := modulePath(name, nil)
	if err != nil {
		return nil, err
	}
	f, err := agent.ReadPlugin(path)
	switch {
	case errors.Is(err, plugin.ErrNoManifest):
		return nil, usage("`prober plugin build` builds the manifest into a module", "plugin %s: it has no manifest inside", path)
	case err != nil:
		return nil, usage("", "%w", err)
	case f.Manifest.Runtime == plugin.Process:
		return nil, usage("", "plugin %s is a program: only modules travel through registries", path)
	}
	signature, err := os.ReadFile(path + oci.SignatureSuffix)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, usage("", "%w", err)
	}
	a, err := oci.Pack(f.Module, signature)
	if err != nil {
		return nil, usage("", "plugin %s: %w", path, err)
	}
	return a, nil
}

// nameOf returns what people call a.
func nameOf(a *oci.Artifact) string {
	name := a.Manifest.Name + " " + oneLine(a.Manifest.Version)
	if a.Signature != nil {
		name += " with its signature"
	}
	return name
}

func newPluginPull(env *Env) *cobra.Command {
	var (
		f   registryFlags
		out string
	)
	c := &cobra.Command{
		Use:   "pull REF [-o FILE]",
		Short: "Get a plugin from a registry",
		Long: "Pull writes a plugin from an OCI registry to NAME.wasm, or to the file or folder of -o, and its\n" +
			"signature beside it. All bytes are verified against their digests; stdout gets the reference\n" +
			"that names them for ever. Credentials are docker's, credential helpers included.",
		Example: "  prober plugin pull ghcr.io/me/demo:1.0.0 -o /etc/prober/plugins",
		Args:    arguments("REF"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := parseReference(args[0])
			if err != nil {
				return err
			}
			return f.with(cmd.Context(), env, "pull "+ref.Repository, func(ctx context.Context, c *oci.Client) error {
				a, err := c.Pull(ctx, ref)
				if err != nil {
					return err
				}
				if err := env.unpack(a, out); err != nil {
					return err
				}
				fmt.Fprintln(env.Stdout, ref.Pinned(a.Digest))
				return nil
			})
		},
	}
	f.add(c)
	fileFlag(c, &out, "o", "out", "", "file or folder to write to")
	return c
}

// unpack writes the module of a, and its signature beside it, to the file out, into the
// folder out, or into the working folder. A signature of what was there before goes.
func (env *Env) unpack(a *oci.Artifact, out string) error {
	name := a.Manifest.Name + ".wasm"
	if info, err := os.Stat(out); err == nil && info.IsDir() {
		out = filepath.Join(out, name)
	} else if out == "" {
		out = name
	}
	err := replace(out, a.Module)
	if a.Signature != nil {
		err = errors.Join(err, replace(out+oci.SignatureSuffix, a.Signature))
	} else if removeErr := os.Remove(out + oci.SignatureSuffix); !errors.Is(removeErr, fs.ErrNotExist) {
		err = errors.Join(err, removeErr)
	}
	if err != nil {
		return usage("", "%w", err)
	}
	fmt.Fprintf(env.Stderr, "prober: wrote %s to %s\n", nameOf(a), out)
	return nil
}
