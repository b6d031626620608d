package oci

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/daeace23/prober/plugin"
)

// maxWhole bounds the programs of a plugin that is fetched for all of its platforms.
const maxWhole = 1 << 30

// Program is a plugin that is a program of its own, for one platform.
type Program struct {
	Manifest  []byte // the file beside the program
	Code      []byte
	Signature []byte   // of both, as it lies beside them; nil: none
	Platform  Platform // the host's when zero
}

// programConfig is the config of a program's artifact, with the fields that other clients
// look for in a config to tell platforms apart.
type programConfig struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// ProgramFile returns the name that the program of a plugin has in a folder.
func ProgramFile(name string, on Platform) string {
	if on.orHost().OS == "windows" {
		name += ".exe"
	}
	return plugin.ProcessPrefix + name
}

// PackProgram makes an artifact of a program: an index with one platform, which
// [Client.Join] and [SaveDir] add to those that are there.
func PackProgram(p Program) (*Artifact, error) {
	manifest, err := parseManifest(p.Manifest)
	if err != nil {
		return nil, err
	}
	on := p.Platform.orHost()
	switch {
	case !on.valid():
		return nil, fmt.Errorf("%.80q is not a platform", on.String())
	case len(p.Signature) > MaxSignature:
		return nil, fmt.Errorf("signature of %d bytes; at most %d are allowed", len(p.Signature), MaxSignature)
	case len(p.Code) == 0 || len(p.Code) > MaxProgram:
		return nil, fmt.Errorf("program of %d bytes; want 1 to %d", len(p.Code), MaxProgram)
	}
	config, err := json.Marshal(programConfig{on.Architecture, on.OS})
	if err != nil {
		return nil, err
	}
	file := ProgramFile(manifest.Name, on)
	a := &Artifact{Manifest: manifest, Module: p.Code, Beside: p.Manifest, Platform: on, Signature: p.Signature, blobs: []blob{
		newBlob(ProgramConfigType, config, ""),
		newBlob(ManifestType, p.Manifest, plugin.ProcessPrefix+manifest.Name+".yaml"),
		newBlob(ProgramType, p.Code, file),
	}}
	if len(p.Signature) > 0 {
		a.blobs = append(a.blobs, newBlob(SignatureType, p.Signature, file+SignatureSuffix))
	}
	if a.inner, err = a.marshalManifest(); err != nil {
		return nil, err
	}
	return a, a.setIndex(nil)
}

// parseManifest reads the manifest of a program.
func parseManifest(data []byte) (*plugin.Manifest, error) {
	if len(data) > plugin.MaxManifest {
		return nil, fmt.Errorf("manifest of %d bytes; at most %d are allowed", len(data), plugin.MaxManifest)
	}
	m, err := plugin.ParseManifest("manifest", data)
	if err != nil {
		return nil, err
	}
	if m.Runtime = cmp.Or(m.Runtime, plugin.Process); m.Runtime != plugin.Process {
		return nil, fmt.Errorf("it is a program, and its manifest says that its runtime is %s", m.Runtime)
	}
	return m, nil
}

// readPlatform takes the platform that the config of a names, which must be the one that
// is wanted.
func (a *Artifact) readPlatform(config []byte, on Platform) error {
	var c programConfig
	if err := json.Unmarshal(config, &c); err != nil {
		return fmt.Errorf("config: %w", err)
	}
	a.Platform = Platform{c.OS, c.Architecture}
	if !a.Platform.valid() {
		return fmt.Errorf("config: %.80q is not a platform", a.Platform.String())
	}
	if want := on.orHost(); a.Platform != want {
		return &PlatformError{Want: want, Have: []Platform{a.Platform}}
	}
	return nil
}

// setIndex makes the index of a and of the programs of other platforms.
func (a *Artifact) setIndex(others []ocispec.Descriptor) error {
	entry := a.inner.desc
	entry.ArtifactType = ArtifactType
	entry.Platform = &ocispec.Platform{OS: a.Platform.OS, Architecture: a.Platform.Architecture}
	all := append(slices.Clone(others), entry)
	if len(all) > maxPlatforms {
		return fmt.Errorf("%d platforms; at most %d are allowed", len(all), maxPlatforms)
	}
	slices.SortFunc(all, func(x, y ocispec.Descriptor) int {
		return cmp.Or(cmp.Compare(x.Platform.OS, y.Platform.OS), cmp.Compare(x.Platform.Architecture, y.Platform.Architecture))
	})
	data, err := json.Marshal(ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, ArtifactType: ArtifactType,
		Manifests: all, Annotations: annotations(a.Manifest),
	})
	a.root = newBlob(ocispec.MediaTypeImageIndex, data, "")
	a.Digest = a.root.desc.Digest.String()
	return err
}

