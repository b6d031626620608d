package admit

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

// minInterval is how long an answer of a registry about a tag is fresh.
const minInterval = 10 * time.Second

// SourcesConfig configures [Sources].
type SourcesConfig struct {
	CacheDir     string // for pulled plugins, see [CacheDir]
	DockerConfig string // path of docker's config.json, with credentials; "" for none
	Version      string // of prober, for the User-Agent; may be ""
	Offline      bool   // send no requests to registries
}

// Sources fetches plugins from registries, and keeps the last answer about each. It is safe for
// concurrent use.
type Sources struct {
	cfg SourcesConfig

	mu      sync.Mutex
	answers map[question]answer
}

// question identifies the request for a plugin.
type question struct {
	name, source, digest string
	plainHTTP, shadow    bool
}

func questionOf(e *config.Plugin) question {
	return question{e.Name, e.Source, e.Digest, e.PlainHTTP, e.Shadow}
}

// answer is the last answer of a registry.
type answer struct {
	at     time.Time
	digest string    // of the artifact to use
	stale  error     // error for which this is the last good artifact; nil if it is the current one
	err    error     // error for which there is no artifact
	unkept *oci.Kept // the artifact, if it could not be cached
}

// equal reports whether a and o have equal digests and errors.
func (a answer) equal(o answer) bool {
	return a.digest == o.digest && textOf(a.stale) == textOf(o.stale) && textOf(a.err) == textOf(o.err)
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// ErrPending is the error of a plugin whose registry has not answered yet.
var ErrPending = errors.New("its registry has not answered yet")

// NewSources returns the sources that cfg describes. It opens nothing.
func NewSources(cfg SourcesConfig) *Sources {
	return &Sources{cfg: cfg, answers: make(map[question]answer)}
}

// CacheDir returns the folder for pulled plugins: in the state folder, or in the user's cache if
// stateDir is "".
func CacheDir(stateDir string) (string, error) {
	if stateDir != "" {
		return filepath.Join(stateDir, "plugins"), nil
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("plugin cache: %w; set a state folder instead", err)
	}
	return filepath.Join(base, "prober", "plugins"), nil
}

// resolve returns the artifact for e, from the cache or from the registry.
func (s *Sources) resolve(ctx context.Context, e *config.Plugin, w oci.Wanted) (*oci.Kept, plugin.Reference, error) {
	if s.cfg.Offline || s.isFresh(e) {
		if kept, ref, err := s.recall(e, w); err == nil || s.cfg.Offline {
			return kept, ref, err
		}
	}
	kept, err := s.ask(ctx, e, w)
	a := answer{at: time.Now(), err: err}
	if kept != nil {
		a.digest, a.stale = kept.Digest, kept.Stale
		if kept.Unkept != nil {
			a.unkept = kept
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[questionOf(e)] = a
	return kept, w.Ref, err
}

// ask returns the artifact from the registry, or the last good one if the registry returns none that
// is acceptable.
func (s *Sources) ask(ctx context.Context, e *config.Plugin, w oci.Wanted) (*oci.Kept, error) {
	store, err := s.store()
	if err != nil {
		return nil, err
	}
	c, err := oci.NewClient(oci.ClientConfig{
		PlainHTTP: e.PlainHTTP, DockerConfig: s.cfg.DockerConfig, UserAgent: "prober/" + s.cfg.Version, Cosign: true,
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
	return oci.OpenStore(oci.StoreConfig{Dir: s.cfg.CacheDir})
}

// recall returns the artifact of the registry's last answer. It asks no registry.
func (s *Sources) recall(e *config.Plugin, w oci.Wanted) (*oci.Kept, plugin.Reference, error) {
	last, ok := s.last(e)
	if !ok && !s.cfg.Offline {
		return nil, w.Ref, ErrPending
	}
	if last.unkept != nil && w.Accept(last.unkept.Artifact) == nil {
		return last.unkept, w.Ref, nil
	}
	store, err := s.store()
	if err != nil {
		return nil, w.Ref, err
	}
	kept, err := store.Last(w)
	switch {
	case err == nil:
		kept.Stale = cmp.Or(last.stale, last.err)
		return kept, w.Ref, nil
	case last.err != nil:
		err = last.err
	case errors.Is(err, fs.ErrNotExist) && !s.cfg.Offline: // the cache was deleted: ask the registry again
		s.forget(e)
		err = ErrPending
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%s: it is not in the plugin cache", w.Ref)
	}
	return nil, w.Ref, err
}

// last returns the last answer about e.
func (s *Sources) last(e *config.Plugin) (answer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.answers[questionOf(e)]
	return a, ok
}

// forget drops the answer about e, so that the registry is asked again.
func (s *Sources) forget(e *config.Plugin) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.answers, questionOf(e))
}

// isFresh reports whether a registry was asked for e less than [minInterval] ago.
func (s *Sources) isFresh(e *config.Plugin) bool {
	a, ok := s.last(e)
	return ok && time.Since(a.at) < minInterval
}

// expire marks all answers as old, so that registries are asked again. It keeps the answers.
func (s *Sources) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for q, a := range s.answers {
		a.at = time.Time{}
		s.answers[q] = a
	}
}

// retain drops the answers about plugins that are not in wanted.
func (s *Sources) retain(wanted []*Pulled) {
	all := make(map[question]bool, len(wanted))
	for _, r := range wanted {
		all[questionOf(&r.entry)] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.answers, func(q question, _ answer) bool { return !all[q] })
}
