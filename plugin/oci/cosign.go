package oci

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/daeace23/prober/plugin"
)

// Where cosign puts the signatures of an artifact: each is a layer of a manifest under a
// tag made of the artifact's digest, or, since cosign 3 and with --new-bundle-format, of a
// manifest that has the artifact as its subject. Then it is a bundle of Sigstore's.
const (
	cosignLayer      = "application/vnd.dev.cosign.simplesigning.v1+json"
	cosignAnnotation = "dev.cosignproject.cosign/signature"
	cosignReferrer   = "application/vnd.dev.cosign.artifact.sig.v1+json"
	bundleType       = "application/vnd.dev.sigstore.bundle." // and a version
)

// The most that is looked at for signatures of cosign's.
const (
	maxCosigned   = 16      // signatures
	maxCandidates = 64      // manifests that may hold one
	maxAnnotation = 4 << 10 // bytes of one in an annotation
	maxReferrers  = 1000    // manifests with the artifact as their subject, whatever they are
)

// Cosigned is one signature that cosign made of an artifact. It is as a registry gave it,
// and nothing about it is known before its key has been found.
type Cosigned struct {
	Payload   []byte `json:"payload,omitempty"`   // what was signed
	Signature string `json:"signature,omitempty"` // in base64
	Bundle    []byte `json:"bundle,omitempty"`    // in the place of both
}

// pullCosigned adds the signatures that cosign put beside a: of what its digest is of, and
// of the OCI manifest of its platform. A registry that shows none has none.
func (c *Client) pullCosigned(ctx context.Context, ref plugin.Reference, a *Artifact) error {
	signed := []blob{a.root}
	if a.inner.data != nil {
		signed = append(signed, a.inner)
	}
	for _, s := range signed {
		if err := c.pullTagged(ctx, ref, s, a); err != nil {
			return err
		}
		if err := c.pullReferrers(ctx, ref, s, a); err != nil {
			return err
		}
	}
	return nil
}

// pullTagged adds the signatures under the tag of s.
func (c *Client) pullTagged(ctx context.Context, ref plugin.Reference, s blob, a *Artifact) error {
	ref.Digest, ref.Tag = "", strings.Replace(s.desc.Digest.String(), ":", "-", 1)+SignatureSuffix
	root, err := c.pullRoot(ctx, ref)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrUnauthorized) {
		return nil
	}
	if err == nil {
		err = c.explain(ctx, ref, c.addCosigned(ctx, ref, root.data, a))
	}
	return err
}

// pullReferrers adds the signatures of which s is the subject.
func (c *Client) pullReferrers(ctx context.Context, ref plugin.Reference, s blob, a *Artifact) error {
	repo := c.repository(ref)
	seen := 0
	var found []ocispec.Descriptor
	err := repo.Referrers(ctx, s.desc, "", func(page []ocispec.Descriptor) error {
		if seen += len(page); seen > maxReferrers {
			return fmt.Errorf("more than %d manifests refer to it", maxReferrers)
		}
		for _, d := range page {
			if mayBeSigned(d.ArtifactType) {
				found = append(found, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: d.Digest, Size: d.Size})
			}
		}
		return nil
	})
	if noReferrers(err) {
		return nil
	}
	if err == nil && len(found) > maxCandidates {
		err = errManySignatures
	}
	get := c.fetcher(ctx, ref)
	for i := 0; err == nil && i < len(found); i++ {
		var data []byte
		if data, err = get(found[i], MaxManifest); err == nil {
			err = c.addCosigned(ctx, ref, data, a)
		}
	}
	return c.explain(ctx, ref, err)
}

// mayBeSigned reports whether a manifest of this type may hold a signature. Where a
// registry keeps no list, cosign writes one, and the type of the config into it: of bundles
// that is the empty one.
func mayBeSigned(artifactType string) bool {
	return artifactType == cosignReferrer || artifactType == ocispec.MediaTypeEmptyJSON || strings.HasPrefix(artifactType, bundleType)
}

// noReferrers reports whether err is that of a registry without such a list, or one that
// does not show it.
func noReferrers(err error) bool {
	response, answered := errors.AsType[*errcode.ErrorResponse](err)
	return isNotFound(err) || answered && (response.StatusCode < 500 && response.StatusCode != http.StatusTooManyRequests || response.StatusCode == http.StatusNotImplemented)
}

var errManySignatures = fmt.Errorf("more than %d signatures", maxCosigned)

// addCosigned adds the signatures in the layers of a manifest.
func (c *Client) addCosigned(ctx context.Context, ref plugin.Reference, manifest []byte, a *Artifact) error {
	var m ocispec.Manifest
	if err := json.Unmarshal(manifest, &m); err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	get := c.fetcher(ctx, ref)
	for _, l := range m.Layers {
		signature, isBundle := l.Annotations[cosignAnnotation], strings.HasPrefix(l.MediaType, bundleType)
		if (l.MediaType != cosignLayer || signature == "") && !isBundle {
			continue
		}
		if len(a.Cosigned) == maxCosigned {
			return errManySignatures
		}
		if len(signature) > maxAnnotation {
			return fmt.Errorf("a signature of %d bytes; at most %d are allowed", len(signature), maxAnnotation)
		}
		data, err := get(l, MaxSignature)
		switch {
		case err != nil:
			return err
		case isBundle:
			a.Cosigned = append(a.Cosigned, Cosigned{Bundle: data})
		default:
			a.Cosigned = append(a.Cosigned, Cosigned{Payload: data, Signature: signature})
		}
	}
	return nil
}

// readCosigned returns the signatures in a file of a store.
func readCosigned(folder files) (all []Cosigned, err error) {
	data, err := readSmall(folder, fileCosigned)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	return all, err
}
