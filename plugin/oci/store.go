package oci

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/daeace23/prober/internal/ownership"
	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/plugin"
)

// How long a registry may keep an agent waiting when nothing is said.
const (
	DefaultPatience     = 30 * time.Second
	DefaultLastPatience = 5 * time.Second
)

// keepUnused is how long an artifact stays that no reference leads to: somebody else may
// be about to make one.
const keepUnused = time.Hour

// Store keeps the artifacts that were pulled by the digests of their manifests, and for
// each reference the digest that it had last. What is read back is verified.
type Store struct {
	cfg StoreConfig
}

// StoreConfig says where a store is, and how patient. Only Dir is required.
type StoreConfig struct {
	Dir string // is made if need be
	// Patience is how long a registry may take where there is nothing to go on with, and
	// LastPatience where the last good one is at hand. 0 means [DefaultPatience] and
	// [DefaultLastPatience].
	Patience, LastPatience time.Duration
}

// Names in the folder of an artifact. The signature lies beside the module, as it does
// everywhere.
const (
	fileRoot      = "manifest.json"
	fileConfig    = "config.json"
	fileModule    = "plugin.wasm"
	fileSignature = fileModule + SignatureSuffix
	fileCosigned  = "cosigned.json"

	fileInner    = "platform.json" // the OCI manifest of the platform, where fileRoot is an index
	fileManifest = "plugin.yaml"   // of a program
)

// OpenStore returns the store in a folder. One in which somebody else could put plugins
// is refused.
func OpenStore(cfg StoreConfig) (*Store, error) {
	cfg.Patience = cmp.Or(cfg.Patience, DefaultPatience)
	cfg.LastPatience = cmp.Or(cfg.LastPatience, DefaultLastPatience)
	for _, dir := range []string{cfg.Dir, filepath.Join(cfg.Dir, "refs")} {
		if err := ownership.PrivateDir(dir); err != nil {
			return nil, fmt.Errorf("plugin cache: %w", err)
		}
	}
	return &Store{cfg}, nil
}

// Wanted is a plugin that must be had.
type Wanted struct {
	Ref plugin.Reference
	// Digest, when not empty, is the one that the module must have. What is kept and has
	// it is taken without a look at the registry.
	Digest string
	// Accept, when not nil, says what is wrong with an artifact that is otherwise well.
	Accept func(*Artifact) error
}

// accept returns an error if a is not what w wants.
func (w *Wanted) accept(a *Artifact) error {
	if w.Ref.Digest != "" && a.Digest != w.Ref.Digest {
		return ErrTampered
	}
	if digest := plugin.Digest(a.Module); w.Digest != "" && w.Digest != digest {
		return fmt.Errorf("%s: the digest of its module is %s, want %s", w.Ref, digest, w.Digest)
	}
	if w.Accept == nil {
		return nil
	}
	return w.Accept(a)
}

// settled reports whether no registry could say anything new.
func (w *Wanted) settled() bool { return w.Ref.Digest != "" || w.Digest != "" }

// Kept is an artifact of a store.
type Kept struct {
	*Artifact
	Path string // of the module in the store; the signature is beside it
	// Stale says why this is the last good one, and not what the registry has now; nil
	// when it is.
	Stale error
	// Newest is the version that the tag had before, where that is newer than this one:
	// whoever can move a tag can bring back what was signed once. "" where it is not.
	Newest string
	// Unkept says why it could not be kept for the next time; nil when it is. Then there
	// is nothing at Path.
	Unkept error
}

