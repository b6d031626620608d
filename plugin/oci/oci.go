// Package oci carries plugins through registries, and through OCI layouts where there is no
// registry.
//
// A plugin is an OCI artifact as the CNCF's Wasm working group defines it: a config of
// [ConfigType] and one layer of [LayerType], the module. Prober defines the [ArtifactType], and an
// optional second layer with the signature of the module, and another one with a report, see
// [Artifact.WithReport]. The same module, signature and report always make the same manifest.
//
// A plugin that is a program has an index, with an OCI manifest for each [Platform]. This manifest
// has a config of [ProgramConfigType], a layer of [ManifestType] with the plugin's manifest, a
// layer of [ProgramType], and optionally layers with the signature of both and with a report.
//
// Start at artifact.go, which packs and reads artifacts; program.go and platform.go are for
// programs only. client.go and transfer.go talk to registries, credentials.go reads docker's
// credentials, guard.go checks the addresses that a registry refers to, and cosign.go reads the
// signatures that cosign put beside artifacts. layout.go and tar.go keep artifacts in folders
// and archives. store.go and refs.go are the agent's cache of pulled artifacts.
//
// This package reads and writes layouts itself, without content/oci of oras-go. To open a layout,
// content/oci reads the index and every manifest below it into memory, without a limit. It follows
// links out of the folder, accepts links and duplicates in an archive, and does not replace
// index.json atomically.
package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"github.com/daeace23/prober/plugin"
)

// Media types.
const (
	ConfigType    = "application/vnd.wasm.config.v0+json"
	LayerType     = "application/wasm"
	ArtifactType  = "application/vnd.prober.plugin.v1"
	SignatureType = "application/vnd.prober.plugin.signature.v1"
	ReportType    = "application/vnd.prober.plugin.check.v1+json"

	ProgramConfigType = "application/vnd.prober.plugin.process.config.v1+json"
	ProgramType       = "application/vnd.prober.plugin.process.v1"
	ManifestType      = "application/vnd.prober.plugin.manifest.v1+yaml"
)

// SignatureSuffix ends the name of the file beside a module that holds its signature.
const SignatureSuffix = ".sig"

// ReportSuffix ends the name of the file beside a plugin that holds the report of its check.
const ReportSuffix = ".check.json"

// Size limits of the parts of an artifact, in bytes.
const (
	MaxManifest  = 4 << 20 // the usual limit of registries
	MaxConfig    = 1 << 20
	MaxSignature = 64 << 10
	MaxReport    = 64 << 10
	MaxBlob      = plugin.MaxModule
	MaxProgram   = plugin.MaxExecutable
)

var (
	// ErrNotPlugin is the error for an artifact that is not a plugin, such as an image or a chart.
	ErrNotPlugin = errors.New("not a plugin")
	// ErrNotFound is the error if a registry or a layout does not have the requested item.
	ErrNotFound = errors.New("not found")
	// ErrUnavailable is the error of a registry that cannot be reached, does not answer in time, or
	// answers with a temporary error. The same request may succeed later.
	ErrUnavailable = errors.New("the registry is not available")
	// ErrUnauthorized is the error of a registry that requires credentials or rejects the given ones.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrPlainHTTP is the error of a registry that speaks HTTP, if the client requires HTTPS.
	ErrPlainHTTP = errors.New("the registry speaks plain HTTP, which must be allowed")
	// ErrTampered is the error for bytes that do not match their digest.
	ErrTampered = errors.New("the bytes do not match their digest")
)

// blob is a part of an artifact: its bytes and their descriptor.
type blob struct {
	desc ocispec.Descriptor
	data []byte
}

// newBlob returns a blob of data. title is the file name that other clients give it; "" for none.
func newBlob(mediaType string, data []byte, title string) blob {
	b := blob{describe(mediaType, data), data}
	if title != "" {
		b.desc.Annotations = map[string]string{ocispec.AnnotationTitle: title}
	}
	return b
}

// marshalBlob returns a blob of v in JSON.
func marshalBlob(mediaType string, v any) (blob, error) {
	data, err := json.Marshal(v)
	return newBlob(mediaType, data, ""), err
}

func describe(mediaType string, data []byte) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
}

// fetch returns the verified bytes of a descriptor. It returns an error if they are more than most.
type fetch func(desc ocispec.Descriptor, most int64) ([]byte, error)

// verified reads r to its end. It returns an error unless the bytes match desc and are at most most.
func verified(r io.Reader, desc ocispec.Descriptor, most int64) ([]byte, error) {
	if err := checkDescriptor(desc, most); err != nil {
		return nil, err
	}
	verifier := content.NewVerifyReader(r, desc)
	data, err := readSize(verifier, desc.Size)
	if err == nil {
		err = verifier.Verify()
	}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, content.ErrTrailingData), errors.Is(err, content.ErrMismatchedDigest):
		return nil, fmt.Errorf("%s: %w", short(desc.Digest), ErrTampered)
	case err != nil:
		return nil, err
	}
	return data, nil
}

// readSize returns size bytes of r. A registry may declare any size, so readSize allocates the full
// size only after the first MiB has arrived. A growing buffer, such as content.ReadAll uses, would
// take three times the memory for a large program.
func readSize(r io.Reader, size int64) ([]byte, error) {
	const some = 1 << 20
	data := make([]byte, min(size, some))
	if _, err := io.ReadFull(r, data); err != nil || size <= some {
		return data, err
	}
	all := make([]byte, size)
	_, err := io.ReadFull(r, all[copy(all, data):])
	return all, err
}

// checkDescriptor returns an error if the blob is larger than most bytes or its digest cannot be
// verified. It needs no bytes of the blob.
func checkDescriptor(desc ocispec.Descriptor, most int64) error {
	if desc.Digest.Validate() != nil || desc.Digest.Algorithm() != digest.SHA256 {
		return fmt.Errorf("%.80q is not a digest that can be verified: must be sha256", desc.Digest)
	}
	if desc.Size < 0 || desc.Size > most {
		return fmt.Errorf("%s of %d bytes (%.80s); at most %d are allowed", short(desc.Digest), desc.Size, desc.MediaType, most)
	}
	return nil
}

// short returns the beginning of a digest, for messages.
func short(d digest.Digest) string { return fmt.Sprintf("%.19s", string(d)) }
