package trust

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
)

const maxKey = 16 << 10 // bytes of a key's file

const (
	publicBlock  = "PUBLIC KEY"
	privateBlock = "PRIVATE KEY"
)

// Key is a public key.
type Key struct {
	ID   string // 32 hexadecimal digits
	File string // file of the key, or ""

	public crypto.PublicKey // an ed25519.PublicKey, or an *ecdsa.PublicKey on P-256
}

// String returns the ID of the key, and its file.
func (k Key) String() string {
	if k.File == "" {
		return k.ID
	}
	return k.ID + " (" + k.File + ")"
}

// PEM returns the key in the format of [ReadKeys].
func (k Key) PEM() []byte {
	der, _ := x509.MarshalPKIXPublicKey(k.public) // cannot fail: newKey has called it
	return pem.EncodeToMemory(&pem.Block{Type: publicBlock, Bytes: der})
}

// ReadKeys reads PEM files, each with a public key. It returns an error if other users can change or
// replace a file.
func ReadKeys(files []string) (keys []Key, err error) {
	for _, file := range files {
		var key Key
		data, keyErr := readFile(file, maxKey, onlyOurs(file))
		if keyErr != nil {
			keyErr = fmt.Errorf("key: %w", keyErr)
		} else {
			key, keyErr = ParseKey(file, data)
		}
		err = errors.Join(err, keyErr)
		keys = append(keys, key)
	}
	return keys, err
}

// ParseKey parses a public key in PEM. file is used in errors and for [Key.File].
func ParseKey(file string, data []byte) (Key, error) {
	key, err := parseKey(data)
	if err != nil {
		return Key{}, fmt.Errorf("key %s: %w", file, err)
	}
	key.File = file
	return key, nil
}

func parseKey(data []byte) (Key, error) {
	block, err := onlyBlock(data)
	switch {
	case err != nil:
		return Key{}, err
	case strings.HasSuffix(block.Type, privateBlock):
		return Key{}, errors.New("a private key, which must be kept secret; a public key is needed")
	case block.Type != publicBlock:
		return Key{}, fmt.Errorf("the PEM block is %.40q, must be %q", block.Type, publicBlock)
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return Key{}, err
	}
	return newKey(public)
}

// onlyBlock returns the only PEM block in data.
func onlyBlock(data []byte) (*pem.Block, error) {
	block, rest := pem.Decode(data)
	if block == nil {
		return nil, errors.New("no PEM block")
	}
	if more, _ := pem.Decode(rest); more != nil {
		return nil, errors.New("more than one PEM block; a file must have one key")
	}
	return block, nil
}

func newKey(public crypto.PublicKey) (Key, error) {
	switch key := public.(type) {
	case ed25519.PublicKey:
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() {
			return Key{}, fmt.Errorf("an ECDSA key on %s, must be on P-256, or an Ed25519 key", key.Params().Name)
		}
	default:
		return Key{}, fmt.Errorf("a key of type %T, must be Ed25519, or ECDSA on P-256", public)
	}
	der, err := x509.MarshalPKIXPublicKey(public) // the same for each encoding of a key
	if err != nil {
		return Key{}, err
	}
	sum := sha256.Sum256(der)
	return Key{ID: hex.EncodeToString(sum[:16]), public: public}, nil
}

// PrivateKey is a key that signs.
type PrivateKey struct {
	Key     // the public half
	private ed25519.PrivateKey
}

// Generate returns a new key.
func Generate() (PrivateKey, error) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return PrivateKey{}, err
	}
	return newPrivateKey(private)
}

func newPrivateKey(private ed25519.PrivateKey) (PrivateKey, error) {
	public, err := newKey(private.Public())
	return PrivateKey{Key: public, private: private}, err
}

// ReadPrivateKey reads a private key from a PEM file. It returns an error if other users can access
// the file.
func ReadPrivateKey(file string) (PrivateKey, error) {
	var mode os.FileMode
	data, err := readFile(file, maxKey, func(info os.FileInfo) error {
		mode = permissions(info)
		return nil
	})
	if err != nil {
		return PrivateKey{}, fmt.Errorf("key: %w", err)
	}
	key, err := parsePrivateKey(data)
	if err != nil {
		return PrivateKey{}, fmt.Errorf("key %s: %w", file, err)
	}
	if mode&0o077 != 0 {
		return PrivateKey{}, fmt.Errorf("key: %s has the mode %04o: others than its owner may use it", file, mode)
	}
	key.File = file
	return key, nil
}

func parsePrivateKey(data []byte) (PrivateKey, error) {
	block, err := onlyBlock(data)
	switch {
	case err != nil:
		return PrivateKey{}, err
	case strings.Contains(block.Type, "ENCRYPTED"):
		return PrivateKey{}, errors.New("the key is encrypted; cosign's keys sign with cosign")
	case block.Type != privateBlock:
		return PrivateKey{}, fmt.Errorf("the PEM block is %.40q, must be %q", block.Type, privateBlock)
	}
	private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return PrivateKey{}, errors.New("not a private key in PKCS #8") // without the cause, which may have parts of the key
	}
	key, ok := private.(ed25519.PrivateKey)
	if !ok {
		return PrivateKey{}, fmt.Errorf("a key of type %T, must be Ed25519", private)
	}
	return newPrivateKey(key)
}

// Write writes the private key to a new file, which only its owner can read.
func (k PrivateKey) Write(file string) error {
	der, err := x509.MarshalPKCS8PrivateKey(k.private)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = pem.Encode(f, &pem.Block{Type: privateBlock, Bytes: der})
	if err = cmp.Or(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	return nil
}
