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

// maxFile is the maximum size of a file in bytes.
const maxFile = 1 << 20

// TLS has the TLS settings of prober's own connections. The zero value trusts the system's authorities. It is safe
// for concurrent use.
type TLS struct {
	// CA is a file with the trusted authorities in PEM; "" for the system's authorities.
	CA string
	// Cert and Key are files with a client certificate and its key, in PEM.
	Cert, Key string
	// ServerName is the name that the server's certificate must have; "" for the host name.
	ServerName string
	// Insecure disables the verification of certificates.
	Insecure bool
	// ReadFile reads a file; nil reads regular files of at most 1 MiB.
	ReadFile func(path string) ([]byte, error)

	mu    sync.Mutex
	last  *tls.Config
	texts [3][]byte // contents of CA, Cert and Key for last
}

// FileError is the error of a file named by a setting.
type FileError struct {
	Field string // ca, cert, key or bearerTokenFile
	Err   error
}

// Error returns the error with the field.
func (e *FileError) Error() string { return e.Field + ": " + e.Err.Error() }

// Config reads the files. It returns the same read-only config until they change. While a certificate and its key do
// not match, as during a renewal, it keeps the last pair. Without a last pair, it returns the error of
// [tls.X509KeyPair]. All other errors are a [*FileError]. A missing file is an error too.
func (t *TLS) Config() (*tls.Config, error) {
	var texts [3][]byte
	for i, file := range [3]FileError{{Field: "ca"}, {Field: "cert"}, {Field: "key"}} {
		path := [3]string{t.CA, t.Cert, t.Key}[i]
		if path == "" {
			continue
		}
		if texts[i], file.Err = t.read(path); file.Err != nil { // without the lock: a network file system may hang
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
		case t.last != nil: // use the new authorities with the last pair
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

// Authorities returns the certificates in text, which is PEM. No certificate is an error.
func Authorities(text []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("no certificate in PEM")
	}
	return pool, nil
}
