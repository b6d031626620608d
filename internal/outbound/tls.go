package outbound

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/daeace23/prober/internal/regular"
)

// maxFile is the most bytes of a file.
const maxFile = 1 << 20

// TLS has the settings of TLS for connections that prober makes. The zero value trusts the authorities of the
// system. It is safe for concurrent use.
type TLS struct {
	// CA is a file with the authorities to trust, in PEM; "" for the authorities of the system.
	CA string
	// Cert and Key are files with a client certificate and its key, in PEM.
	Cert, Key string
	// ServerName is the name that the certificate of the server must have; "" for the name of the host.
	ServerName string
	// Insecure verifies no certificate.
	Insecure bool
	// ReadFile reads a file; nil reads regular files of at most 1 MiB.
	ReadFile func(path string) ([]byte, error)

	mu    sync.Mutex
	last  *tls.Config
	texts [3][]byte // of CA, Cert and Key, for last
}

// FileError is the error of a file that a setting names.
type FileError struct {
	Field string // ca, cert, key or bearerTokenFile
	Err   error
}

// Error returns the error with the field.
func (e *FileError) Error() string { return e.Field + ": " + e.Err.Error() }

// Config reads the files. It returns the same config, which is read-only, until they change. While a certificate
// and its key do not belong together, as in the middle of a renewal, the last ones are used. Without those, the error
// is the one of [tls.X509KeyPair]. All others are a [*FileError]: a file that is gone is no longer used.
func (t *TLS) Config() (*tls.Config, error) {
	var texts [3][]byte
	for i, file := range [3]FileError{{Field: "ca"}, {Field: "cert"}, {Field: "key"}} {
		path := [3]string{t.CA, t.Cert, t.Key}[i]
		if path == "" {
			continue
		}
		if texts[i], file.Err = t.read(path); file.Err != nil { // without the lock: a file may be on a host that does not answer
			return nil, &file
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last != nil && slices.EqualFunc(texts[:], t.texts[:], bytes.Equal) {
		return t.last, nil
	}
	next := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, InsecureSkipVerify: t.Insecure}
	var err error
	if t.CA != "" {
		if next.RootCAs, err = Authorities(texts[0]); err != nil {
			return nil, &FileError{"ca", fmt.Errorf("%s has %w", t.CA, err)}
		}
	}
	if t.Cert != "" {
		pair, err := tls.X509KeyPair(texts[1], texts[2])
		switch {
		case err == nil:
			next.Certificates = []tls.Certificate{pair}
		case t.last != nil: // with the new authorities
			next.Certificates = t.last.Certificates
		default:
			return nil, err
		}
	}
	t.last, t.texts = next, texts
	return next, nil
}

func (t *TLS) read(path string) ([]byte, error) {
	if t.ReadFile != nil {
		return t.ReadFile(path)
	}
	return regular.Read(path, maxFile)
}

// Authorities returns the certificates of text, in PEM. None is an error.
func Authorities(text []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("no certificate in PEM")
	}
	return pool, nil
}
