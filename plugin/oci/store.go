package oci

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/daeace23/prober/internal/ownership"
	"github.com/daeace23/prober/plugin"
)

// How long a registry may delay an agent, unless [StoreConfig] says otherwise.
const (
	DefaultPatience     = 30 * time.Second
	DefaultLastPatience = 5 * time.Second
)

// keepUnused is how long an artifact is kept that no reference leads to: another agent may be
// about to add one.
const keepUnused = time.Hour

// Store keeps pulled artifacts, each in an OCI layout that is named after the digest of its
// manifest, and for each reference the digest that it had last. What it returns is verified.
type Store struct {
	cfg StoreConfig
}

// StoreConfig says where a store is, and how long it waits. Only Dir is required.
type StoreConfig struct {
	Dir string // created if it does not exist
	// Patience is how long a registry may take if the store has nothing to return, and
	// LastPatience if it has the last good artifact. 0 means [DefaultPatience] and
	// [DefaultLastPatience].
	Patience, LastPatience time.Duration
}

// fileCosigned is the file in the layout of an artifact that has the signatures of cosign.
const fileCosigned = "cosigned.json"

// OpenStore returns the store in a folder. It is an error if another user could write there.
func OpenStore(cfg StoreConfig) (*Store, error) {
	cfg.Patience = cmp.Or(cfg.Patience, DefaultPatience)
	cfg.LastPatience = cmp.Or(cfg.LastPatience, DefaultLastPatience)
	if err := ownership.PrivateDir(cfg.Dir); err != nil {
		return nil, fmt.Errorf("plugin cache: %w", err)
	}
	return &Store{cfg}, nil
}

// Wanted describes the artifact that [Store.Resolve] returns.
type Wanted struct {
	Ref plugin.Reference
	// Digest, unless it is empty, is the required digest of the module. An artifact of the
	// store that has it is returned without a request to the registry.
	Digest string
	// Accept, unless it is nil, returns an error for an artifact that must not be used.
	Accept func(*Artifact) error
}

// accept returns an error if a is not what w describes.
func (w *Wanted) accept(a *Artifact) error {
	if w.Ref.Digest != "" && a.Digest != w.Ref.Digest {
		return ErrTampered
	}
	if w.Digest != "" {
		if digest := plugin.Digest(a.Module); w.Digest != digest {
			return fmt.Errorf("%s: the digest of its module is %s, must be %s", w.Ref, digest, w.Digest)
		}
	}
	if w.Accept == nil {
		return nil
	}
	return w.Accept(a)
}

// Kept is an artifact of a store.
type Kept struct {
	*Artifact
	// Stale is why this is the last good artifact and not the registry's current one; nil if it
	// is the current one.
	Stale error
	// Newest is the newest version that the tag has had, if that is newer than this one: whoever
	// can move a tag can bring back a version that was signed once. Else "".
	Newest string
	// Unkept is why the artifact could not be stored; nil if it is stored.
	Unkept error
}

// Resolve returns the artifact that w describes: the stored one if w has a digest, else the
// registry's current one, else the last good one. It stores what it pulls.
func (s *Store) Resolve(ctx context.Context, c *Client, w Wanted) (*Kept, error) {
	last, lastErr := s.Last(w)
	if last != nil && (w.Ref.Digest != "" || w.Digest != "") {
		return last, nil
	}
	patience := s.cfg.Patience
	if last != nil {
		patience = min(patience, s.cfg.LastPatience)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("%s did not answer within %s", w.Ref.Registry, patience))
	defer cancel()
	now, err := s.pull(ctx, c, &w, last)
	switch {
	case err == nil:
		return now, nil
	case last != nil:
		last.Stale = err
		return last, nil
	case lastErr != nil && !errors.Is(lastErr, fs.ErrNotExist):
		return nil, fmt.Errorf("%w (and what was kept of it: %w)", err, lastErr)
	default:
		return nil, err
	}
}

// pull returns the registry's current artifact. It does not pull last again.
func (s *Store) pull(ctx context.Context, c *Client, w *Wanted, last *Kept) (*Kept, error) {
	root, err := c.pullRoot(ctx, w.Ref)
	if err != nil {
		return nil, err
	}
	if last != nil && last.Digest == root.desc.Digest.String() {
		return last, nil
	}
	a, err := c.pullRest(ctx, w.Ref, root)
	if err != nil {
		return nil, err
	}
	if err := w.accept(a); err != nil {
		return nil, err
	}
	return s.Keep(w.Ref, a), nil
}

// Keep stores a as the current artifact of ref.
func (s *Store) Keep(ref plugin.Reference, a *Artifact) *Kept {
	k := &Kept{Artifact: a}
	err := s.putArtifact(a)
	if err == nil {
		k.Newest, err = s.putRef(ref, a)
	}
	if err == nil {
		err = s.prune()
	}
	if err != nil {
		k.Unkept = fmt.Errorf("plugin cache: %w", err)
	}
	return k
}

func (s *Store) putArtifact(a *Artifact) error {
	all, err := layoutFiles(&ocispec.Index{}, "", a)
	if err != nil {
		return err
	}
	if len(a.Cosigned) > 0 {
		data, err := json.Marshal(a.Cosigned)
		if err != nil {
			return err
		}
		all = append(all, file{fileCosigned, data})
	}
	return replaceFile(s.layout(a.Digest), func(w io.Writer) error { return writeTar(w, all) })
}

// layout returns the path of the artifact with this digest.
func (s *Store) layout(digest string) string {
	return filepath.Join(s.cfg.Dir, strings.TrimPrefix(digest, "sha256:")+".tar")
}

// Last returns the stored artifact of w. It sends no request to the registry. Its error matches
// [fs.ErrNotExist] if there is none.
func (s *Store) Last(w Wanted) (*Kept, error) {
	last := remembered{Digest: w.Ref.Digest}
	if last.Digest == "" {
		var err error
		if last, err = s.recallRef(w.Ref); err != nil {
			return nil, err
		}
	}
	a, err := s.get(last.Digest)
	if err != nil {
		return nil, err
	}
	if err := w.accept(a); err != nil {
		return nil, err
	}
	return &Kept{Artifact: a, Newest: last.newest(a)}, nil
}

// get returns the artifact with this digest, verified.
func (s *Store) get(digest string) (*Artifact, error) {
	archive, err := openTar(s.layout(digest))
	if err != nil {
		return nil, err
	}
	defer archive.file.Close()
	all, err := load(archive.open, Platform{})
	if err != nil {
		return nil, err
	}
	a := all[0]
	if a.Digest != digest {
		return nil, fmt.Errorf("%.19s: %w", digest, ErrTampered)
	}
	a.Cosigned, err = readCosigned(archive.open)
	return a, err
}

// prune removes artifacts that no reference has led to for some time, and files that were
// never finished.
func (s *Store) prune() error {
	entries, err := os.ReadDir(s.cfg.Dir)
	if err != nil {
		return err
	}
	used := make(map[string]bool)
	for _, e := range entries {
		if filepath.Ext(e.Name()) != refSuffix {
			continue
		}
		if r, err := readRef(filepath.Join(s.cfg.Dir, e.Name())); err == nil {
			used[filepath.Base(s.layout(r.Digest))] = true
		}
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || filepath.Ext(e.Name()) == refSuffix || used[e.Name()] || time.Since(info.ModTime()) < keepUnused {
			continue // removed meanwhile, or needed
		}
		if err := os.RemoveAll(filepath.Join(s.cfg.Dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
