package oci

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/retry"

	"github.com/daeace23/prober/internal/netaddr"
	"github.com/daeace23/prober/plugin"
)

// headerTimeout limits connecting to a registry, and waiting for the header of its response.
const headerTimeout = 30 * time.Second

// maxPages bounds the pages of a list that a registry returns.
const maxPages = 16

// ClientConfig configures a [Client].
type ClientConfig struct {
	// PlainHTTP uses HTTP instead of HTTPS.
	PlainHTTP bool
	// DockerConfig is the path of docker's config.json, which has credentials or names
	// credential helpers. The file need not exist. "" means no credentials.
	DockerConfig string
	// Cosign also pulls the signatures that cosign put beside an artifact.
	Cosign bool
	// Platform is the platform whose programs are pulled; zero means the host's.
	Platform Platform
	// UserAgent is the User-Agent of requests; "" means "prober".
	UserAgent string
	// Progress, if not nil, is called after each part of a transfer, with the number of bytes
	// transferred so far and the total. It must not block.
	Progress func(done, total int64)
}

// Client talks to registries. It is safe for concurrent use if ClientConfig.Progress is.
type Client struct {
	plainHTTP bool
	cosign    bool
	platform  Platform
	config    string // path of docker's config.json; "" for none
	progress  func(done, total int64)
	auth      auth.Client // template: each registry has a copy with its own transport
	classOf   func(netip.AddrPort) netaddr.Class

	mu         sync.Mutex
	registries map[string]*registryClient // by host
}

// registryClient is a client of one registry.
type registryClient struct {
	auth      auth.Client
	transport *guarded
}

// NewClient returns a client, which the caller must close. It sends no request.
func NewClient(cfg ClientConfig) (*Client, error) {
	c := &Client{
		plainHTTP: cfg.PlainHTTP, cosign: cfg.Cosign, platform: cfg.Platform, config: cfg.DockerConfig, progress: cfg.Progress,
		classOf: classOf, registries: make(map[string]*registryClient),
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "prober"
	}
	c.auth = auth.Client{Header: http.Header{"User-Agent": {cfg.UserAgent}}, Cache: auth.NewCache()}
	if cfg.DockerConfig != "" {
		var err error
		if c.auth.Credential, err = dockerCredentials(cfg.DockerConfig); err != nil {
			return nil, fmt.Errorf("docker's config %s: %w", cfg.DockerConfig, err)
		}
	}
	return c, nil
}

// Close closes idle connections.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.registries {
		r.transport.base.CloseIdleConnections()
	}
}

// registry returns the client of the registry at host. Registries share no connections, since
// each may refer to different addresses, see [guarded.check].
func (c *Client) registry(host string) *registryClient {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.registries[host]; r != nil {
		return r
	}
	r := &registryClient{auth: c.auth, transport: newGuarded(host, c.plainHTTP, c.classOf)}
	r.auth.Client = &http.Client{Transport: &retry.Transport{Base: &metered{r.transport, c.progress}, Policy: retryPolicy}}
	c.registries[host] = r
	return r
}

// DockerConfig returns the path of docker's config.json: in $DOCKER_CONFIG, else in .docker of
// the home folder. It returns "" if neither is set.
func DockerConfig(lookupEnv func(name string) (string, bool)) string {
	if dir, ok := lookupEnv("DOCKER_CONFIG"); ok && dir != "" {
		return filepath.Join(dir, "config.json")
	}
	if home, ok := lookupEnv("HOME"); ok && home != "" {
		return filepath.Join(home, ".docker", "config.json")
	}
	return ""
}

func (c *Client) repository(ref plugin.Reference) *remote.Repository {
	reference := registry.Reference{Registry: ref.Registry, Repository: ref.Repository}
	return &remote.Repository{
		Client: &c.registry(reference.Host()).auth, PlainHTTP: c.plainHTTP, MaxMetadataBytes: MaxManifest, ReferrerListMaxPages: maxPages,
		Reference: reference,
		// Types that are not plugins are accepted, so that an error can name them.
		ManifestMediaTypes: []string{
			ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex,
			"application/vnd.docker.distribution.manifest.v2+json", "application/vnd.docker.distribution.manifest.list.v2+json",
		},
	}
}

// Push pushes a to ref, which must have a tag and no digest. It does not send blobs that the
// registry already has.
func (c *Client) Push(ctx context.Context, ref plugin.Reference, a *Artifact) error {
	if ref.Tag == "" || ref.Digest != "" {
		return fmt.Errorf("%s: a push needs a :TAG, and no digest", ref)
	}
	repo := c.repository(ref)
	for _, b := range a.blobs {
		if err := pushBlob(ctx, repo.Blobs(), b); err != nil {
			return c.explain(ctx, ref, err)
		}
	}
	if a.inner.data != nil {
		if err := pushBlob(ctx, repo.Manifests(), a.inner); err != nil {
			return c.explain(ctx, ref, err)
		}
	}
	err := repo.Manifests().PushReference(ctx, a.root.desc, bytes.NewReader(a.root.data), ref.Tag)
	return c.explain(ctx, ref, err)
}

func pushBlob(ctx context.Context, to registry.BlobStore, b blob) error {
	if there, err := to.Exists(ctx, b.desc); err != nil || there {
		return err
	}
	return to.Push(ctx, b.desc, bytes.NewReader(b.data))
}

// Pull returns the plugin at ref. It verifies every part against its digest, and the root against
// the digest of ref if there is one.
func (c *Client) Pull(ctx context.Context, ref plugin.Reference) (*Artifact, error) {
	root, err := c.pullRoot(ctx, ref)
	if err != nil {
		return nil, err
	}
	return c.pullRest(ctx, ref, root)
}

// pullRoot returns the manifest at ref. It does not check that the manifest is of a plugin.
func (c *Client) pullRoot(ctx context.Context, ref plugin.Reference) (blob, error) {
	desc, body, err := c.repository(ref).Manifests().FetchReference(ctx, cmp.Or(ref.Digest, ref.Tag))
	if err != nil {
		return blob{}, c.explain(ctx, ref, err)
	}
	defer body.Close()
	if ref.Digest != "" && desc.Digest.String() != ref.Digest {
		return blob{}, c.explain(ctx, ref, ErrTampered)
	}
	data, err := verified(body, desc, MaxManifest)
	if err != nil {
		return blob{}, c.explain(ctx, ref, fmt.Errorf("manifest: %w", err))
	}
	return blob{desc, data}, nil
}

// pullRest returns the plugin with the manifest root.
func (c *Client) pullRest(ctx context.Context, ref plugin.Reference, root blob) (*Artifact, error) {
	a, err := read(root, c.platform, c.fetcher(ctx, ref))
	if err != nil {
		return nil, c.explain(ctx, ref, err)
	}
	if c.cosign {
		err = c.pullCosigned(ctx, ref, a)
	}
	return a, err
}

// fetcher returns a function that fetches manifests and blobs of ref's repository.
func (c *Client) fetcher(ctx context.Context, ref plugin.Reference) fetch {
	repo := c.repository(ref)
	return func(desc ocispec.Descriptor, most int64) ([]byte, error) {
		if err := checkDescriptor(desc, most); err != nil {
			return nil, err
		}
		var from registry.BlobStore = repo.Blobs()
		if desc.MediaType == ocispec.MediaTypeImageManifest {
			from = repo.Manifests()
		}
		body, err := from.Fetch(ctx, desc)
		if err != nil {
			return nil, err
		}
		defer body.Close()
		return verified(body, desc, most)
	}
}
