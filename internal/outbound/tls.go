package outbound

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	"github.com/daeace23/prober/internal/regular"
)

// maxFile is the most bytes of a file.
const maxFile = 1 << 20

// TLS has the settings of TLS for connections that prober makes. The zero value trusts the authorities of the
// system.
type TLS struct {
	// CA is a file with the authorities to trust instead, in PEM.
	CA string
	// Cert and Key are files with a client certificate and its key, in PEM.
	Cert, Key string
	// ServerName replaces the name that the certificate of the server must have; "" is that of the host.
	ServerName string
	// Insecure verifies no certificate.
	Insecure bool
	// ReadFile reads a file; nil reads regular files of at most 1 MiB.
	ReadFile func(path string) ([]byte, error)
}

// Loaded is what the files of a TLS have.
type Loaded struct {
	Config *tls.Config // read-only
	texts  [3][]byte   // of CA, Cert and Key
}

// FileError is the error of a file that a setting names.
type FileError struct {
	Field string // ca, cert, key or bearerTokenFile
	Err   error
}

// Error returns the error with the field.
func (e *FileError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap returns the error inside.
func (e *FileError) Unwrap() error { return e.Err }

// Load reads the files, and returns last if it has the same; last may be nil. While a certificate and its key do
// not belong together, as in the middle of a renewal, the certificate of last is used. Without one, the error is that
// of [tls.X509KeyPair]. All others are a [*FileError].
func (t *TLS) Load(last *Loaded) (*Loaded, error) {
	next := &Loaded{Config: &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, InsecureSkipVerify: t.Insecure}}
	for i, file := range [3]struct{ field, path string }{{"ca", t.CA}, {"cert", t.Cert}, {"key", t.Key}} {
		if file.path == "" {
			continue
		}
		var err error
		if next.texts[i], err = t.read(file.path); err != nil {
			return nil, &FileError{file.field, err}
		}
	}
	if last != nil && slices.EqualFunc(next.texts[:], last.texts[:], bytes.Equal) {
		return last, nil
	}
	if t.CA != "" {
		var err error
		if next.Config.RootCAs, err = Authorities(next.texts[0]); err != nil {
			return nil, &FileError{"ca", fmt.Errorf("%s has %w", t.CA, err)}
		}
	}
	if t.Cert == "" {
		return next, nil
	}
	pair, err := tls.X509KeyPair(next.texts[1], next.texts[2])
	switch {
	case err == nil:
		next.Config.Certificates = []tls.Certificate{pair}
	case last != nil: // the authorities are those of now
		next.Config.Certificates = last.Config.Certificates
	default:
		return nil, err
	}
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
