package oci

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/daeace23/prober/plugin"
)

// Media types of an index of plugins.
const (
	IndexArtifactType = "application/vnd.prober.plugin.index.v1"
	IndexType         = "application/vnd.prober.plugin.index.v1+yaml"
)

// ErrNotIndex is the error for an artifact that is not an index of plugins.
var ErrNotIndex = errors.New("not an index of plugins")

// PushIndex pushes an index of plugins to ref, which must have a tag, and returns the digest of its artifact. Without
// force, its error matches [ErrNotIndex] if something else is at ref; a registry that does not let this client read
// cannot tell.
func (c *Client) PushIndex(ctx context.Context, ref plugin.Reference, index []byte, force bool) (digest string, err error) {
	if ref.Tag == "" || ref.Digest != "" {
		return "", fmt.Errorf("%s: a push needs a :TAG, and no digest", ref)
	}
	if !force {
		if err := c.mayReplaceByIndex(ctx, ref); err != nil {
			return "", err
		}
	}
	config, layer := newBlob(ocispec.MediaTypeEmptyJSON, []byte("{}"), ""), newBlob(IndexType, index, "index.yaml")
	root, err := marshalBlob(ocispec.MediaTypeImageManifest, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: IndexArtifactType,
		Config: config.desc, Layers: []ocispec.Descriptor{layer.desc},
	})
	if err != nil {
		return "", err
	}
	repo := c.repository(ref)
	for _, b := range []blob{config, layer} {
		if err := pushBlob(ctx, repo.Blobs(), b); err != nil {
			return "", c.explain(ctx, ref, err)
		}
	}
	err = repo.Manifests().PushReference(ctx, root.desc, bytes.NewReader(root.data), ref.Tag)
	return root.desc.Digest.String(), c.explain(ctx, ref, err)
}

// mayReplaceByIndex returns an error if something else than an index of plugins is at ref.
func (c *Client) mayReplaceByIndex(ctx context.Context, ref plugin.Reference) error {
	root, err := c.pullRoot(ctx, ref)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrUnauthorized) {
		return nil
	}
	if err != nil {
		return err
	}
	var m ocispec.Manifest
	if json.Unmarshal(root.data, &m) != nil || m.ArtifactType != IndexArtifactType {
		return fmt.Errorf("%s is %w", ref, ErrNotIndex)
	}
	return nil
}

// PullIndex returns the index of plugins at ref, of at most most bytes. Its error matches [ErrNotIndex] if something else is at ref.
func (c *Client) PullIndex(ctx context.Context, ref plugin.Reference, most int64) ([]byte, error) {
	root, err := c.pullRoot(ctx, ref)
	if err != nil {
		return nil, err
	}
	var m ocispec.Manifest
	if json.Unmarshal(root.data, &m) != nil || len(m.Layers) != 1 || m.Layers[0].MediaType != IndexType {
		return nil, fmt.Errorf("%s is %w", ref, ErrNotIndex)
	}
	data, err := c.fetcher(ctx, ref)(m.Layers[0], most)
	return data, c.explain(ctx, ref, err)
}