// Platforms returns those that there are programs for; none of a module.
func (a *Artifact) Platforms() []Platform {
	if a.Index() == nil {
		if a.Beside == nil {
			return nil
		}
		return []Platform{a.Platform}
	}
	_, all, err := variantsOf(a.root.data)
	if err != nil {
		return nil // it was read before, or made
	}
	platforms := make([]Platform, len(all))
	for i, v := range all {
		platforms[i] = v.Platform
	}
	return platforms
}

// join returns a together with the programs that the index old has for other platforms,
// where it is of the same version of the same plugin. Else it is a that takes its place.
func (a *Artifact) join(old blob) (*Artifact, error) {
	if a.Index() == nil || old.desc.MediaType != ocispec.MediaTypeImageIndex {
		return a, nil
	}
	index, all, err := variantsOf(old.data)
	switch {
	case errors.Is(err, ErrNotPlugin):
		return a, nil
	case err != nil:
		return nil, err
	case index.Annotations[ocispec.AnnotationTitle] != a.Manifest.Name, index.Annotations[ocispec.AnnotationVersion] != a.Manifest.Version:
		return a, nil
	}
	var others []ocispec.Descriptor
	for _, v := range all {
		if v.Platform != a.Platform {
			others = append(others, v.desc)
		}
	}
	joined := *a
	return &joined, joined.setIndex(others)
}

// Join returns a as it is to be pushed for the programs of other platforms to stay that
// are at ref already, of the same version. One of another version loses its place.
func (c *Client) Join(ctx context.Context, ref plugin.Reference, a *Artifact) (*Artifact, error) {
	if a.Index() == nil {
		return a, nil
	}
	old, err := c.pullRoot(ctx, ref)
	if errors.Is(err, ErrNotFound) {
		return a, nil
	}
	if err != nil {
		return nil, err
	}
	joined, err := a.join(old)
	return joined, c.explain(ctx, ref, err)
}

// PullWhole is [Client.Pull] for what is to be saved: with the programs of all platforms,
// whichever there are. Those of others than the host are fetched while they are saved,
// under this context.
func (c *Client) PullWhole(ctx context.Context, ref plugin.Reference) (*Artifact, error) {
	root, err := c.pullRoot(ctx, ref)
	if err != nil {
		return nil, err
	}
	if root.desc.MediaType != ocispec.MediaTypeImageIndex {
		a, err := read(root, c.platform, c.fetcher(ctx, ref))
		return a, c.explain(ctx, ref, err)
	}
	a, err := c.readWhole(ctx, ref, root)
	return a, c.explain(ctx, ref, err)
}

func (c *Client) readWhole(ctx context.Context, ref plugin.Reference, root blob) (*Artifact, error) {
	_, all, err := variantsOf(root.data)
	if err != nil {
		return nil, err
	}
	first, err := choose(all, c.platform.orHost())
	if err != nil {
		first = all[0]
	}
	get := c.fetcher(ctx, ref)
	a, err := read(root, first.Platform, get)
	if err != nil {
		return nil, err
	}
	size := int64(len(a.Module))
	for _, v := range all {
		if v.Platform == first.Platform {
			continue
		}
		inner, err := readInner(v, get)
		if err != nil {
			return nil, err
		}
		parts, err := c.later(ctx, ref, inner)
		if err != nil {
			return nil, fmt.Errorf("manifest for %s: %w", v.Platform, err)
		}
		a.rest = append(append(a.rest, inner), parts...)
		for _, part := range parts {
			size += part.desc.Size
		}
	}
	if size > maxWhole {
		return nil, fmt.Errorf("more than %d bytes of programs", maxWhole)
	}
	return a, nil
}

// later returns the parts that an OCI manifest names, to be fetched when they are read.
func (c *Client) later(ctx context.Context, ref plugin.Reference, manifest blob) (parts []blob, err error) {
	m, err := parseRoot(manifest)
	if err != nil {
		return nil, err
	}
	store := c.repository(ref).Blobs()
	for i, desc := range append([]ocispec.Descriptor{m.Config}, m.Layers...) {
		most := int64(MaxProgram)
		if i == 0 {
			most = MaxConfig
		}
		if err := checkDescriptor(desc, most); err != nil {
			return nil, err
		}
		parts = append(parts, blob{desc: desc, open: func() (io.ReadCloser, error) {
			body, err := store.Fetch(ctx, desc)
			return body, c.explain(ctx, ref, err)
		}})
	}
	return parts, nil
}
