package plugincmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/internal/outbound"
	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/index"
	"github.com/daeace23/prober/plugin/oci"
)

// indexFlags are the flags of commands that read an index of plugins.
type indexFlags struct {
	registryFlags
	index string
}

func (f *indexFlags) add(c *cobra.Command) {
	f.registryFlags.add(c)
	c.Flags().StringVar(&f.index, "index", "", "index of plugins: a file, a folder with an index.yaml, an HTTPS URL, or a reference")
}

// place returns the value of --index for messages. Of a URL, the password and the query may be secret.
func (f *indexFlags) place() string {
	u, err := url.Parse(f.index)
	if err != nil || u.Host == "" {
		return f.index
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// placedIndex is an index and the place where it was found.
type placedIndex struct {
	*index.Index
	dir string // folder for its paths; "" if it is not on this host
}

// load reads the index of --index.
func (f *indexFlags) load(ctx context.Context, env *command.Env) (*placedIndex, error) {
	if f.index == "" {
		return nil, command.Usage("--index or PROBER_INDEX names a file, a folder, an HTTPS URL or a reference", "--index is required")
	}
	data, dir, err := f.read(ctx, env)
	if err != nil {
		return nil, err
	}
	x, err := index.Parse(f.place(), data)
	if err != nil {
		return nil, command.Usage("", "%w", err)
	}
	return &placedIndex{x, dir}, nil
}

// read returns the contents of the index, and its folder if it is on this host.
func (f *indexFlags) read(ctx context.Context, env *command.Env) (data []byte, dir string, err error) {
	if strings.HasPrefix(f.index, "https://") || strings.HasPrefix(f.index, "http://") {
		data, err = f.download(ctx, env)
		return data, "", err
	}
	if info, statErr := os.Stat(f.index); statErr == nil {
		path := f.index
		if info.IsDir() {
			path = filepath.Join(path, index.File)
		}
		if data, err = regular.Read(path, index.MaxSize); err != nil {
			err = command.Usage("", "--index: %w", err)
		}
		return data, filepath.Dir(path), err
	}
	ref, err := plugin.ParseReference(f.index)
	if place := f.place(); err != nil && place != f.index {
		err = fmt.Errorf("%s is not a reference", place)
	}
	if err != nil {
		return nil, "", command.Usage("--index names a file, a folder, an HTTPS URL or a reference", "--index: %w", err)
	}
	err = f.withClient(ctx, env, "pull "+ref.Repository, func(ctx context.Context, c *oci.Client) (err error) {
		data, err = c.PullIndex(ctx, ref, index.MaxSize)
		return err
	})
	return data, "", err
}

// maxIndexRedirects bounds redirects, which must stay on the host.
const maxIndexRedirects = 3

// download returns the index at an HTTPS URL.
func (f *indexFlags) download(ctx context.Context, env *command.Env) ([]byte, error) {
	if !f.plainHTTP && !strings.HasPrefix(f.index, "https://") {
		return nil, command.Usage("--plain-http allows it", "--index: must be an HTTPS URL")
	}
	ctx, stop := env.Interruptible(ctx)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.index, nil)
	if err != nil {
		return nil, command.Usage("", "--index: not a URL")
	}
	c := outbound.New(outbound.Config{Redirects: maxIndexRedirects, Timeout: min(f.timeout, time.Minute)})
	defer c.Close()
	res, err := c.Do(req)
	if err != nil {
		return nil, command.Failed(fmt.Errorf("--index: %w", outbound.Failure(ctx, err)))
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, command.Failed(fmt.Errorf("--index: the server answered %s", explain.OneLine(res.Status)))
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, index.MaxSize+1))
	if err == nil && len(data) > index.MaxSize {
		err = fmt.Errorf("more than %d bytes", index.MaxSize)
	}
	if err != nil {
		return nil, command.Failed(fmt.Errorf("--index: %w", err))
	}
	return data, nil
}

func newIndex(env *command.Env) *cobra.Command {
	c := command.Folder("index", "Make an index of plugins", newIndexBuild(env), newIndexAdd(env), newIndexPush(env))
	c.Long = "An index lists plugins with their versions, references and digests, for search, install and outdated.\n" +
		"It is a YAML file, which any web server, registry or folder can serve."
	return c
}

