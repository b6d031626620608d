package oci

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	Manifest *plugin.Manifest // inside Module, or else in Beside
	Module   []byte           // the module, or the program for Platform
	// Beside is the file with the manifest of a program; nil: the manifest is inside Module.
	Beside    []byte
	Platform  Platform // of a program; zero: of a module
	Signature []byte   // of Module and Beside, detached; nil: none
	// Digest is that of the OCI manifest, which is what a reference pins; or of the index
	// with the OCI manifests of all platforms.
	Digest string
	// Cosigned are the signatures that cosign put beside it, see [ClientConfig]. No digest
	// covers them.
	Cosigned []Cosigned

	root  blob   // what Digest is of
	inner blob   // the OCI manifest of Platform where root is an index; else empty
	blobs []blob // config and layers, in the order of the manifest
	rest  []blob // what root names of other platforms, where it was asked for
}

// Index returns the index that Digest is of; nil where there is none.
func (a *Artifact) Index() []byte {
	if a.inner.data == nil {
		return nil
	}
	return a.root.data
}

// Root returns the OCI manifest, which names the layers: Digest is of it, or else of the
// index, which names it.
func (a *Artifact) Root() []byte { return a.manifest().data }

func (a *Artifact) manifest() blob {
	if a.inner.data == nil {
		return a.root
	}
	return a.inner
}

// Alone returns a without the index that names it: the program of one platform, with a
// digest of its own.
func (a *Artifact) Alone() *Artifact {
	alone := *a
	alone.root, alone.inner, alone.rest, alone.Cosigned = a.manifest(), blob{}, nil, nil
	alone.Digest = alone.root.desc.Digest.String()
	return &alone
}

// Found returns a as what is loaded. Its path is ref with a's digest, and no file's: what was
// verified is what is loaded. With it are its signatures, and none of any files.
func (a *Artifact) Found(ref plugin.Reference) plugin.Found {
	ref.Digest = a.Digest
	f := plugin.Found{
		Manifest: a.Manifest, Path: plugin.OCIScheme + ref.String(), Module: a.Module, Digest: plugin.Digest(a.Module),
		Signatures: []plugin.Signature{},
	}
	if a.Beside != nil {
		f.Beside = plugin.Digest(a.Beside)
	}
	if a.Signature != nil {
		f.Signatures = append(f.Signatures, plugin.Signature{From: f.Path, Data: a.Signature})
	}
	for _, c := range a.Cosigned {
		s := plugin.Signature{From: f.Path + " by cosign", Data: []byte(c.Signature), Payload: c.Payload, Artifact: a.Root(), Index: a.Index()}
		if c.Bundle != nil {
			s.Data, s.Payload = c.Bundle, nil
		}
		f.Signatures = append(f.Signatures, s)
	}
	return f
}

// blob is a part of an artifact. data, or what open gives when it is not nil, is what desc
// says.
type blob struct {
	desc ocispec.Descriptor
	data []byte
	open func() (io.ReadCloser, error)
}

func newBlob(mediaType string, data []byte, title string) blob {
	b := blob{desc: describe(mediaType, data), data: data}
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
	if a.root, err = a.marshalManifest(); err != nil {
		return nil, err
	}
	a.Digest = a.root.desc.Digest.String()
	return a, nil
}

// marshalManifest returns the OCI manifest of a's blobs.
func (a *Artifact) marshalManifest() (blob, error) {
	data, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: ArtifactType,
		Config: a.blobs[0].desc, Layers: descriptors(a.blobs[1:]), Annotations: annotations(a.Manifest),
	})
	return newBlob(ocispec.MediaTypeImageManifest, data, ""), err
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

// read returns the artifact of an OCI manifest, or of an index of such: then the program
// for a platform. The descriptor of root is known to be true.
func read(root blob, on Platform, get fetch) (*Artifact, error) {
	a := &Artifact{Digest: root.desc.Digest.String(), root: root}
	if root.desc.MediaType != ocispec.MediaTypeImageIndex {
		return a, a.readManifest(on, get)
	}
	_, all, err := variantsOf(root.data)
	if err != nil {
		return nil, err
	}
	v, err := choose(all, on.orHost())
	if err != nil {
		return nil, err
	}
	if a.inner, err = readInner(v, get); err != nil {
		return nil, err
	}
	return a, a.readManifest(v.Platform, get)
}

