package oci

import (
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"

	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/internal/semantic"
	"github.com/daeace23/prober/plugin"
)

// refSuffix is the extension of the files of references.
const refSuffix = ".json"

// remembered is the last digest of a reference, and the newest version it ever had.
type remembered struct {
	Reference string `json:"reference"`
	Digest    string `json:"digest"`
	Newest    string `json:"newest,omitempty"`
}

// newest returns the newest version of the reference if it is newer than a, else "".
func (r *remembered) newest(a *Artifact) string {
	if semantic.Newer(r.Newest, a.Manifest.Version) {
		return r.Newest
	}
	return ""
}

// refFile returns the path of the file of ref.
func (s *Store) refFile(ref plugin.Reference) string {
	return filepath.Join(s.cfg.Dir, strings.TrimPrefix(plugin.Digest([]byte(ref.String())), "sha256:")+refSuffix)
}

func (s *Store) putRef(ref plugin.Reference, a *Artifact) (newest string, err error) {
	now := remembered{Reference: ref.String(), Digest: a.Digest}
	if before, err := s.recallRef(ref); err == nil {
		now.Newest = before.Newest
	}
	if !semantic.Valid(now.Newest) || semantic.Newer(a.Manifest.Version, now.Newest) {
		now.Newest = a.Manifest.Version
	}
	data, err := json.Marshal(now)
	if err != nil {
		return "", err
	}
	return now.newest(a), replaceFile(s.refFile(ref), func(w io.Writer) error { _, err := w.Write(data); return err })
}

// recallRef returns the stored record of ref.
func (s *Store) recallRef(ref plugin.Reference) (remembered, error) {
	r, err := readRef(s.refFile(ref))
	if err == nil && r.Reference != ref.String() {
		err = errors.New("the record of the reference cannot be read")
	}
	return r, err
}

func readRef(path string) (r remembered, err error) {
	data, err := regular.Read(path, maxIndex)
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	return r, err
}
