package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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
	asked map[asked]heard
}

// asked is what a registry was asked for.
type asked struct {
	name, source, digest string
	plainHTTP, shadow    bool
}

func askedOf(p *config.Plugin) asked { return asked{p.Name, p.Source, p.Digest, p.PlainHTTP, p.Shadow} }

// heard is what a registry said last.
type heard struct {
	at     time.Time
	digest string    // of what there is now
	stale  error     // why that is the last good one; nil when it is not
	err    error     // why there is none
	unkept *oci.Kept // what there is, where it could not be kept
}

// same reports whether nothing new was said.
func (h heard) same(o heard) bool {
	return h.digest == o.digest && textOf(h.stale) == textOf(o.stale) && textOf(h.err) == textOf(o.err)
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// errNotAsked is the error of a plugin whose registry has not answered yet.
var errNotAsked = errors.New("its registry has not answered yet")

// NewSources returns the sources that cfg describes. Nothing is opened before there is a
// plugin to be had.
func NewSources(cfg SourcesConfig) *Sources {
	return &Sources{cfg: cfg, asked: make(map[asked]heard)}
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
	// Newest is the version that the tag of Source had before, where that is newer: somebody
	// moved it back. "" where nobody did.
	Newest string

	of  config.Plugin
	ref plugin.Reference
}

// Pull gets the plugins of prober.yaml that are in registries, for [Admission.Find] and
// [Admission.Shadows]. What may not be loaded takes the place of nothing that was good. It
// waits no longer than [oci.DefaultPatience] for all of them.
func (a *Admission) Pull(ctx context.Context, from *Sources) []Pulled {
	all := a.remote()
	a.pull(ctx, from, all, func(*Pulled) {})
	return a.took(all)
}

// recall is Pull that asks no registry: it goes by what they said last.
func (a *Admission) recall(from *Sources) {
	all := a.remote()
	for _, r := range all {
		r.set(from.recall(&r.of, a.wanted(&r.of, r.ref)))
	}
	a.took(all)
}

// remote returns the plugins of prober.yaml that are in registries.
func (a *Admission) remote() (all []*Pulled) {
	for _, p := range a.file.Plugins {
		if ref, ok := p.Reference(); ok && (p.Shadow || a.asked.Dev[p.Name] == "") {
			all = append(all, &Pulled{Name: p.Name, Source: p.Source, Shadow: p.Shadow, of: p, ref: ref})
		}
	}
	return all
}

// pull gets all, and tells each of those that were had, or not.
func (a *Admission) pull(ctx context.Context, from *Sources, all []*Pulled, each func(*Pulled)) {
	ctx, cancel := context.WithTimeoutCause(ctx, oci.DefaultPatience, errors.New("the registries took too long"))
	defer cancel()
	var pulling sync.WaitGroup
	places := make(chan struct{}, maxPulls)
	for _, r := range all {
		pulling.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			r.set(from.resolve(ctx, &r.of, a.wanted(&r.of, r.ref)))
			each(r)
		})
	}
	pulling.Wait()
}

func (a *Admission) took(all []*Pulled) []Pulled {
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
	r.Found, r.Stale, r.Unkept, r.Newest = k.Artifact.Found(ref), k.Stale, k.Unkept, k.Newest
}

// wanted is what p must be for it to be loaded.
func (a *Admission) wanted(p *config.Plugin, ref plugin.Reference) oci.Wanted {
	return oci.Wanted{Ref: ref, Digest: p.Digest, Accept: func(artifact *oci.Artifact) error {
		f := artifact.Found(ref)
		if f.Manifest.Name != p.Name {
			return fmt.Errorf("source %s: its manifest calls the plugin %q", p.Source, f.Manifest.Name)
		}
		if err := pinned(&f, p); err != nil {
			return err
		}
		verdict, err := a.vouch(&f)
		if err != nil {
			return err
		}
		return a.covered(&f, p, verdict)
	}}
}