// readInner returns the OCI manifest that an index names.
func readInner(v variant, get fetch) (blob, error) {
	data, err := get(v.desc, MaxManifest)
	if err != nil {
		return blob{}, fmt.Errorf("manifest for %s: %w", v.Platform, err)
	}
	return newBlob(ocispec.MediaTypeImageManifest, data, ""), nil
}

// readManifest reads what the OCI manifest of a names.
func (a *Artifact) readManifest(on Platform, get fetch) error {
	m, err := parseRoot(a.manifest())
	if err != nil {
		return err
	}
	l, err := layersOf(m)
	if err != nil {
		return err
	}
	config, err := get(m.Config, MaxConfig)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	a.blobs = []blob{{desc: m.Config, data: config}}
	if l.manifest != nil {
		if err := a.readPlatform(config, on); err != nil {
			return err
		}
	} else if a.inner.data != nil {
		return fmt.Errorf("has a module for a platform, and modules run on all: %w", ErrNotPlugin)
	}
	if err := a.readLayers(l, get); err != nil {
		return err
	}
	if l.manifest != nil {
		a.Manifest, err = parseManifest(a.Beside)
	} else {
		a.Manifest, err = plugin.ReadModule("module", a.Module)
	}
	return err
}

// readLayers gets the layers that l names.
func (a *Artifact) readLayers(l layers, get fetch) (err error) {
	part := func(name string, to *[]byte, desc *ocispec.Descriptor, most int64) {
		if desc == nil || err != nil {
			return
		}
		if *to, err = get(*desc, most); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
			return
		}
		a.blobs = append(a.blobs, blob{desc: *desc, data: *to})
	}
	if l.manifest != nil {
		part("manifest", &a.Beside, l.manifest, plugin.MaxManifest)
		part("program", &a.Module, l.code, MaxProgram)
	} else {
		part("module", &a.Module, l.code, MaxBlob)
	}
	part("signature", &a.Signature, l.signature, MaxSignature)
	return err
}

// parseRoot reads a manifest and refuses those of other things.
func parseRoot(root blob) (*ocispec.Manifest, error) {
	switch root.desc.MediaType {
	case ocispec.MediaTypeImageManifest:
	case "application/vnd.docker.distribution.manifest.list.v2+json":
		return nil, fmt.Errorf("is an index of images, %w", ErrNotPlugin)
	case "application/vnd.docker.distribution.manifest.v2+json":
		return nil, fmt.Errorf("is an image, %w", ErrNotPlugin)
	default:
		return nil, fmt.Errorf("is %.80q, %w", root.desc.MediaType, ErrNotPlugin)
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(root.data, &m); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	if m.MediaType != "" && m.MediaType != root.desc.MediaType {
		return nil, fmt.Errorf("is %.80q, %w", m.MediaType, ErrNotPlugin)
	}
	switch {
	case m.Config.MediaType == ConfigType, m.Config.MediaType == ProgramConfigType:
	case strings.Contains(m.Config.MediaType, ".image."):
		return nil, fmt.Errorf("is an image, %w", ErrNotPlugin)
	default:
		return nil, fmt.Errorf("is of type %.80q, %w", cmp.Or(m.ArtifactType, m.Config.MediaType, "unknown"), ErrNotPlugin)
	}
	return &m, nil
}

// layers are those of an artifact that are read.
type layers struct {
	code      *ocispec.Descriptor // the module, or the program
	manifest  *ocispec.Descriptor // of a program; nil: code is a module
	signature *ocispec.Descriptor // nil: none
}

// layersOf returns the one module of a manifest, or the program and its manifest, and the
// signature. Layers of other types are somebody else's, and are left alone.
func layersOf(m *ocispec.Manifest) (layers, error) {
	codeType := LayerType
	if m.Config.MediaType == ProgramConfigType {
		codeType = ProgramType
	}
	var all layers
	count := make(map[string]int)
	for _, l := range m.Layers {
		count[l.MediaType]++
		switch l.MediaType {
		case codeType:
			all.code = &l
		case ManifestType:
			all.manifest = &l
		case SignatureType:
			all.signature = &l
		}
	}
	switch {
	case count[codeType] != 1:
		return all, fmt.Errorf("has %d layers of %s, want 1: %w", count[codeType], codeType, ErrNotPlugin)
	case codeType == LayerType:
		all.manifest = nil
	case count[ManifestType] != 1:
		return all, fmt.Errorf("has %d layers of %s, want 1: %w", count[ManifestType], ManifestType, ErrNotPlugin)
	}
	if count[SignatureType] > 1 {
		return all, errors.New("has two signatures")
	}
	return all, nil
}
