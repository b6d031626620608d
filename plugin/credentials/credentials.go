// Package credentials gives plugins the TLS credentials of prober.yaml by name: a client
// certificate, authorities and a server name. No guest sees the files.
//
// Read [Store.TLS] first. It reads the files again when they have changed.
package credentials

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/internal/outbound"
	"github.com/daeace23/prober/internal/regular"
)

// maxFile is the most bytes of a file.
const maxFile = 1 << 20

// Entry names the files of credentials.
type Entry = config.Credentials

// Store has the credentials of prober.yaml. The zero value has none. It is safe for concurrent use.
type Store struct {
	mu    sync.Mutex
	file  string // prober.yaml
	named []config.Credentials
	last  map[string]loaded // by name
}

// loaded is what was last read of the files of credentials.
type loaded struct {
	entry config.Credentials
	files *outbound.Loaded
}

// Set replaces all credentials by those of file, a prober.yaml.
func (s *Store) Set(file string, named []config.Credentials) {
	s.mu.Lock()
	defer s.mu.Unlock()
	moved := file != s.file
	s.file, s.named = file, slices.Clone(named)
	maps.DeleteFunc(s.last, func(name string, l loaded) bool {
		entry, ok := s.findLocked(name)
		return moved || !ok || !entry.SameFiles(&l.entry)
	})
}

func (s *Store) findLocked(name string) (config.Credentials, bool) {
	i := slices.IndexFunc(s.named, func(c config.Credentials) bool { return c.Name == name })
	if i < 0 {
		return config.Credentials{}, false
	}
	return s.named[i], true
}

// TLS returns the credentials of a name for a plugin. The error is [fs.ErrPermission] if prober.yaml
// has no such name, or does not let the plugin use it. While a certificate and its key do not belong
// together, as in the middle of a renewal, TLS returns those that it has read before. Any other error
// is returned at once: a file that is gone is no longer used.
func (s *Store) TLS(plugin, name string) (*tls.Config, error) {
	s.mu.Lock()
	file, last := s.file, s.last[name]
	entry, ok := s.findLocked(name)
	s.mu.Unlock()
	if !ok || !slices.Contains(entry.Plugins, plugin) {
		return nil, fs.ErrPermission
	}
	next, err := read(file, entry, last) // without the lock: a file may be on a host that does not answer
	if err != nil {
		return nil, err
	}
	if next.files != last.files {
		s.keep(file, next)
	}
	return next.files.Config, nil
}

// keep keeps what was read, unless Set has replaced its entry since.
func (s *Store) keep(file string, next loaded) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, ok := s.findLocked(next.entry.Name); !ok || file != s.file || !now.SameFiles(&next.entry) {
		return
	}
	if s.last == nil {
		s.last = make(map[string]loaded)
	}
	s.last[next.entry.Name] = next
}

// read reads the files of an entry, beside file. If they are those of last, it returns last. The zero
// last stands for none.
func read(file string, entry config.Credentials, last loaded) (loaded, error) {
	files := outbound.TLS{
		CA: entry.CA, Cert: entry.Cert, Key: entry.Key, ServerName: entry.ServerName, Insecure: entry.Insecure,
		ReadFile: func(path string) ([]byte, error) { return regular.Read(config.Beside(file, path), maxFile) },
	}
	next, err := files.Load(last.files)
	switch e, ok := errors.AsType[*outbound.FileError](err); {
	case ok: // which must not be taken for ErrPermission of TLS
		return loaded{}, errors.New(e.Err.Error())
	case err != nil:
		return loaded{}, fmt.Errorf("%s and %s: %w", entry.Cert, entry.Key, err)
	}
	return loaded{entry, next}, nil
}
