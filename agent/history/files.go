package history

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/daeace23/prober/agent/history/record"
)

const (
	journalSuffix = ".journal"
	blockSuffix   = ".block"
	partSuffix    = ".part"     // of a block that is being written
	asideInfix    = ".corrupt-" // of a file that cannot be used, before the time
	maxAside      = 3
)

// window is how long one file is: what a compaction reads, and what is dropped at once.
const window = 4 * time.Hour

// fileInfo is a file of the history.
type fileInfo struct {
	seq         uint64
	block       bool
	size        int64 // of a journal: what is certainly on the disk
	first, last int64 // when what it has happened, in milliseconds; last is 0 while it is written
}

func (f *fileInfo) name() string {
	if f.block {
		return fmt.Sprintf("%08d%s", f.seq, blockSuffix)
	}
	return fmt.Sprintf("%08d%s", f.seq, journalSuffix)
}

// parseName returns the file that a name stands for.
func parseName(name string) (f fileInfo, ok bool) {
	base, suffix, _ := strings.Cut(name, ".")
	f.block = "."+suffix == blockSuffix
	if _, err := fmt.Sscanf(base, "%d", &f.seq); err != nil || name != f.name() {
		return fileInfo{}, false
	}
	return f, true
}

func (s *Store) path(name string) string { return filepath.Join(s.dir, name) }

// errLater is the error of a file that a later version has written.
var errLater = errors.New("was written by a later version of prober, and is not read")

// open lists the files that there are, and moves aside those that cannot be used.
func (s *Store) open() error {
	if err := s.disk.MkdirAll(s.dir); err != nil {
		return err
	}
	entries, err := s.disk.ReadDir(s.dir)
	if err != nil {
		return err
	}
	var files []fileInfo
	next, later := uint64(1), ""
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), partSuffix) {
			_ = s.disk.Remove(s.path(e.Name()))
			continue
		}
		f, ok := parseName(e.Name())
		if !ok || !e.Type().IsRegular() {
			continue
		}
		next = max(next, f.seq+1)
		switch err := s.inspect(&f); {
		case errors.Is(err, errLater):
			later = f.name() + " " + err.Error()
			s.log.Error("a file of the history is not used", "file", f.name(), "error", err)
		case err != nil:
			s.setAside(&f, err)
		case f.size == 0:
			_ = s.disk.Remove(s.path(f.name())) // the disk was full
		default:
			files = append(files, f)
		}
	}
	files = s.withoutPairs(files)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened, s.files, s.next = true, files, next
	s.trouble.later = later
	return nil
}

// withoutPairs removes journals that have become blocks, and sorts.
func (s *Store) withoutPairs(files []fileInfo) []fileInfo {
	slices.SortFunc(files, func(a, b fileInfo) int { return int(int64(a.seq) - int64(b.seq)) })
	return slices.DeleteFunc(files, func(f fileInfo) bool {
		pair := !f.block && slices.ContainsFunc(files, func(o fileInfo) bool { return o.block && o.seq == f.seq })
		if pair {
			_ = s.disk.Remove(s.path(f.name()))
		}
		return pair
	})
}

// inspect reads the begin of a file.
func (s *Store) inspect(f *fileInfo) error {
	in, err := s.disk.Open(s.path(f.name()))
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	f.size = info.Size()
	if f.size == 0 {
		return nil
	}
	magic := make([]byte, len(record.Magic))
	if _, err := in.ReadAt(magic, 0); err != nil && err != io.EOF {
		return err
	}
	if string(magic) != record.Magic {
		if bytes.HasPrefix(magic, []byte(record.MagicPrefix)) && laterVersion(magic[len(record.MagicPrefix):]) {
			return errLater
		}
		return errors.New("is not a file of the history")
	}
	f.first, f.last = s.bounds(in, f, info.ModTime())
	return nil
}

// laterVersion reports whether text is the number of a later format.
func laterVersion(text []byte) bool {
	var n int
	_, err := fmt.Sscanf(string(text), "%d", &n)
	return err == nil && n > 1
}

