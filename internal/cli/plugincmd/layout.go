package plugincmd

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/oci"
)

func newSave(env *command.Env) *cobra.Command {
	var (
		f   registryFlags
		out string
	)
	c := &cobra.Command{
		Use:   "save REF|FILE -o DIR|FILE.tar",
		Short: "Write a plugin to an OCI layout, for sites without a registry",
		Long: "Save writes a plugin of a registry or a file, with its signature if there is one, to an OCI\n" +
			"layout. That is a folder, which may hold several plugins, or a tar archive if the name ends\n" +
			"in .tar. It prints the digest, which is the same as in a registry if a file has its FILE.check.json, which\n" +
			"pull writes. A module that prober cannot load is not saved from a file, and saved with a warning from\n" +
			"a registry.\n\n" +
			"From a registry, programs are saved for all platforms, or for that of --platform alone. From a\n" +
			"file, the program is added to the programs in the folder.",
		Example: "  prober plugin save ghcr.io/me/demo:1.0.0 -o demo.tar\n  prober plugin save demo.wasm -o plugins",
		Args:    command.Arguments("REF|FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return command.Usage("usage: "+cmd.UseLine(), "save: -o is required")
			}
			if isFileName(args[0]) {
				a, _, err := packed(cmd.Context(), env, args[0], f.platform)
				if err != nil {
					return err
				}
				if a, err = withReportBeside(a, args[0]); err != nil {
					return err
				}
				return saveLayout(env, a, versionTag(a), out)
			}
			ref, err := plugin.ParseReference(args[0])
			if err != nil {
				return err
			}
			return f.withClient(cmd.Context(), env, "pull "+ref.Repository, func(ctx context.Context, c *oci.Client) error {
				a, err := f.pullFor(ctx, c, ref)
				if err != nil {
					return err
				}
				warnUnloadable(ctx, env, plugin.Found{Path: ref.String(), Manifest: a.Manifest, Module: a.Module})
				return saveLayout(env, a, ref.Tag, out)
			})
		},
	}
	f.add(c)
	platformFlag(c, &f.platform, "of a program, as in linux/arm64 (default all of a registry, the host's of a file)")
	command.FileFlag(c, &out, "o", "out", "", "folder of a layout, or archive (.tar)")
	return c
}

// pullFor returns the artifact at ref: for all platforms, or for the platform of --platform.
func (f *registryFlags) pullFor(ctx context.Context, c *oci.Client, ref plugin.Reference) (*oci.Artifact, error) {
	if f.platform == "" {
		return c.PullWhole(ctx, ref)
	}
	a, err := c.Pull(ctx, ref)
	if err != nil {
		return nil, err
	}
	return a.Alone(), nil
}

// isFileName reports whether name is a file or a project folder rather than a reference.
func isFileName(name string) bool {
	if strings.HasPrefix(name, plugin.OCIScheme) {
		return false
	}
	if _, err := os.Stat(name); err == nil {
		return true
	}
	return strings.HasSuffix(name, ".wasm")
}

// versionTag returns the version of a as a tag, or "" if it is not a valid tag.
func versionTag(a *oci.Artifact) string {
	ref, err := plugin.ParseReference("localhost/plugin:" + a.Manifest.Version)
	if err != nil {
		return ""
	}
	return ref.Tag
}

func saveLayout(env *command.Env, a *oci.Artifact, tag, out string) error {
	save := oci.SaveDir
	if info, err := os.Stat(out); strings.HasSuffix(out, ".tar") && (err != nil || !info.IsDir()) {
		save = oci.SaveTar
	}
	if err := save(out, tag, a); err != nil {
		return command.Usage("", "%w", err)
	}
	fmt.Fprintf(env.Stderr, "prober: wrote %s to %s%s\n", nameOf(a), out, platformsOf(a))
	fmt.Fprintln(env.Stdout, a.Digest)
	return nil
}

func newLoad(env *command.Env) *cobra.Command {
	var out, platform string
	c := &cobra.Command{
		Use:   "load DIR|FILE.tar [-o FILE]",
		Short: "Unpack the plugins of an OCI layout",
		Long: "Load writes each plugin of an OCI layout, a folder or a tar archive, to NAME.wasm, or to the\n" +
			"file or folder of -o, with its signature beside it. A program is written to\n" +
			"prober-plugin-NAME, with its manifest beside it. All bytes are verified against their digests,\n" +
			"which it prints. It warns of a module that prober cannot load, without running it.",
		Example: "  prober plugin load demo.tar -o /etc/prober/plugins",
		Args:    command.Arguments("DIR|FILE.tar"),
		RunE: func(cmd *cobra.Command, args []string) error {
			on, err := parsePlatform(platform)
			if err != nil {
				return err
			}
			all, err := oci.Load(args[0], on)
			if err != nil {
				return command.Usage("", "%w", err)
			}
			return unpackAll(cmd.Context(), env, args[0], all, out)
		},
	}
	platformFlag(c, &platform, "platform of the programs, as in linux/arm64 (default the host's)")
	command.FileFlag(c, &out, "o", "out", "", "file or folder to write to")
	return c
}

// unpackAll writes the plugins of the layout at path. It returns an error if two have the same file name.
func unpackAll(ctx context.Context, env *command.Env, path string, all []*oci.Artifact, out string) error {
	info, err := os.Stat(out)
	oneFile := out != "" && (err != nil || !info.IsDir())
	seen := make(map[string]string)
	for _, a := range all {
		version, twice := seen[a.Manifest.Name]
		switch {
		case twice:
			return command.Usage("save one of them to a layout of its own", "%s has two versions of the plugin %q, %s and %s", path, a.Manifest.Name, version, a.Manifest.Version)
		case oneFile && len(all) > 1:
			return command.Usage("-o names a folder", "%s has %d plugins, and %s is one file", path, len(all), out)
		}
		seen[a.Manifest.Name] = a.Manifest.Version
	}
	for _, a := range all {
		if err := unpack(ctx, env, a, out); err != nil {
			return err
		}
		fmt.Fprintln(env.Stdout, a.Digest)
	}
	return nil
}
