package trust

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/json"
	"errors"
	"fmt"
)

// bundle is what is read of cosign's bundles: its own format, and Sigstore's.
type bundle struct {
	Base64Signature  []byte `json:"base64Signature"`
	MessageSignature *struct {
		MessageDigest struct {
			Algorithm string `json:"algorithm"`
			Digest    []byte `json:"digest"`
		} `json:"messageDigest"`
		Signature []byte `json:"signature"`
	} `json:"messageSignature"`
	Envelope *envelope `json:"dsseEnvelope"`
}

// parseCosign returns the signature that `cosign sign-blob` wrote, as base64 or as a
// bundle. message is what it should be of.
func parseCosign(data, message []byte) ([]byte, error) {
	data = bytes.TrimSpace(data)
	if !bytes.HasPrefix(data, []byte("{")) {
		signature, err := base64Text.DecodeString(string(data))
		if err != nil || len(signature) == 0 {
			return nil, errors.New("a signature neither of prober's nor of cosign's")
		}
		return signature, nil
	}
	var b bundle
	if err := json.Unmarshal(data, &b); err != nil {
		return nil, fmt.Errorf("no bundle of cosign's: %w", err)
	}
	switch {
	case b.Envelope != nil:
		return nil, errors.New("a bundle with an attestation; want one with a signature, as cosign sign-blob writes it")
	case (b.MessageSignature == nil) == (len(b.Base64Signature) == 0):
		return nil, errors.New("a bundle must have one signature, as base64Signature or messageSignature")
	case b.MessageSignature == nil:
		return b.Base64Signature, nil
	}
	sum, named := sha256.Sum256(message), b.MessageSignature.MessageDigest
	if named.Algorithm == "SHA2_256" && !bytes.Equal(named.Digest, sum[:]) {
		return nil, fmt.Errorf("a bundle of sha256:%x, and this is sha256:%x", named.Digest, sum)
	}
	if len(b.MessageSignature.Signature) == 0 {
		return nil, errors.New("a bundle with no signature")
	}
	return b.MessageSignature.Signature, nil
}

// verifies reports whether signature is k's of message, in the ways that cosign signs.
func (k Key) verifies(message, signature []byte) bool {
	switch public := k.public.(type) {
	case ed25519.PublicKey:
		// What prober signs is a text of its own. It is nobody's module, and must not
		// pass for one in the other format.
		if bytes.HasPrefix(message, []byte(headerOf)) {
			return false
		}
		sum := sha512.Sum512(message)
		return ed25519.Verify(public, message, signature) ||
			ed25519.VerifyWithOptions(public, sum[:], signature, &ed25519.Options{Hash: crypto.SHA512}) == nil
	case *ecdsa.PublicKey:
		sum := sha256.Sum256(message)
		return ecdsa.VerifyASN1(public, sum[:], signature)
	}
	return false
}

// signerOf returns the key of keys that signature of message is of.
func signerOf(keys []Key, message, signature []byte) (Key, bool) {
	for _, k := range keys {
		if k.verifies(message, signature) {
			return k, true
		}
	}
	return Key{}, false
}

// errNoKey means that a signature is none of any key that is trusted. Which key made it
// is not known: cosign does not say.
var errNoKey = errors.New("no trusted key verifies it")