// bounds returns when what a file has happened. Without its head, that is around the time of the file.
func (s *Store) bounds(in file, f *fileInfo, modified time.Time) (first, last int64) {
	scan := record.NewScanner(in, int64(len(record.Magic)), f.size)
	scan.Skip = func(t record.Type) bool { return t != record.Head }
	if raw, ok := scan.Next(); ok {
		if payload, err := scan.Payload(raw); err == nil {
			if first, last, err := record.DecodeHead(payload); err == nil {
				if last == 0 {
					last = max(first, modified.UnixMilli())
				}
				return first, last
			}
		}
	}
	return modified.Add(-window).UnixMilli(), modified.UnixMilli()
}

// setAside renames a file that cannot be used, and keeps few of those.
func (s *Store) setAside(f *fileInfo, why error) {
	name := f.name()
	aside := name + asideInfix + time.Now().UTC().Format("20060102T150405Z")
	s.damaged(name, "%v; it is kept as %s", why, aside)
	if err := s.disk.Rename(s.path(name), s.path(aside)); err != nil {
		return
	}
	entries, _ := s.disk.ReadDir(s.dir)
	var all []string
	for _, e := range entries {
		if strings.Contains(e.Name(), asideInfix) {
			all = append(all, e.Name())
		}
	}
	slices.SortFunc(all, func(a, b string) int { return strings.Compare(asideTime(a), asideTime(b)) })
	for _, old := range all[:max(len(all)-maxAside, 0)] {
		_ = s.disk.Remove(s.path(old))
	}
}

func asideTime(name string) string {
	_, at, _ := strings.Cut(name, asideInfix)
	return at + name
}

// list returns the files that have something from since to until, oldest first. active is whether the
// last one is being written.
func (s *Store) list(since, until int64) (files []fileInfo, active bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.files {
		if f.first <= until && (f.last == 0 || f.last >= since) {
			files = append(files, f)
		}
	}
	return files, s.running
}

// openFile opens a file of a list. A journal may have become a block since; ok is false if it was dropped.
func (s *Store) openFile(f *fileInfo) (in file, ok bool, err error) {
	in, err = s.disk.Open(s.path(f.name()))
	if errors.Is(err, fs.ErrNotExist) && !f.block {
		f.block = true
		if in, err = s.disk.Open(s.path(f.name())); err == nil {
			var info fs.FileInfo
			if info, err = in.Stat(); err == nil {
				f.size = info.Size()
			} else {
				in.Close()
			}
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	return in, err == nil, err
}

// put adds or replaces a file.
func (s *Store) put(f fileInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.files, func(o fileInfo) bool { return o.seq == f.seq }); i >= 0 {
		s.files[i] = f
		return
	}
	i, _ := slices.BinarySearchFunc(s.files, f.seq, func(o fileInfo, seq uint64) int { return int(int64(o.seq) - int64(seq)) })
	s.files = slices.Insert(s.files, i, f)
}

// prune drops the oldest files, beyond retention and budget. The newest one stays.
func (s *Store) prune(now time.Time) {
	oldest := now.Add(-s.cfg.Retention).UnixMilli()
	for {
		s.mu.Lock()
		if len(s.files) < 2 {
			s.mu.Unlock()
			return
		}
		f := s.files[0]
		over := s.bytesLocked() > s.cfg.Budget
		if !over && (f.last == 0 || f.last >= oldest) {
			s.mu.Unlock()
			return
		}
		tell := over && f.last >= oldest && !s.limited
		s.limited = s.limited || tell
		s.files = slices.Delete(s.files, 0, 1)
		s.mu.Unlock()
		if tell {
			s.log.Warn("history does not fit its budget; the oldest is dropped",
				"budget", s.cfg.Budget, "until", time.UnixMilli(f.last).UTC().Format(time.RFC3339))
		}
		if err := s.disk.Remove(s.path(f.name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.countError()
		}
	}
}

// Oldest returns when the kept history begins; the zero time if there is none.
func (s *Store) Oldest() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.files) == 0 {
		return time.Time{}
	}
	first := s.files[0].first
	for _, f := range s.files {
		first = min(first, f.first)
	}
	return time.UnixMilli(first)
}
