package oci

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/plugin"
)

// remembered is the digest that a reference had last, and the newest version of all.
type remembered struct {
	Reference string `json:"reference"`
	Digest    string `json:"digest"`
	Newest    string `json:"newest,omitempty"`
}

// newest returns the newest version that the reference had, where it is newer than a's.
func (r *remembered) newest(a *Artifact) string {
	if newer(r.Newest, a.Manifest.Version) {
		return r.Newest
	}
	return ""
}

// refName returns the file of ref, whose own text may be no name of a file.
func refName(ref plugin.Reference) string {
	return "refs/" + strings.TrimPrefix(digestOf([]byte(ref.String())), "sha256:") + ".json"
}

func (s *Store) putRef(ref plugin.Reference, a *Artifact) (newest string, err error) {
	root, err := os.OpenRoot(s.cfg.Dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	before, _ := recallRef(root, ref) // one that cannot be read has nothing to say
	now := remembered{ref.String(), a.Digest, before.Newest}
	if _, _, known := parseVersion(now.Newest); !known || newer(a.Manifest.Version, now.Newest) {
		now.Newest = a.Manifest.Version
	}
	data, err := json.Marshal(now)
	if err != nil {
		return "", err
	}
	// Others may be about to write the same.
	return now.newest(a), text(refName(ref), data).writeVia(root, refName(ref)+"."+rand.Text()+unfinished)
}

// pruneRefs removes what writers left that died.
func (s *Store) pruneRefs() error {
	root, err := os.OpenRoot(s.cfg.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	left, err := fs.Glob(root.FS(), "refs/*"+unfinished)
	for _, name := range left {
		info, gone := root.Stat(name)
		if gone != nil || time.Since(info.ModTime()) < keepUnused {
			continue
		}
		if failed := root.Remove(name); !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// recallRef returns what is remembered of ref.
func recallRef(root *os.Root, ref plugin.Reference) (r remembered, err error) {
	data, err := readSmall(regular.FS(root), refName(ref))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil || r.Reference != ref.String() {
		return remembered{}, errors.New("what the reference meant last can not be read")
	}
	return r, nil
}
