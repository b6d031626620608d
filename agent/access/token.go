package access

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/daeace23/prober/internal/ownership"
	"github.com/daeace23/prober/internal/regular"
)

// TokenHeader is the header for the token if the Authorization header has the password of a user of the web
// config.
const TokenHeader = "X-Prober-Token"

const (
	minToken = 16
	maxToken = 4096
)

var errWrongToken = errors.New("the token is not the agent's")

// Token is the secret that allows actions over TCP.
type Token struct {
	path  string // of the file that has it; "": value
	value string
}

// NewToken returns a random token.
func NewToken() *Token { return &Token{value: rand.Text()} }

// TokenFile returns the token in the file at path, which must be private to its owner. The file is read again
// for each request that needs the token.
func TokenFile(path string) (*Token, error) {
	t := &Token{path: path}
	_, err := t.Read()
	return t, err
}

// Value returns the token created by [NewToken]; "" if the token is in a file.
func (t *Token) Value() string { return t.value }

// Read returns the token.
func (t *Token) Read() (string, error) {
	if t.path == "" {
		return t.value, nil
	}
	data, err := readPrivate(t.path)
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	text := strings.TrimSpace(string(data))
	if len(text) < minToken {
		return "", fmt.Errorf("token file %s: has %d characters, must have at least %d", t.path, len(text), minToken)
	}
	return text, nil
}

// readPrivate reads a file, which must be private to its owner.
func readPrivate(path string) ([]byte, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = ownership.CheckSecret(path, info)
	}
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	if err == nil && len(data) > maxToken {
		err = fmt.Errorf("%s: %w", path, &regular.TooLargeError{Max: maxToken})
	}
	return data, err
}

// check returns an error unless given is the token. It compares in constant time.
func (t *Token) check(given string) error {
	want, err := t.Read()
	if err != nil {
		return err
	}
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(want))
	if subtle.ConstantTimeCompare(a[:], b[:]) != 1 {
		return errWrongToken
	}
	return nil
}

// tokenOf returns the token of r; "" if it has none. Tokens in URLs are ignored, as logs and browser
// histories have URLs.
func tokenOf(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	return r.Header.Get(TokenHeader)
}
