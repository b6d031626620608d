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
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/daeace23/prober/plugin"
)

// Cosign puts the signatures of an artifact into layers of a manifest, whose tag is made of the
// artifact's digest. Since cosign 3, and with --new-bundle-format, that manifest has the artifact
// as its subject, and each signature is a Sigstore bundle.
const (
	cosignLayer      = "application/vnd.dev.cosign.simplesigning.v1+json"
	cosignAnnotation = "dev.cosignproject.cosign/signature"
	cosignReferrer   = "application/vnd.dev.cosign.artifact.sig.v1+json"
	bundleType       = "application/vnd.dev.sigstore.bundle." // and a version
)

// Limits of the search for signatures of cosign.
const (
	maxCosigned   = 16      // signatures
	maxCandidates = 64      // manifests that may have one
	maxAnnotation = 4 << 10 // bytes of a signature in an annotation
	maxReferrers  = 1000    // manifests with the artifact as their subject, of any type
)

// Cosigned is one signature that cosign made of an artifact, as a registry returned it. It is
// not verified.
type Cosigned struct {
	Payload   []byte `json:"payload,omitempty"`   // the signed bytes
	Signature string `json:"signature,omitempty"` // base64
	Bundle    []byte `json:"bundle,omitempty"`    // a Sigstore bundle, instead of Payload and Signature
}

// pullCosigned adds the signatures that cosign put beside a: the signatures of its index and of
// its OCI manifest.
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

// pullReferrers adds the signatures that have s as their subject.
func (c *Client) pullReferrers(ctx context.Context, ref plugin.Reference, s blob, a *Artifact) error {
	repo := c.repository(ref)
	seen := 0
	var found []ocispec.Descriptor
	err := repo.Referrers(ctx, s.desc, "", func(page []ocispec.Descriptor) error {
		if seen += len(page); seen > maxReferrers {
			return fmt.Errorf("more than %d manifests refer to it", maxReferrers)
		}
		for _, d := range page {
			if mayHaveSignature(d.ArtifactType) {
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

// mayHaveSignature reports whether a manifest of this artifact type may have a signature. For a
// registry without a referrers API, cosign writes the list itself and puts the media type of the
// config there. The config of a bundle is the empty JSON object.
func mayHaveSignature(artifactType string) bool {
	return artifactType == cosignReferrer || artifactType == ocispec.MediaTypeEmptyJSON || strings.HasPrefix(artifactType, bundleType)
}

// noReferrers reports whether err means that the registry has no list of referrers or denies
// access to it.
func noReferrers(err error) bool {
	response, answered := errors.AsType[*errcode.ErrorResponse](err)
	return errors.Is(err, errdef.ErrNotFound) || answered && (response.StatusCode < 500 && response.StatusCode != http.StatusTooManyRequests || response.StatusCode == http.StatusNotImplemented)
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

// readCosigned returns the cosign signatures in a layout of a [Store], nil if there are none.
func readCosigned(layout files) (all []Cosigned, err error) {
	data, err := readSmall(layout, fileCosigned)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	return all, err
}