// Resolve returns the plugin that w wants: what is kept where that settles it, else what
// the registry has now, else the last good one. It keeps what it pulls, and is no more
// patient than the store's config.
func (s *Store) Resolve(ctx context.Context, c *Client, w Wanted) (*Kept, error) {
	last, lastErr := s.Last(w)
	if last != nil && w.settled() {
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

// pull returns what the registry has now. last, if any, is not pulled again.
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

// Keep puts a into the store as what ref names now.
func (s *Store) Keep(ref plugin.Reference, a *Artifact) *Kept {
	k := &Kept{Artifact: a, Path: filepath.Join(s.folder(a.Digest), fileModule)}
	var err error
	if k.Newest, err = s.put(ref, a); err != nil {
		k.Unkept = fmt.Errorf("plugin cache: %w", err)
	}
	return k
}

func (s *Store) put(ref plugin.Reference, a *Artifact) (newest string, err error) {
	if !s.has(a) {
		if err := s.putArtifact(a); err != nil {
			return "", err
		}
	}
	if newest, err = s.putRef(ref, a); err != nil {
		return "", err
	}
	return newest, s.prune()
}

// has reports whether a is kept, and well, with the signatures that it has now.
func (s *Store) has(a *Artifact) bool {
	old, err := s.get(a.Digest)
	return err == nil && slices.EqualFunc(old.Cosigned, a.Cosigned, func(x, y Cosigned) bool {
		return x.Signature == y.Signature && string(x.Payload) == string(y.Payload) && string(x.Bundle) == string(y.Bundle)
	})
}

func (s *Store) putArtifact(a *Artifact) error {
	next, err := os.MkdirTemp(s.cfg.Dir, ".new-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(next) // nothing is there when all went well
	root, err := os.OpenRoot(next)
	if err != nil {
		return err
	}
	defer root.Close()
	files := []file{text(fileRoot, a.root.data)}
	if a.inner.data != nil {
		files = append(files, text(fileInner, a.inner.data))
	}
	for _, b := range a.blobs {
		files = append(files, text(fileOf(b.desc), b.data))
	}
	if len(a.Cosigned) > 0 {
		data, err := json.Marshal(a.Cosigned)
		if err != nil {
			return err
		}
		files = append(files, text(fileCosigned, data))
	}
	for _, f := range files {
		if err := f.write(root); err != nil {
			return err
		}
	}
	return s.install(next, a)
}

// maxInstalls is how often what lies in the place of an artifact is put away.
const maxInstalls = 3

// install gives the folder next the name of a's. Where somebody else was faster, theirs
// stays: others may be reading it. What is broken is put away.
func (s *Store) install(next string, a *Artifact) error {
	folder, away := s.folder(a.Digest), next+"-old"
	for tries := 1; ; tries++ {
		err := os.Rename(next, folder)
		if err == nil || s.has(a) {
			return nil
		}
		if tries == maxInstalls {
			return err
		}
		if err := os.Rename(folder, away); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.RemoveAll(away); err != nil {
			return err
		}
	}
}

func (s *Store) folder(digest string) string {
	return filepath.Join(s.cfg.Dir, strings.TrimPrefix(digest, "sha256:"))
}

// Last returns what is kept of w, with no look at the registry. Its error matches
// [fs.ErrNotExist] where nothing is kept.
func (s *Store) Last(w Wanted) (*Kept, error) {
	last := remembered{Digest: w.Ref.Digest}
	if last.Digest == "" {
		root, err := os.OpenRoot(s.cfg.Dir)
		if err != nil {
			return nil, err
		}
		defer root.Close()
		if last, err = recallRef(root, w.Ref); err != nil {
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
	return &Kept{Artifact: a, Path: filepath.Join(s.folder(a.Digest), fileModule), Newest: last.newest(a)}, nil
}

// get reads an artifact back, and verifies all of it.
func (s *Store) get(digest string) (*Artifact, error) {
	if !strings.HasPrefix(digest, "sha256:") || filepath.Base(s.folder(digest)) != strings.TrimPrefix(digest, "sha256:") {
		return nil, fmt.Errorf("%.80q is not a digest", digest)
	}
	root, err := os.OpenRoot(s.folder(digest))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	data, err := readSmall(filesIn(root), fileRoot)
	if err != nil {
		return nil, err
	}
	desc := describe(rootType(data), data)
	if desc.Digest.String() != digest {
		return nil, fmt.Errorf("%s: %w", short(desc.Digest), ErrTampered)
	}
	a, err := read(blob{desc: desc, data: data}, Platform{}, func(desc ocispec.Descriptor, most int64) ([]byte, error) {
		if err := checkDescriptor(desc, most); err != nil {
			return nil, err
		}
		f, err := regular.OpenIn(root, fileOf(desc))
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return verified(f, desc, most)
	})
	if err != nil {
		return nil, err
	}
	a.Cosigned, err = readCosigned(filesIn(root))
	return a, err
}

// rootType tells an index from an OCI manifest. Both of prober's say what they are; a
// manifest of others need not.
func rootType(data []byte) string {
	var said struct {
		MediaType string `json:"mediaType"`
	}
	if json.Unmarshal(data, &said) == nil && said.MediaType == ocispec.MediaTypeImageIndex {
		return said.MediaType
	}
	return ocispec.MediaTypeImageManifest
}

func fileOf(desc ocispec.Descriptor) string {
	switch desc.MediaType {
	case LayerType, ProgramType:
		return fileModule
	case SignatureType:
		return fileSignature
	case ManifestType:
		return fileManifest
	case ocispec.MediaTypeImageManifest:
		return fileInner
	default:
		return fileConfig
	}
}

// prune removes artifacts that no reference has led to for a while, and what writers
// left that died.
func (s *Store) prune() error {
	used, err := s.used()
	if err != nil {
		return err
	}
	if err := s.pruneRefs(); err != nil {
		return err
	}
	entries, err := os.ReadDir(s.cfg.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !e.IsDir() || e.Name() == "refs" || used[e.Name()] || time.Since(info.ModTime()) < keepUnused {
			continue // gone meanwhile, or of use
		}
		if err := os.RemoveAll(filepath.Join(s.cfg.Dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// used returns the folders of the artifacts that references lead to.
func (s *Store) used() (map[string]bool, error) {
	root, err := os.OpenRoot(s.cfg.Dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	names, err := fs.Glob(root.FS(), "refs/*.json")
	if err != nil {
		return nil, err
	}
	used := make(map[string]bool)
	for _, name := range names {
		data, err := readSmall(filesIn(root), name)
		if err != nil {
			return nil, err
		}
		var r remembered
		if json.Unmarshal(data, &r) == nil {
			used[strings.TrimPrefix(r.Digest, "sha256:")] = true
		}
	}
	return used, nil
}
