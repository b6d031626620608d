package oci

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/daeace23/prober/plugin"
)

// maxWhole bounds the total size of a plugin's programs for all platforms, in bytes.
const maxWhole = 1 << 30

// Program is a plugin that is a program, for one platform.
type Program struct {
	Manifest  []byte // the file beside the program
	Code      []byte
	Signature []byte   // of Manifest and Code; nil for none
	Platform  Platform // zero means the host's
}

// programConfig is the config of a program's artifact. Other clients read the platform from it.
type programConfig struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// ProgramFile returns the file name of a plugin's program.
func ProgramFile(name string, on Platform) string {
	if on.orHost().OS == "windows" {
		name += ".exe"
	}
	return plugin.ProcessPrefix + name
}

// PackProgram returns an artifact of a program: an index with one platform. [Client.Join] and
// [SaveDir] keep the programs of other platforms at the destination.
func PackProgram(p Program) (*Artifact, error) {
	manifest, err := plugin.ParseProgramManifest("manifest", p.Manifest)
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
		return nil, fmt.Errorf("program of %d bytes; must have 1 to %d", len(p.Code), MaxProgram)
	}
	a := &Artifact{Manifest: manifest, Module: p.Code, Beside: p.Manifest, Platform: on, Signature: p.Signature}
	return a, a.packProgram()
}

// packProgram sets the blobs of a, which has a program, and an index with its platform alone.
func (a *Artifact) packProgram() (err error) {
	file := ProgramFile(a.Manifest.Name, a.Platform)
	layers := append([]blob{
		newBlob(ManifestType, a.Beside, plugin.ProcessPrefix+a.Manifest.Name+".yaml"), newBlob(ProgramType, a.Module, file),
	}, a.optional(file)...)
	if a.inner, err = a.marshalManifest(ProgramConfigType, programConfig{a.Platform.Architecture, a.Platform.OS}, layers); err != nil {
		return err
	}
	return a.setIndex(nil)
}

// readProgram reads the layers of a program. It returns an error unless the program is for the
// platform on; zero means the host's.
func (a *Artifact) readProgram(m *ocispec.Manifest, on Platform, get fetch) (err error) {
	var c programConfig
	if err := json.Unmarshal(a.blobs[0].data, &c); err != nil {
		return fmt.Errorf("config: %w", err)
	}
	a.Platform = Platform{c.OS, c.Architecture}
	if !a.Platform.valid() {
		return fmt.Errorf("config: %.80q is not a platform", a.Platform.String())
	}
	if want := on.orHost(); a.Platform != want {
		return &PlatformError{Want: want, Have: []Platform{a.Platform}}
	}
	if a.Beside, err = a.readLayer(m, "manifest", ManifestType, plugin.MaxManifest, get); err != nil {
		return err
	}
	if a.Module, err = a.readLayer(m, "program", ProgramType, MaxProgram, get); err != nil {
		return err
	}
	a.Manifest, err = plugin.ParseProgramManifest("manifest", a.Beside)
	return err
}

// setIndex sets a's index to one with a's program and the programs others.
func (a *Artifact) setIndex(others []ocispec.Descriptor) (err error) {
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
	a.root, err = marshalBlob(ocispec.MediaTypeImageIndex, ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, ArtifactType: ArtifactType,
		Manifests: all, Annotations: annotations(a.Manifest),
	})
	a.Digest = a.root.desc.Digest.String()
	return err
}

// Platforms returns the platforms of the programs in a's index; none for a module.
func (a *Artifact) Platforms() (all []Platform) {
	if a.Index() == nil {
		if a.Beside != nil {
			all = []Platform{a.Platform}
		}
		return all
	}
	_, variants, _ := variantsOf(a.root.data) // cannot fail: it parsed when a was made
	for _, v := range variants {
		all = append(all, v.Platform)
	}
	return all
}

// join returns a, with the programs that the index old has for other platforms added. If old is
// not of the same version of the same plugin, join returns a unchanged.
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

// Join returns a, with the programs at ref for other platforms added if they have the same
// version. A push of the result to ref keeps them.
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

// PullWhole is [Client.Pull] with the programs of all platforms, so that the artifact can be saved.
// It does not pull signatures of cosign.
func (c *Client) PullWhole(ctx context.Context, ref plugin.Reference) (*Artifact, error) {
	root, err := c.pullRoot(ctx, ref)
	if err != nil {
		return nil, err
	}
	a, err := readWhole(root, c.platform.orHost(), c.fetcher(ctx, ref))
	return a, c.explain(ctx, ref, err)
}

// readWhole is [read], with the programs of other platforms in rest. If the index has no program
// for on, it selects the first one. readWhole verifies the parts of other programs but does not
// parse them, since a newer version of prober may have made them.
func readWhole(root blob, on Platform, get fetch) (*Artifact, error) {
	if root.desc.MediaType != ocispec.MediaTypeImageIndex {
		return read(root, on, get)
	}
	_, all, err := variantsOf(root.data)
	if err != nil {
		return nil, err
	}
	first, err := choose(all, on)
	if err != nil {
		first = all[0]
	}
	whole := &Artifact{Digest: root.desc.Digest.String(), root: root}
	parts := make([][]ocispec.Descriptor, len(all)) // config and layers of each program
	size := int64(0)
	for i, v := range all {
		inner, descs, err := readInner(v, get)
		if err != nil {
			return nil, err
		}
		for _, desc := range descs {
			size += desc.Size
		}
		whole.rest, parts[i] = append(whole.rest, inner), descs
		if v.Platform == first.Platform {
			whole.inner = inner
		}
	}
	if size > maxWhole {
		return nil, fmt.Errorf("more than %d bytes of programs", maxWhole)
	}
	if err := whole.readManifest(first.Platform, get); err != nil {
		return nil, fmt.Errorf("program for %s: %w", first.Platform, err)
	}
	for i, v := range all {
		if v.Platform == first.Platform {
			continue
		}
		for _, desc := range parts[i] {
			data, err := get(desc, MaxProgram)
			if err != nil {
				return nil, fmt.Errorf("program for %s: %w", v.Platform, err)
			}
			whole.rest = append(whole.rest, blob{desc, data})
		}
	}
	return whole, whole.checkLayers()
}

// readInner returns the OCI manifest of v, and the descriptors of its config and layers.
func readInner(v variant, get fetch) (inner blob, parts []ocispec.Descriptor, err error) {
	data, err := get(v.desc, MaxManifest)
	if err != nil {
		return inner, nil, fmt.Errorf("manifest for %s: %w", v.Platform, err)
	}
	inner = newBlob(ocispec.MediaTypeImageManifest, data, "")
	m, err := parseRoot(inner)
	if err == nil {
		err = checkDescriptor(m.Config, MaxConfig)
		parts = append([]ocispec.Descriptor{m.Config}, m.Layers...)
	}
	for _, desc := range parts {
		if err == nil {
			err = checkDescriptor(desc, MaxProgram)
		}
	}
	if err != nil {
		err = fmt.Errorf("program for %s: %w", v.Platform, err)
	}
	return inner, parts, err
}
