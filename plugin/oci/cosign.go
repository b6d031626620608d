package oci

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/daeace23/prober/plugin"
)

// Where cosign puts the signatures of an artifact: each is a layer of a manifest under a
// tag made of the artifact's digest.
const (
	cosignLayer      = "application/vnd.dev.cosign.simplesigning.v1+json"
	cosignAnnotation = "dev.cosignproject.cosign/signature"
)

// maxCosigned bounds how many signatures of cosign's are read.
const maxCosigned = 16

// Cosigned is one signature that cosign made of an artifact. It is as a registry gave it,
// and nothing about it is known before its key has been found.
type Cosigned struct {
	Payload   []byte `json:"payload"`   // what was signed
	Signature string `json:"signature"` // in base64
}

// pullCosigned adds the signatures that cosign put beside a. A registry that shows none
// has none.
func (c *Client) pullCosigned(ctx context.Context, ref plugin.Reference, a *Artifact) error {
	ref.Digest, ref.Tag = "", strings.Replace(a.Digest, ":", "-", 1)+".sig"
	root, err := c.pullRoot(ctx, ref)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrUnauthorized) {
		return nil
	}
	if err != nil {
		return err
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(root.data, &m); err != nil {
		return c.explain(ctx, ref, fmt.Errorf("manifest: %w", err))
	}
	get := c.fetcher(ctx, ref)
	for _, l := range m.Layers {
		if l.MediaType != cosignLayer || l.Annotations[cosignAnnotation] == "" {
			continue
		}
		if len(a.Cosigned) == maxCosigned {
			return c.explain(ctx, ref, fmt.Errorf("more than %d signatures", maxCosigned))
		}
		payload, err := get(l, MaxSignature)
		if err != nil {
			return c.explain(ctx, ref, err)
		}
		a.Cosigned = append(a.Cosigned, Cosigned{payload, l.Annotations[cosignAnnotation]})
	}
	return nil
}

// readCosigned returns the signatures in a file of a store.
func readCosigned(folder fs.FS) (all []Cosigned, err error) {
	data, err := readSmall(folder, fileCosigned)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	return all, err
}
