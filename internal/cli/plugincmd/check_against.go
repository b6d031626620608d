package plugincmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/semantic"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/oci"
)

// previousVersion is the version that a check compares with.
type previousVersion struct {
	place string        // where it is from
	found *plugin.Found // nil if there is no older version
}

// againstNone is the value of --against that compares with nothing.
const againstNone = "none"

// previous returns the version that --against names; nil for none.
func (f *registryFlags) previous(ctx context.Context, env *command.Env, against string, m *plugin.Manifest) (*previousVersion, error) {
	switch {
	case against == "" || against == againstNone:
		return nil, nil
	case exists(against):
		return previousFile(against, m)
	}
	ref, err := plugin.ParseReference(against)
	newest := false
	if err != nil {
		withTag, tagErr := plugin.ParseReference(against + ":latest")
		if tagErr != nil {
			return nil, command.Usage("--against names a plugin, an OCI layout, a reference or none", "--against: %w", err)
		}
		ref, newest = withTag, true
	}
	var previous *previousVersion
	err = f.withClient(ctx, env, "pull "+ref.Repository, func(ctx context.Context, c *oci.Client) (err error) {
		if newest {
			previous, err = newestBefore(ctx, c, ref, m.Version)
			return err
		}
		previous, err = pulledVersion(ctx, c, ref)
		return err
	})
	return previous, err
}

// previousFile returns the plugin in a file or folder, or the newest older one of its name in an OCI layout.
func previousFile(path string, m *plugin.Manifest) (*previousVersion, error) {
	if _, err := os.Stat(filepath.Join(path, "oci-layout")); err != nil && !strings.HasSuffix(path, ".tar") {
		found, err := readPlugin(path)
		if err != nil {
			return nil, err
		}
		return &previousVersion{path, &found}, nil
	}
	all, err := oci.Load(path, oci.Platform{})
	if err != nil {
		return nil, command.Usage("", "--against: %w", err)
	}
	var best *oci.Artifact
	for _, a := range all {
		if a.Manifest.Name == m.Name && semantic.Newer(m.Version, a.Manifest.Version) && (best == nil || semantic.Newer(a.Manifest.Version, best.Manifest.Version)) {
			best = a
		}
	}
	if best == nil {
		return &previousVersion{place: path}, nil
	}
	found := foundIn(best, path)
	return &previousVersion{path, &found}, nil
}

// pushedBefore returns the version that a push of the plugin m to ref is compared with: [newestBefore], if it is the
// same plugin. Credentials may permit a push alone.
func pushedBefore(ctx context.Context, c *oci.Client, ref plugin.Reference, m *plugin.Manifest) (*previousVersion, error) {
	place := ref.Registry + "/" + ref.Repository
	previous, err := newestBefore(ctx, c, ref, m.Version)
	switch {
	case errors.Is(err, oci.ErrUnauthorized):
		return &previousVersion{place: place + " that these credentials can read"}, nil
	case errors.Is(err, oci.ErrNotPlugin), err == nil && previous.found != nil && previous.found.Manifest.Name != m.Name:
		return &previousVersion{place: place}, nil
	}
	return previous, err
}

// newestBefore returns the newest version before a version: among the versions of ref's repository, or else at the tag
// of ref.
func newestBefore(ctx context.Context, c *oci.Client, ref plugin.Reference, version string) (*previousVersion, error) {
	tag, err := c.Newest(ctx, ref, version)
	if err != nil && !errors.Is(err, oci.ErrNotFound) && !errors.Is(err, oci.ErrUnauthorized) {
		return nil, err // a registry may not list tags
	}
	if tag != "" {
		ref.Tag = tag
	}
	previous, err := pulledVersion(ctx, c, ref)
	if errors.Is(err, oci.ErrNotFound) {
		return &previousVersion{place: ref.Registry + "/" + ref.Repository}, nil
	}
	if _, other := errors.AsType[*oci.PlatformError](err); other {
		return &previousVersion{place: fmt.Sprintf("%s for this platform", ref)}, nil
	}
	return previous, err
}

func pulledVersion(ctx context.Context, c *oci.Client, ref plugin.Reference) (*previousVersion, error) {
	a, err := c.Pull(ctx, ref)
	if err != nil {
		return nil, err
	}
	found := foundIn(a, ref.String())
	return &previousVersion{ref.String(), &found}, nil
}

// foundIn returns the plugin of an artifact at a place.
func foundIn(a *oci.Artifact, place string) plugin.Found {
	f := plugin.Found{Path: place, Manifest: a.Manifest}
	f.SetModule(a.Module)
	return f
}
