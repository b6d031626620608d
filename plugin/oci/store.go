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

// Defaults of [StoreConfig].
const (
	DefaultPatience     = 30 * time.Second
	DefaultLastPatience = 5 * time.Second
)

// keepUnused is how long the store keeps an artifact without a reference. Another agent may be
// about to write its reference.
const keepUnused = time.Hour

// Store keeps pulled artifacts in a folder, and the last digest of each reference. Each artifact is
// an OCI layout whose file name is the digest of its manifest. Store verifies the artifacts that it
// returns.
type Store struct {
	cfg StoreConfig
}

// StoreConfig configures a [Store]. Only Dir is required.
type StoreConfig struct {
	Dir string // created if it does not exist
	// Patience is the timeout for a registry if the store has no copy of the artifact.
	// LastPatience is the timeout if it has one. 0 means [DefaultPatience] and
	// [DefaultLastPatience].
	Patience, LastPatience time.Duration
}

// fileCosigned is the file with the signatures of cosign in an artifact's layout.
const fileCosigned = "cosigned.json"

// OpenStore returns the store in cfg.Dir. It returns an error if another user can write there.
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
	// Digest, if not empty, is the required digest of the module. If a stored artifact has it,
	// Resolve sends no request to the registry.
	Digest string
	// Accept, if not nil, returns an error for an artifact that must not be used.
	Accept func(*Artifact) error
}

// accept returns an error if a does not match w.
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
	// Stale is the error for which this is the last good artifact and not the registry's current
	// one; nil if it is the current one.
	Stale error
	// Newest is the newest version the tag ever had, if it is newer than this one; else "".
	// Whoever can move a tag can return it to an old, signed version.
	Newest string
	// Unkept is the error for which the artifact is not stored; nil if it is stored.
	Unkept error
}

// Resolve returns the artifact that w describes. If w has a digest, this is the stored artifact if
// there is one. Else it is the registry's current one, or the last good one if the pull fails.
// Resolve stores the artifact that it pulls.
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
		return nil, fmt.Errorf("%w (and the stored copy: %w)", err, lastErr)
	default:
		return nil, err
	}
}

// pull returns the registry's current artifact. If this is last, it pulls the manifest only.
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

// Keep stores a as the current artifact of ref. If it cannot, it sets Unkept of the result.
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

// layout returns the path of the layout for this digest.
func (s *Store) layout(digest string) string {
	return filepath.Join(s.cfg.Dir, strings.TrimPrefix(digest, "sha256:")+".tar")
}

// Last returns the stored artifact of w, without a request to the registry. If there is none, the
// error matches [fs.ErrNotExist].
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

// prune removes artifacts without a reference and unfinished files, once they are older than
// [keepUnused].
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
			continue // removed by another process, or in use
		}
		if err := os.RemoveAll(filepath.Join(s.cfg.Dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