func newIndexBuild(env *command.Env) *cobra.Command {
	var out, registry string
	c := &cobra.Command{
		Use:   "build DIR",
		Short: "Make an index of the plugins in a folder or an OCI layout",
		Long: "Build writes an index of the plugins in a plugin folder or an OCI layout to DIR/index.yaml. Its sources\n" +
			"are paths, so the file of -o must be in DIR or in a folder above. With --registry they are references\n" +
			"below it, such as ghcr.io/me/NAME@sha256:…, which needs an OCI layout, since the digests are the same there.",
		Example: "  prober plugin index build plugins\n  prober plugin index build layout --registry ghcr.io/me -o index.yaml",
		Args:    command.Arguments("DIR"),
		RunE: func(_ *cobra.Command, args []string) error {
			x, file := &index.Index{}, cmp.Or(out, filepath.Join(args[0], index.File))
			if err := addFolder(x, args[0], registry, filepath.Dir(file)); err != nil {
				return err
			}
			return writeIndex(env, x, file)
		},
	}
	c.Flags().StringVar(&registry, "registry", "", "registry and path of the plugins, such as ghcr.io/me")
	command.FileFlag(c, &out, "o", "out", "", "file to write to")
	return c
}

// addFolder adds the plugins of an OCI layout or a plugin folder to an index in the folder base.
func addFolder(x *index.Index, dir, registry, base string) error {
	if exists(filepath.Join(dir, "oci-layout")) {
		return addLayout(x, dir, registry, base)
	}
	if registry != "" {
		return command.Usage("`prober plugin save FILE -o "+dir+"` makes one", "--registry: %s is not an OCI layout", dir)
	}
	found, err := plugin.Find([]string{dir}, builtinNames()...)
	if err != nil {
		return command.Usage("", "%w", err)
	}
	for _, f := range found {
		if f.Manifest.Runtime == plugin.Nagios || f.Beside != "" && f.Manifest.Runtime != plugin.Process {
			return command.Usage("`prober plugin embed` puts a manifest inside", "%s: only programs and modules with their manifest inside can be installed", f.Path)
		}
		source, err := sourceIn(base, f.Path)
		if err != nil {
			return err
		}
		x.Add(f.Manifest, source, f.Digest, nil)
	}
	return nil
}

// addLayout adds the plugins of an OCI layout to an index in the folder base, with references below registry, or else
// with the path of the layout.
func addLayout(x *index.Index, dir, registry, base string) error {
	all, err := oci.Load(dir, oci.Platform{})
	if err != nil {
		return command.Usage("", "%w", err)
	}
	for _, a := range all {
		if registry != "" {
			x.Add(a.Manifest, registry+"/"+a.Manifest.Name+"@"+a.Digest, moduleDigest(a), nil)
			continue
		}
		source, err := sourceIn(base, dir)
		if err != nil {
			return err
		}
		x.Add(a.Manifest, source, plugin.Digest(a.Module), nil) // which finds the plugin in the layout
	}
	return nil
}

// sourceIn returns path as a source of an index in the folder base.
func sourceIn(base, path string) (string, error) {
	base, baseErr := filepath.Abs(base)
	full, err := filepath.Abs(path)
	if err := errors.Join(baseErr, err); err != nil {
		return "", command.Failed(err)
	}
	source, err := filepath.Rel(base, full)
	if err != nil || !filepath.IsLocal(source) {
		return "", command.Usage("-o names a file in the folder of the plugins, or above it", "-o: an index in %s cannot have the path of %s", base, path)
	}
	return filepath.ToSlash(source), nil
}

// moduleDigest returns the digest of a module; "" for a program, which differs by platform.
func moduleDigest(a *oci.Artifact) string {
	if a.Beside != nil {
		return ""
	}
	return plugin.Digest(a.Module)
}

