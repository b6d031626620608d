package oci

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

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
	data, err := readSmall(filesIn(root), refName(ref))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil || r.Reference != ref.String() {
		return remembered{}, errors.New("what the reference meant last cannot be read")
	}
	return r, nil
}

// newer reports whether version a is newer than b, both of which are as those of semver.org.
// Of others nobody knows.
func newer(a, b string) bool {
	x, preX, okX := parseVersion(a)
	y, preY, okY := parseVersion(b)
	if !okX || !okY {
		return false
	}
	order := cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1]), cmp.Compare(x[2], y[2]))
	if order != 0 || preX == preY {
		return order > 0
	}
	if preX == "" || preY == "" {
		return preX == "" // it is the version that the other one led up to
	}
	return comparePre(strings.Split(preX, "."), strings.Split(preY, ".")) > 0
}

// parseVersion reads MAJOR[.MINOR[.PATCH]][-PRE][+BUILD].
func parseVersion(text string) (numbers [3]uint64, pre string, ok bool) {
	text, _, _ = strings.Cut(strings.TrimPrefix(text, "v"), "+")
	text, pre, _ = strings.Cut(text, "-")
	parts := strings.Split(text, ".")
	if len(parts) > len(numbers) {
		return numbers, "", false
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 32)
		if err != nil {
			return numbers, "", false
		}
		numbers[i] = n
	}
	return numbers, pre, true
}

// comparePre compares identifiers: numbers come before words, and less before more.
func comparePre(x, y []string) int {
	for i := range min(len(x), len(y)) {
		m, errM := strconv.ParseUint(x[i], 10, 32)
		n, errN := strconv.ParseUint(y[i], 10, 32)
		order := cmp.Compare(x[i], y[i])
		switch {
		case errM == nil && errN == nil:
			order = cmp.Compare(m, n)
		case errM == nil:
			order = -1
		case errN == nil:
			order = 1
		}
		if order != 0 {
			return order
		}
	}
	return cmp.Compare(len(x), len(y))
}
