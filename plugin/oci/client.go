package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/retry"

	"github.com/daeace23/prober/internal/netaddr"
	"github.com/daeace23/prober/plugin"
)

// headerTimeout is how long a registry may think about a request.
const headerTimeout = 30 * time.Second

// maxPages is how many pages a list of a registry may have.
const maxPages = 16

// ClientConfig says how registries are talked to.
type ClientConfig struct {
	// PlainHTTP talks HTTP; else it is HTTPS, with no way round its certificates.
	PlainHTTP bool
	// DockerConfig is docker's config.json, which has credentials or names the helpers
	// that have them; a file that does not exist has none. "": no credentials.
	DockerConfig string
	// Cosign asks for the signatures, too, that cosign put beside an artifact.
	Cosign bool
	// Platform is whose programs are pulled; zero means the host's.
	Platform Platform
	// UserAgent is what registries see; "" means "prober".
	UserAgent string
	// Progress, when not nil, is told of every part of a transfer: how many bytes of how
	// many are through. It is called by one transfer at a time, and must not block.
	Progress func(done, total int64)
}

// Client talks to registries. It is safe for concurrent use when Progress is.
type Client struct {
	plainHTTP bool
	cosign    bool
	platform  Platform
	config    string // of docker
	progress  func(done, total int64)
	auth      auth.Client // of which each registry has a copy, with a transport of its own
	classOf   func(netip.AddrPort) netaddr.Class

	mu         sync.Mutex
	registries map[string]*registryClient // by host
}

// registryClient is how one registry is talked to.
type registryClient struct {
	auth      auth.Client
	transport *guarded
}

// NewClient returns a client, which the caller closes. It talks to nobody yet.
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
		docker, err := readDockerCredentials(cfg.DockerConfig)
		if err != nil {
			return nil, fmt.Errorf("docker's config %s: %w", cfg.DockerConfig, err)
		}
		c.auth.Credential = docker.credential
	}
	return c, nil
}

// Close closes the connections that rest.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.registries {
		r.transport.base.CloseIdleConnections()
	}
}

// registry returns how the registry at host is talked to. Registries share no connection, so
// that none is led to where only another one may lead.
func (c *Client) registry(host string) *registryClient {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.registries[host]; r != nil {
		return r
	}
	r := &registryClient{auth: c.auth, transport: newGuarded(host, c.plainHTTP, c.classOf)}
	r.auth.Client = &http.Client{Transport: &retry.Transport{Base: &metered{r.transport, c.progress}, Policy: again}}
	c.registries[host] = r
	return r
}

// DockerConfig returns where docker keeps its config: in $DOCKER_CONFIG, or else in
// .docker of the home folder; "" when there is neither.
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
		// All that may be there is asked for, so that what is no plugin can be named.
		ManifestMediaTypes: []string{
			ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex,
			"application/vnd.docker.distribution.manifest.v2+json", "application/vnd.docker.distribution.manifest.list.v2+json",
		},
	}
}

// Push puts a where ref says, which must have a tag and no digest. What the registry has
// already is not sent again.
func (c *Client) Push(ctx context.Context, ref plugin.Reference, a *Artifact) error {
	if ref.Tag == "" || ref.Digest != "" {
		return fmt.Errorf("%s: to push wants a :TAG, and no digest", ref)
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

// Pull returns the plugin that ref names. All of it is verified against the digests that
// lead to it, beginning with ref's own where it has one.
func (c *Client) Pull(ctx context.Context, ref plugin.Reference) (*Artifact, error) {
	root, err := c.pullRoot(ctx, ref)
	if err != nil {
		return nil, err
	}
	return c.pullRest(ctx, ref, root)
}

// pullRoot returns the manifest that ref names, whatever it is of.
func (c *Client) pullRoot(ctx context.Context, ref plugin.Reference) (blob, error) {
	desc, body, err := c.repository(ref).Manifests().FetchReference(ctx, target(ref))
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
	return blob{desc: desc, data: data}, nil
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

// fetcher fetches manifests and blobs of ref's repository.
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

// target is the part of ref after the repository.
func target(ref plugin.Reference) string {
	if ref.Digest != "" {
		return ref.Digest
	}
	return ref.Tag
}

// isNotFound reports whether err is one of oras that means so.
func isNotFound(err error) bool { return errors.Is(err, errdef.ErrNotFound) }
