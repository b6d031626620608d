// Package oci carries plugins through registries, and through OCI layouts where there
// is not a registry.
//
// A plugin is an OCI artifact as the CNCF's Wasm working group lays it out: a config of
// [ConfigType] and one layer of [LayerType], the module. What is prober's own is the
// [ArtifactType], and a second layer with the module's signature where it has one. The
// same module and signature always make the same manifest.
//
// A plugin that is a program has such a manifest for each [Platform], under an index that
// names the platforms: a config of [ProgramConfigType], a layer of [ProgramType], one of
// [ManifestType] with the plugin's manifest, which a program has no room for, and the
// signature of both where there is one.
//
// Start at artifact.go, which packs and reads artifacts; program.go and platform.go add what
// programs alone have. client.go and transfer.go talk to registries, credentials.go reads
// docker's credentials, guard.go decides where a registry may lead, and cosign.go reads the
// signatures that cosign put beside artifacts. layout.go and tar.go keep artifacts in folders
// and archives, store.go and refs.go what an agent has pulled.
//
// Layouts are read and written here and not by content/oci of oras-go. To open a layout, that
// package reads the index and every manifest below it into memory, of whatever size and number.
// It follows links out of the folder, accepts links and duplicates in an archive, and writes
// index.json in place.
package oci

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/daeace23/prober/plugin"
)

// Media types.
const (
	ConfigType    = "application/vnd.wasm.config.v0+json"
	LayerType     = "application/wasm"
	ArtifactType  = "application/vnd.prober.plugin.v1"
	SignatureType = "application/vnd.prober.plugin.signature.v1"

	ProgramConfigType = "application/vnd.prober.plugin.process.config.v1+json"
	ProgramType       = "application/vnd.prober.plugin.process.v1"
	ManifestType      = "application/vnd.prober.plugin.manifest.v1+yaml"
)

// SignatureSuffix ends the name of the file beside a module that holds its signature.
const SignatureSuffix = ".sig"

// The most bytes that are read of each part of an artifact.
const (
	MaxManifest  = 4 << 20 // what registries take as well
	MaxConfig    = 1 << 20
	MaxSignature = 64 << 10
	MaxBlob      = plugin.MaxModule
	MaxProgram   = plugin.MaxExecutable
)

var (
	// ErrNotPlugin means that something else is there: an image, a chart, …
	ErrNotPlugin = errors.New("not a plugin")
	// ErrNotFound means that a registry or a layout has no such thing.
	ErrNotFound = errors.New("not found")
	// ErrUnauthorized means that a registry wants other credentials, or any.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrPlainHTTP means that a registry speaks HTTP, which was not allowed.
	ErrPlainHTTP = errors.New("the registry speaks plain HTTP, which must be allowed")
	// ErrTampered means that bytes are not those that their digest stands for.
	ErrTampered = errors.New("the bytes are not those of their digest")
)

// verified reads all of r, which must be what desc describes and of at most most bytes.
func verified(r io.Reader, desc ocispec.Descriptor, most int64) ([]byte, error) {
	if err := checkDescriptor(desc, most); err != nil {
		return nil, err
	}
	data, err := readSize(r, desc.Size)
	if err == nil {
		if _, more := io.ReadFull(r, make([]byte, 1)); !errors.Is(more, io.EOF) {
			err = io.ErrUnexpectedEOF // it goes on
		}
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), err == nil && digestOf(data) != desc.Digest.String():
		return nil, fmt.Errorf("%s: %w", short(desc.Digest), ErrTampered)
	case err != nil:
		return nil, err
	}
	return data, nil
}

// someBytes is what must have come of something before there is room for all of it.
const someBytes = 1 << 20

// readSize reads size bytes of r. A buffer that grew with them would take twice as much of
// a program, and one that is made at once is made for who only says how much there is.
func readSize(r io.Reader, size int64) ([]byte, error) {
	data := make([]byte, min(size, someBytes))
	if _, err := io.ReadFull(r, data); err != nil || size <= someBytes {
		return data, err
	}
	all := make([]byte, size)
	_, err := io.ReadFull(r, all[copy(all, data):])
	return all, err
}

// checkDescriptor refuses what would be too large, or could not be verified, before
// anything of it is read.
func checkDescriptor(desc ocispec.Descriptor, most int64) error {
	sum, ok := strings.CutPrefix(desc.Digest.String(), "sha256:")
	if raw, err := hex.DecodeString(sum); !ok || err != nil || len(raw) != sha256.Size || strings.ToLower(sum) != sum {
		return fmt.Errorf("%.80q is not a digest that can be verified: want sha256", desc.Digest)
	}
	if desc.Size < 0 || desc.Size > most {
		return fmt.Errorf("%s of %d bytes (%.80s); at most %d are allowed", short(desc.Digest), desc.Size, desc.MediaType, most)
	}
	return nil
}

// size is that of what copyTo writes.
func (b blob) size() int64 {
	if b.open != nil {
		return b.desc.Size
	}
	return int64(len(b.data))
}

// copyTo writes what b is. What is read only now is verified while it is written.
func (b blob) copyTo(w io.Writer) error {
	if b.open == nil {
		_, err := w.Write(b.data)
		return err
	}
	body, err := b.open()
	if err != nil {
		return err
	}
	defer body.Close()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), io.LimitReader(body, b.desc.Size))
	if err != nil {
		return err
	}
	if n != b.desc.Size || hex.EncodeToString(sum.Sum(nil)) != b.desc.Digest.Encoded() {
		return fmt.Errorf("%s: %w", short(b.desc.Digest), ErrTampered)
	}
	return nil
}

func digestOf(data []byte) string { return plugin.Digest(data) }

// short returns what people tell digests apart by.
func short(d digest.Digest) string { return fmt.Sprintf("%.19s", string(d)) }

func describe(mediaType string, data []byte) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: mediaType, Digest: digest.Digest(digestOf(data)), Size: int64(len(data))}
}
