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
	"slices"
	"sync"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/internal/outbound"
	"github.com/daeace23/prober/internal/regular"
)

// maxFile is the maximum size of a file, in bytes.
const maxFile = 1 << 20

// Entry names the files of credentials.
type Entry = config.Credentials

// Store has the credentials of prober.yaml. The zero value has none. It is safe for concurrent use.
type Store struct {
	mu    sync.Mutex
	file  string            // prober.yaml
	named map[string]*named // by name
}

// named are the credentials of a name, and their files.
type named struct {
	config.Credentials
	files *outbound.TLS
}

// Set replaces all credentials by all, the ones of the prober.yaml file.
func (s *Store) Set(file string, all []config.Credentials) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.named
	s.named = make(map[string]*named, len(all))
	for _, c := range all {
		next := &named{c, &outbound.TLS{
			CA: c.CA, Cert: c.Cert, Key: c.Key, ServerName: c.ServerName, Insecure: c.Insecure,
			ReadFile: func(path string) ([]byte, error) { return regular.Read(config.Beside(file, path), maxFile) },
		}}
		if n, ok := old[c.Name]; ok && file == s.file && c.SameFiles(&n.Credentials) {
			next.files = n.files // with the contents that were last read
		}
		s.named[c.Name] = next
	}
	s.file = file
}

// TLS returns the credentials called name for a plugin. The error is [fs.ErrPermission] if prober.yaml
// has no such name, or does not allow the plugin to use it. While a certificate and its key do not match,
// as in the middle of a renewal, TLS returns the previous pair. It returns any other error at once, for
// example if a file is missing.
func (s *Store) TLS(plugin, name string) (*tls.Config, error) {
	s.mu.Lock()
	n := s.named[name]
	s.mu.Unlock()
	if n == nil || !slices.Contains(n.Plugins, plugin) {
		return nil, fs.ErrPermission
	}
	read, err := n.files.Config()
	switch e, ok := errors.AsType[*outbound.FileError](err); {
	case ok: // must not match ErrPermission, which has another meaning for TLS
		return nil, errors.New(e.Err.Error())
	case err != nil:
		return nil, fmt.Errorf("%s and %s: %w", n.Cert, n.Key, err)
	}
	return read, nil
}
