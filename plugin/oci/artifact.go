package oci

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/daeace23/prober/plugin"
)

// Annotations that prober adds to OCI manifests.
const (
	annotationABI      = "dev.prober.plugin.abi"
	annotationMode     = "dev.prober.plugin.mode"
	annotationRequests = "dev.prober.plugin.requests" // names of capabilities, separated by commas
	annotationSDK      = "dev.prober.plugin.sdk"
)

// Artifact is a plugin as registries and layouts keep it. It is read-only.
type Artifact struct {
	Manifest  *plugin.Manifest // from Module, or from Beside if that is set
	Module    []byte           // the module, or the program for Platform
	Beside    []byte           // the file with the manifest of a program; nil for a module
	Platform  Platform         // of a program; zero for a module
	Signature []byte           // detached signature of Module and Beside; nil for none
	// Report is the report of a check before the push, as JSON; nil for none. Whoever can push can write any
	// report, so it must decide nothing.
	Report []byte
	// Digest is the digest that a reference pins. It identifies the OCI manifest, or the index of
	// the OCI manifests of all platforms.
	Digest string
	// Cosigned are the signatures that cosign put beside the artifact, see [ClientConfig].
	// Digest does not cover them.
	Cosigned []Cosigned

	root  blob   // the blob with this Digest: an OCI manifest or an index
	inner blob   // the OCI manifest of Platform if root is an index; else empty
	blobs []blob // config and layers
	rest  []blob // blobs of other platforms; set by [Client.PullWhole] only
}

// Index returns the index with the digest a.Digest; nil if a has no index.
func (a *Artifact) Index() []byte {
	if a.inner.data == nil {
		return nil
	}
	return a.root.data
}

// Root returns the OCI manifest, which names the layers.
func (a *Artifact) Root() []byte { return a.manifest().data }

func (a *Artifact) manifest() blob {
	if a.inner.data == nil {
		return a.root
	}
	return a.inner
}

// Alone returns a without its index: the program of one platform. Its digest differs from a's.
func (a *Artifact) Alone() *Artifact {
	alone := *a
	alone.root, alone.inner, alone.rest, alone.Cosigned = a.manifest(), blob{}, nil, nil
	alone.Digest = alone.root.desc.Digest.String()
	return &alone
}

// Found returns the plugin in a, with its signatures. Its path is ref, pinned to the digest of a.
func (a *Artifact) Found(ref plugin.Reference) plugin.Found {
	ref.Digest = a.Digest
	f := plugin.Found{
		Manifest: a.Manifest, Path: plugin.OCIScheme + ref.String(), Signatures: []plugin.Signature{}, Report: a.Report,
	}
	f.SetModule(a.Module)
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

// wasmConfig is the config of Wasm artifacts. Some clients require the field created. It is
// constant, so that the same module always makes the same artifact.
type wasmConfig struct {
	Created      string   `json:"created"`
	Architecture string   `json:"architecture"`
	OS           string   `json:"os"`
	LayerDigests []string `json:"layerDigests"`
}

// Pack returns an artifact of a module and its signature. The module contains its manifest. A nil
// signature means none.
func Pack(module, signature []byte) (*Artifact, error) {
	manifest, err := plugin.ReadModule("module", module)
	if err != nil {
		return nil, err
	}
	if len(signature) > MaxSignature {
		return nil, fmt.Errorf("signature of %d bytes; at most %d are allowed", len(signature), MaxSignature)
	}
	a := &Artifact{Manifest: manifest, Module: module, Signature: signature}
	return a, a.packModule()
}

// packModule sets the blobs of a, which has a module.
func (a *Artifact) packModule() (err error) {
	file := a.Manifest.Name + ".wasm"
	layers := append([]blob{newBlob(LayerType, a.Module, file)}, a.optional(file)...)
	config := wasmConfig{Created: "1970-01-01T00:00:00Z", Architecture: "wasm", OS: "wasip1"}
	for _, l := range layers {
		config.LayerDigests = append(config.LayerDigests, l.desc.Digest.String())
	}
	if a.root, err = a.marshalManifest(ConfigType, config, layers); err == nil {
		a.Digest = a.root.desc.Digest.String()
	}
	return err
}

// optional returns the optional layers of a. file is the file name of its module or program.
func (a *Artifact) optional(file string) (layers []blob) {
	if len(a.Signature) > 0 {
		layers = append(layers, newBlob(SignatureType, a.Signature, file+SignatureSuffix))
	}
	if len(a.Report) > 0 {
		layers = append(layers, newBlob(ReportType, a.Report, file+ReportSuffix))
	}
	return layers
}

// WithReport returns a, which was packed, with a report. Its digest differs.
func (a *Artifact) WithReport(report []byte) (*Artifact, error) {
	if len(report) > MaxReport {
		return nil, fmt.Errorf("report of %d bytes; at most %d are allowed", len(report), MaxReport)
	}
	with := *a
	with.Report = report
	if a.Beside == nil {
		return &with, with.packModule()
	}
	return &with, with.packProgram()
}

// marshalManifest sets the blobs of a, and returns the OCI manifest that names them.
func (a *Artifact) marshalManifest(configType string, config any, layers []blob) (blob, error) {
	c, err := marshalBlob(configType, config)
	if err != nil {
		return blob{}, err
	}
	m := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: ArtifactType,
		Config: c.desc, Annotations: annotations(a.Manifest),
	}
	a.blobs = append([]blob{c}, layers...)
	for _, l := range layers {
		m.Layers = append(m.Layers, l.desc)
	}
	return marshalBlob(ocispec.MediaTypeImageManifest, m)
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

// read returns the artifact with the OCI manifest root. If root is an index, read selects the
// program for the platform on. A zero platform means the host's.
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
	data, err := get(v.desc, MaxManifest)
	if err != nil {
		return nil, fmt.Errorf("manifest for %s: %w", v.Platform, err)
	}
	a.inner = newBlob(ocispec.MediaTypeImageManifest, data, "")
	return a, a.readManifest(v.Platform, get)
}

