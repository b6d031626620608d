package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/oci"
)

const (
	// askAgain is how long what a registry said of a tag is not asked again.
	askAgain = 10 * time.Second
	// maxPulls bounds how many plugins are pulled at once.
	maxPulls = 4
)

// SourcesConfig says how plugins are had from registries.
type SourcesConfig struct {
	CacheDir     string // keeps what was pulled, see [PluginCache]
	DockerConfig string // docker's config.json, with credentials; "": none
	Version      string // of the program; "" is fine
	Offline      bool   // asks no registry
	// Patience and LastPatience are those of [oci.StoreConfig].
	Patience, LastPatience time.Duration
}

// Sources has plugins from registries. It is safe for concurrent use.
type Sources struct {
	cfg SourcesConfig

	mu    sync.Mutex
	asked map[string]heard // by source
}

// heard is what a registry said last.
type heard struct {
	at    time.Time
	stale error // why the last good plugin stood in; nil when it did not
}

// NewSources returns the sources that cfg describes. Nothing is opened before there is a
// plugin to be had.
func NewSources(cfg SourcesConfig) *Sources {
	return &Sources{cfg: cfg, asked: make(map[string]heard)}
}

// PluginCache returns the folder that keeps what was pulled: in the state folder, or else
// in the user's cache.
func PluginCache(stateDir string) (string, error) {
	if stateDir != "" {
		return filepath.Join(stateDir, "plugins"), nil
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("plugin cache: %w; a state folder would do as well", err)
	}
	return filepath.Join(base, "prober", "plugins"), nil
}

// Pulled is how it went with one plugin of prober.yaml that is in a registry.
type Pulled struct {
	Name, Source string
	Shadow       bool
	Found        plugin.Found
	Err          error // why it could not be had; nil when it could
	Stale        error // why it is the last good one, not what the registry has now; nil when it is not
	Unkept       error // why it could not be kept; nil when it is
}

// Pull gets the plugins of prober.yaml that are in registries, for [Admission.Find] and
// [Admission.Shadows]. What may not be loaded takes the place of nothing that was good. It
// waits no longer than [oci.DefaultPatience] for all of them.
func (a *Admission) Pull(ctx context.Context, from *Sources) []Pulled {
	ctx, cancel := context.WithTimeoutCause(ctx, oci.DefaultPatience, errors.New("the registries took too long"))
	defer cancel()
	var all []*Pulled
	var pulling sync.WaitGroup
	places := make(chan struct{}, maxPulls)
	for _, p := range a.file.Plugins {
		ref, ok := p.Reference()
		if !ok || !p.Shadow && a.asked.Dev[p.Name] != "" {
			continue
		}
		r := &Pulled{Name: p.Name, Source: p.Source, Shadow: p.Shadow}
		all = append(all, r)
		pulling.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			r.set(from.resolve(ctx, &p, a.wanted(&p, ref)))
		})
	}
	pulling.Wait()
	a.pulled = make([]Pulled, len(all))
	for i, r := range all {
		a.pulled[i] = *r
	}
	return a.pulled
}

// set notes what came of it.
func (r *Pulled) set(k *oci.Kept, ref plugin.Reference, err error) {
	if err != nil {
		r.Err = err
		return
	}
	r.Found, r.Stale, r.Unkept = foundOf(ref, k.Artifact), k.Stale, k.Unkept
}

// foundOf returns the plugin of an artifact. Its path is no file's: what was verified is
// what is loaded.
func foundOf(ref plugin.Reference, a *oci.Artifact) plugin.Found {
	ref.Digest = a.Digest
	f := plugin.Found{
		Manifest: a.Manifest, Path: plugin.OCIScheme + ref.String(), Module: a.Module, Digest: plugin.Digest(a.Module),
		Signatures: []plugin.Signature{}, // and none from files
	}
	if a.Signature != nil {
		f.Signatures = append(f.Signatures, plugin.Signature{From: f.Path, Data: a.Signature})
	}
	for _, c := range a.Cosigned {
		f.Signatures = append(f.Signatures, plugin.Signature{
			From: f.Path + " by cosign", Data: []byte(c.Signature), Payload: c.Payload, Artifact: a.Root(),
		})
	}
	return f
}