func newIndexAdd(env *command.Env) *cobra.Command {
	var f registryFlags
	var keywords []string
	c := &cobra.Command{
		Use:   "add FILE REF...",
		Short: "Add plugins of registries to an index",
		Long: "Add pulls each plugin, and adds its version with the digests to the index in FILE, which it creates if\n" +
			"it does not exist.",
		Example: "  prober plugin index add index.yaml ghcr.io/me/demo:1.0.0 --keyword database",
		Args:    command.AtLeast("a file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return command.Usage("usage: "+cmd.UseLine(), "index add: a reference is required")
			}
			x := &index.Index{}
			if exists(args[0]) {
				old, err := (&indexFlags{index: args[0]}).load(cmd.Context(), env)
				if err != nil {
					return err
				}
				x = old.Index
			}
			for _, text := range args[1:] {
				if err := f.addTo(cmd.Context(), env, x, text, keywords); err != nil {
					return err
				}
			}
			return writeIndex(env, x, args[0])
		},
	}
	f.add(c)
	c.Flags().StringArrayVar(&keywords, "keyword", nil, "keyword of the plugins")
	return c
}

// addTo adds the plugin at a reference to x.
func (f *registryFlags) addTo(ctx context.Context, env *command.Env, x *index.Index, text string, keywords []string) error {
	ref, err := plugin.ParseReference(text)
	if err != nil {
		return err
	}
	return f.withClient(ctx, env, "pull "+ref.Repository, func(ctx context.Context, c *oci.Client) error {
		a, err := c.Pull(ctx, ref)
		if err != nil {
			return err
		}
		x.Add(a.Manifest, ref.Pinned(a.Digest).String(), moduleDigest(a), keywords)
		return nil
	})
}

func writeIndex(env *command.Env, x *index.Index, path string) error {
	for _, p := range x.Plugins {
		if owner := ownerOf(p.Name); owner != "" {
			env.Warn("%q is %s: nobody can install a plugin of that name by default", p.Name, owner)
		}
	}
	data, err := x.Encode()
	if err != nil {
		return command.Usage("", "%w", err)
	}
	if err := regular.ReplaceBytes(path, 0o644, data); err != nil {
		return command.Usage("", "%w", err)
	}
	fmt.Fprintf(env.Stderr, "prober: %s has %s\n", path, command.Count(len(x.Plugins), "plugin"))
	return nil
}

func newIndexPush(env *command.Env) *cobra.Command {
	var f registryFlags
	var force bool
	c := &cobra.Command{
		Use:   "push FILE REF",
		Short: "Put an index into a registry",
		Long: "Push puts an index into an OCI registry, and prints its reference with the digest. A tag of anything but an\n" +
			"index is not replaced without --force.",
		Example: "  prober plugin index push index.yaml ghcr.io/me/index:latest",
		Args:    command.Arguments("FILE", "REF"),
		RunE: func(cmd *cobra.Command, args []string) error {
			x, err := (&indexFlags{index: args[0]}).load(cmd.Context(), env)
			if err != nil {
				return err
			}
			if at := slices.IndexFunc(x.Plugins, hasPath); at >= 0 {
				return command.Usage("", "%s: plugin %q has a path as source, which a registry cannot serve", args[0], x.Plugins[at].Name)
			}
			data, err := x.Encode()
			ref, refErr := plugin.ParseReference(args[1])
			if err := errors.Join(err, refErr); err != nil {
				return command.Usage("", "%w", err)
			}
			return f.withClient(cmd.Context(), env, "push "+ref.Repository, func(ctx context.Context, c *oci.Client) error {
				digest, err := c.PushIndex(ctx, ref, data, force)
				if errors.Is(err, oci.ErrNotIndex) {
					return &command.Exit{Code: command.ExitFailed, Err: fmt.Errorf("index push: %w", err), Hint: "nothing was sent; --force replaces it"}
				}
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(env.Stdout, ref.Pinned(digest))
				return err
			})
		},
	}
	f.add(c)
	c.Flags().BoolVar(&force, "force", false, "replace a tag that is no index")
	return c
}

// hasPath reports whether a version of p has a path as its source.
func hasPath(p index.Plugin) bool {
	return slices.ContainsFunc(p.Versions, func(v index.Version) bool { _, ok := v.Reference(); return !ok })
}