// readManifest reads the config and layers of a's OCI manifest. It ignores layers of unknown types.
func (a *Artifact) readManifest(on Platform, get fetch) error {
	m, err := parseRoot(a.manifest())
	if err != nil {
		return err
	}
	config, err := get(m.Config, MaxConfig)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	a.blobs = []blob{{m.Config, config}}
	if m.Config.MediaType == ProgramConfigType {
		err = a.readProgram(m, on, get)
	} else if a.inner.data != nil {
		err = fmt.Errorf("has a module for a platform, and modules run on all: %w", ErrNotPlugin)
	} else if a.Module, err = a.readLayer(m, "module", LayerType, MaxBlob, get); err == nil {
		a.Manifest, err = plugin.ReadModule("module", a.Module)
	}
	has := func(mediaType string) bool {
		return slices.ContainsFunc(m.Layers, func(l ocispec.Descriptor) bool { return l.MediaType == mediaType })
	}
	if err == nil && has(SignatureType) {
		a.Signature, err = a.readLayer(m, "signature", SignatureType, MaxSignature, get)
	}
	if err == nil && has(ReportType) {
		a.Report, err = a.readLayer(m, "report", ReportType, MaxReport, get)
	}
	return err
}

// readLayer returns the contents of the only layer of a type. name is its name in errors.
func (a *Artifact) readLayer(m *ocispec.Manifest, name, mediaType string, most int64, get fetch) ([]byte, error) {
	layers := slices.DeleteFunc(slices.Clone(m.Layers), func(l ocispec.Descriptor) bool { return l.MediaType != mediaType })
	if len(layers) != 1 {
		return nil, fmt.Errorf("has %d layers of %s, must have 1: %w", len(layers), mediaType, ErrNotPlugin)
	}
	data, err := get(layers[0], most)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	a.blobs = append(a.blobs, blob{layers[0], data})
	return data, nil
}

// parseRoot parses an OCI manifest. It returns an error if the manifest is not of a plugin.
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
	switch {
	case m.MediaType != "" && m.MediaType != root.desc.MediaType:
		return nil, fmt.Errorf("is %.80q, %w", m.MediaType, ErrNotPlugin)
	case m.Config.MediaType == ConfigType, m.Config.MediaType == ProgramConfigType:
		return &m, nil
	case strings.Contains(m.Config.MediaType, ".image."):
		return nil, fmt.Errorf("is an image, %w", ErrNotPlugin)
	default:
		return nil, fmt.Errorf("is of type %.80q, %w", cmp.Or(m.ArtifactType, m.Config.MediaType, "unknown"), ErrNotPlugin)
	}
}