// wanted is what p must be for it to be loaded.
func (a *Admission) wanted(p *config.Plugin, ref plugin.Reference) oci.Wanted {
	return oci.Wanted{Ref: ref, Digest: p.Digest, Accept: func(artifact *oci.Artifact) error {
		f := foundOf(ref, artifact)
		if f.Manifest.Name != p.Name {
			return fmt.Errorf("source %s: its manifest calls the plugin %q", p.Source, f.Manifest.Name)
		}
		_, err := a.vouch(&f)
		return err
	}}
}

// resolve returns what is wanted, from the store or from the registry.
func (s *Sources) resolve(ctx context.Context, p *config.Plugin, w oci.Wanted) (*oci.Kept, plugin.Reference, error) {
	if s.cfg.CacheDir == "" {
		return nil, w.Ref, errors.New("plugin cache: there is neither a state folder nor a user's cache folder for it")
	}
	store, err := oci.OpenStore(oci.StoreConfig{Dir: s.cfg.CacheDir, Patience: s.cfg.Patience, LastPatience: s.cfg.LastPatience})
	if err != nil {
		return nil, w.Ref, err
	}
	known, fresh := s.fresh(p.Source)
	if s.cfg.Offline || fresh {
		last, err := store.Last(w)
		if err == nil {
			last.Stale = known.stale
			return last, w.Ref, nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s: it is not in the plugin cache", w.Ref)
		}
		if s.cfg.Offline {
			return nil, w.Ref, err
		}
	}
	c, err := oci.NewClient(oci.ClientConfig{
		PlainHTTP: p.PlainHTTP, DockerConfig: s.cfg.DockerConfig, UserAgent: "prober/" + s.cfg.Version, Cosign: true,
	})
	if err != nil {
		return nil, w.Ref, err
	}
	defer c.Close()
	kept, err := store.Resolve(ctx, c, w)
	if errors.Is(err, oci.ErrPlainHTTP) {
		err = fmt.Errorf("%w (plainHTTP: true allows it)", err)
	}
	said := heard{at: time.Now()}
	if kept != nil {
		said.stale = kept.Stale
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[p.Source] = said
	return kept, w.Ref, err
}

// fresh returns what a registry said of source, when that is not long ago.
func (s *Sources) fresh(source string) (heard, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	said, ok := s.asked[source]
	return said, ok && time.Since(said.at) < askAgain
}

// Forget lets registries be asked again, however short a time ago they were.
func (s *Sources) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.asked)
}

// fetch returns the plugin that the source of p leads to.
func (a *Admission) fetch(p *config.Plugin) (plugin.Found, error) {
	if _, ok := p.Reference(); !ok {
		return fetch(p, a.asked.ConfigFile)
	}
	for _, r := range a.pulled {
		if r.Name == p.Name && r.Shadow == p.Shadow {
			return r.Found, r.Err
		}
	}
	return plugin.Found{}, fmt.Errorf("source %s: it was not pulled", p.Source)
}

// pull gets the plugins that are in registries, and tells of those that are not what the
// registry has now. With again, registries are asked however short a time ago they were.
func (s *handlerSet) pull(ctx context.Context, a *Admission, again bool) {
	if again {
		s.sources.Forget()
	}
	stale := make(map[string]bool)
	for _, r := range a.Pull(ctx, s.sources) {
		log := s.log.With("handler", r.Name, "source", r.Source)
		stale[r.Name] = stale[r.Name] || r.Stale != nil
		if r.Stale != nil {
			log.Warn("plugin is the last good one: its source cannot be had", "digest", r.Found.Digest, "error", r.Stale.Error())
		}
		if r.Unkept != nil {
			log.Warn("plugin cannot be kept for when its registry is away", "error", r.Unkept.Error())
		}
	}
	s.metrics.PluginSources(stale)
}

// newSources returns the sources of an agent.
func newSources(cfg Config) *Sources {
	c := SourcesConfig{Version: cfg.Version}
	if cfg.LookupEnv != nil {
		c.DockerConfig = oci.DockerConfig(cfg.LookupEnv)
	}
	c.CacheDir, _ = PluginCache(cfg.StateDir) // that there is none is said when one is needed
	return NewSources(c)
}
