package oci

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/daeace23/prober/plugin"
)

// Annotations of manifests that are prober's own.
const (
	annotationABI      = "dev.prober.plugin.abi"
	annotationMode     = "dev.prober.plugin.mode"
	annotationRequests = "dev.prober.plugin.requests" // capabilities, between commas
	annotationSDK      = "dev.prober.plugin.sdk"
)

// Artifact is a plugin as registries and layouts keep it. It is read-only.
type Artifact struct {
	Manifest  *plugin.Manifest // inside Module
	Module    []byte
	Signature []byte // of Module, detached; nil: none
	Digest    string // of the OCI manifest, which is what a reference pins
	// Cosigned are the signatures that cosign put beside it, see [ClientConfig]. No digest
	// covers them.
	Cosigned []Cosigned

	root  blob   // the OCI manifest
	blobs []blob // config and layers, in the order of the manifest
}

// Root returns the OCI manifest, which Digest is of.
func (a *Artifact) Root() []byte { return a.root.data }

// blob is a part of an artifact. data is what desc says.
type blob struct {
	desc ocispec.Descriptor
	data []byte
}

func newBlob(mediaType string, data []byte, title string) blob {
	b := blob{describe(mediaType, data), data}
	if title != "" {
		b.desc.Annotations = map[string]string{ocispec.AnnotationTitle: title} // names the file for other clients
	}
	return b
}

// wasmConfig is the config of Wasm artifacts. Some readers insist on created, which says
// nothing here: the same module must make the same artifact at all times.
type wasmConfig struct {
	Created      string   `json:"created"`
	Architecture string   `json:"architecture"`
	OS           string   `json:"os"`
	LayerDigests []string `json:"layerDigests"`
}

// Pack makes an artifact of a module with its manifest inside, and of the signature that
// lies beside it; nil is none.
func Pack(module, signature []byte) (*Artifact, error) {
	manifest, err := plugin.ReadModule("module", module)
	if err != nil {
		return nil, err
	}
	if len(signature) > MaxSignature {
		return nil, fmt.Errorf("signature of %d bytes; at most %d are allowed", len(signature), MaxSignature)
	}
	file := manifest.Name + ".wasm"
	layers := []blob{newBlob(LayerType, module, file)}
	if len(signature) > 0 {
		layers = append(layers, newBlob(SignatureType, signature, file+SignatureSuffix))
	}
	config, err := marshalConfig(layers)
	if err != nil {
		return nil, err
	}
	a := &Artifact{Manifest: manifest, Module: module, Signature: signature, blobs: append([]blob{config}, layers...)}
	root, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: ArtifactType,
		Config: config.desc, Layers: descriptors(layers), Annotations: annotations(manifest),
	})
	if err != nil {
		return nil, err
	}
	a.root = blob{describe(ocispec.MediaTypeImageManifest, root), root}
	a.Digest = a.root.desc.Digest.String()
	return a, nil
}

func marshalConfig(layers []blob) (blob, error) {
	config := wasmConfig{Created: "1970-01-01T00:00:00Z", Architecture: "wasm", OS: "wasip1"}
	for _, l := range layers {
		config.LayerDigests = append(config.LayerDigests, l.desc.Digest.String())
	}
	data, err := json.Marshal(config)
	return newBlob(ConfigType, data, ""), err
}

func descriptors(blobs []blob) (all []ocispec.Descriptor) {
	for _, b := range blobs {
		all = append(all, b.desc)
	}
	return all
}

func annotations(m *plugin.Manifest) map[string]string {
	capabilities := make(map[string]bool)
	for _, r := range m.Requests {
		capabilities[r.Capability] = true
	}
	all := map[string]string{
		ocispec.AnnotationTitle: m.Name, ocispec.AnnotationVersion: m.Version, ocispec.AnnotationDescription: m.Description,
		ocispec.AnnotationLicenses: m.License, annotationABI: strconv.Itoa(m.ABI), annotationMode: string(m.Mode), annotationSDK: m.SDK,
		annotationRequests: strings.Join(slices.Sorted(maps.Keys(capabilities)), ","),
	}
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	return all
}

// fetch returns the bytes of a descriptor, verified, where they are at most most.
type fetch func(desc ocispec.Descriptor, most int64) ([]byte, error)

// read returns the artifact of an OCI manifest, of which desc is known to be true.
func read(desc ocispec.Descriptor, root []byte, get fetch) (*Artifact, error) {
	m, err := parseRoot(desc, root)
	if err != nil {
		return nil, err
	}
	layer, signature, err := layersOf(m)
	if err != nil {
		return nil, err
	}
	a := &Artifact{Digest: desc.Digest.String(), root: blob{desc, root}}
	config, err := get(m.Config, MaxConfig)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	if a.Module, err = get(layer, MaxBlob); err != nil {
		return nil, fmt.Errorf("module: %w", err)
	}
	a.blobs = []blob{{m.Config, config}, {layer, a.Module}}
	if signature != nil {
		if a.Signature, err = get(*signature, MaxSignature); err != nil {
			return nil, fmt.Errorf("signature: %w", err)
		}
		a.blobs = append(a.blobs, blob{*signature, a.Signature})
	}
	a.Manifest, err = plugin.ReadModule("module", a.Module)
	return a, err
}

// parseRoot reads a manifest and refuses those of other things.
func parseRoot(desc ocispec.Descriptor, root []byte) (*ocispec.Manifest, error) {
	switch desc.MediaType {
	case ocispec.MediaTypeImageManifest:
	case ocispec.MediaTypeImageIndex, "application/vnd.docker.distribution.manifest.list.v2+json":
		return nil, fmt.Errorf("is an index of images, %w", ErrNotPlugin)
	case "application/vnd.docker.distribution.manifest.v2+json":
		return nil, fmt.Errorf("is an image, %w", ErrNotPlugin)
	default:
		return nil, fmt.Errorf("is %.80q, %w", desc.MediaType, ErrNotPlugin)
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(root, &m); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	if m.MediaType != "" && m.MediaType != desc.MediaType {
		return nil, fmt.Errorf("is %.80q, %w", m.MediaType, ErrNotPlugin)
	}
	switch {
	case m.Config.MediaType == ConfigType:
	case strings.Contains(m.Config.MediaType, ".image."):
		return nil, fmt.Errorf("is an image, %w", ErrNotPlugin)
	default:
		return nil, fmt.Errorf("is of type %.80q, %w", cmp.Or(m.ArtifactType, m.Config.MediaType, "unknown"), ErrNotPlugin)
	}
	return &m, nil
}

// layersOf returns the one module of a manifest, and its signature. Layers of other
// types are somebody else's, and are left alone.
func layersOf(m *ocispec.Manifest) (module ocispec.Descriptor, signature *ocispec.Descriptor, err error) {
	modules := 0
	for _, l := range m.Layers {
		switch l.MediaType {
		case LayerType:
			module = l
			modules++
		case SignatureType:
			if signature != nil {
				return module, nil, errors.New("has two signatures")
			}
			signature = &l
		}
	}
	if modules != 1 {
		return module, nil, fmt.Errorf("has %d layers of %s, want 1: %w", modules, LayerType, ErrNotPlugin)
	}
	return module, signature, nil
}