// resolve returns what is wanted, from the store or from the registry.
func (s *Sources) resolve(ctx context.Context, p *config.Plugin, w oci.Wanted) (*oci.Kept, plugin.Reference, error) {
	if s.cfg.Offline || s.fresh(p) {
		if kept, ref, err := s.recall(p, w); err == nil || s.cfg.Offline {
			return kept, ref, err
		}
	}
	kept, err := s.ask(ctx, p, w)
	said := heard{at: time.Now(), err: err}
	if kept != nil {
		said.digest, said.stale = kept.Digest, kept.Stale
		if kept.Unkept != nil {
			said.unkept = kept
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[askedOf(p)] = said
	return kept, w.Ref, err
}

// ask returns what is wanted from the registry, or what stands in for it.
func (s *Sources) ask(ctx context.Context, p *config.Plugin, w oci.Wanted) (*oci.Kept, error) {
	store, err := s.store()
	if err != nil {
		return nil, err
	}
	c, err := oci.NewClient(oci.ClientConfig{
		PlainHTTP: p.PlainHTTP, DockerConfig: s.cfg.DockerConfig, UserAgent: "prober/" + s.cfg.Version, Cosign: true,
	})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	kept, err := store.Resolve(ctx, c, w)
	if errors.Is(err, oci.ErrPlainHTTP) {
		err = fmt.Errorf("%w (plainHTTP: true allows it)", err)
	}
	return kept, err
}

func (s *Sources) store() (*oci.Store, error) {
	if s.cfg.CacheDir == "" {
		return nil, errors.New("plugin cache: there is neither a state folder nor a user's cache folder for it")
	}
	return oci.OpenStore(oci.StoreConfig{Dir: s.cfg.CacheDir, Patience: s.cfg.Patience, LastPatience: s.cfg.LastPatience})
}

// recall returns what is wanted without a look at the registry, as that has said last.
func (s *Sources) recall(p *config.Plugin, w oci.Wanted) (*oci.Kept, plugin.Reference, error) {
	said, ok := s.heard(p)
	if !ok && !s.cfg.Offline {
		return nil, w.Ref, errNotAsked
	}
	if said.unkept != nil && w.Accept(said.unkept.Artifact) == nil {
		return said.unkept, w.Ref, nil
	}
	store, err := s.store()
	if err != nil {
		return nil, w.Ref, err
	}
	last, err := store.Last(w)
	switch {
	case err == nil:
		last.Stale = cmp.Or(said.stale, said.err)
		return last, w.Ref, nil
	case said.err != nil:
		err = said.err
	case errors.Is(err, fs.ErrNotExist) && !s.cfg.Offline: // somebody has deleted it: the registry has it still
		s.forget(p)
		err = errNotAsked
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%s: it is not in the plugin cache", w.Ref)
	}
	return nil, w.Ref, err
}

// heard returns what a registry said of p.
func (s *Sources) heard(p *config.Plugin) (heard, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	said, ok := s.asked[askedOf(p)]
	return said, ok
}

// forget drops what a registry said of p, so that it is asked again.
func (s *Sources) forget(p *config.Plugin) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.asked, askedOf(p))
}

// fresh reports whether a registry was asked for p a short time ago.
func (s *Sources) fresh(p *config.Plugin) bool {
	said, ok := s.heard(p)
	return ok && time.Since(said.at) < askAgain
}

// expire lets registries be asked again, however short a time ago they were. What they
// said is known still.
func (s *Sources) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for of, said := range s.asked {
		said.at = time.Time{}
		s.asked[of] = said
	}
}

// keep forgets what registries said of all but those that somebody wants.
func (s *Sources) keep(wanted []*Pulled) {
	all := make(map[asked]bool, len(wanted))
	for _, r := range wanted {
		all[askedOf(&r.of)] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.asked, func(a asked, _ heard) bool { return !all[a] })
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

// newSources returns the sources of an agent.
func newSources(cfg Config) *Sources {
	c := SourcesConfig{Version: cfg.Version}
	if cfg.LookupEnv != nil {
		c.DockerConfig = oci.DockerConfig(cfg.LookupEnv)
	}
	c.CacheDir, _ = PluginCache(cfg.StateDir) // that there is none is said when one is needed
	return NewSources(c)
}
