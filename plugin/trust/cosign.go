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

// bundle has the fields of both formats of bundles: cosign's own, and Sigstore's.
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

// parseCosign returns the signature in an output of `cosign sign-blob`, in base64 or in a bundle. It
// returns an error if a bundle has another digest than message.
func parseCosign(data, message []byte) ([]byte, error) {
	data = bytes.TrimSpace(data)
	if !bytes.HasPrefix(data, []byte("{")) {
		signature, err := base64Text.DecodeString(string(data))
		if err != nil || len(signature) == 0 {
			return nil, errors.New("a signature of neither prober nor cosign")
		}
		return signature, nil
	}
	var b bundle
	if err := json.Unmarshal(data, &b); err != nil {
		return nil, fmt.Errorf("not a bundle of cosign: %w", err)
	}
	switch {
	case b.Envelope != nil:
		return nil, errors.New("a bundle with an attestation, must be one with a signature, as cosign sign-blob writes it")
	case (b.MessageSignature == nil) == (len(b.Base64Signature) == 0):
		return nil, errors.New("a bundle must have one signature, as base64Signature or messageSignature")
	case b.MessageSignature == nil:
		return b.Base64Signature, nil
	}
	sum, named := sha256.Sum256(message), b.MessageSignature.MessageDigest
	if named.Algorithm == "SHA2_256" && !bytes.Equal(named.Digest, sum[:]) {
		return nil, fmt.Errorf("a bundle for sha256:%x, and this is sha256:%x", named.Digest, sum)
	}
	if len(b.MessageSignature.Signature) == 0 {
		return nil, errors.New("a bundle without a signature")
	}
	return b.MessageSignature.Signature, nil
}

// verifies reports whether k made this signature of message with cosign.
func (k Key) verifies(message, signature []byte) bool {
	switch public := k.public.(type) {
	case ed25519.PublicKey:
		// The text that prober signs must not be accepted as a module.
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

// signerOf returns the key in keys that signed message.
func signerOf(keys []Key, message, signature []byte) (Key, bool) {
	for _, k := range keys {
		if k.verifies(message, signature) {
			return k, true
		}
	}
	return Key{}, false
}

// errNoKey is the error for a signature that no trusted key made. A signature of cosign does not name
// its key.
var errNoKey = errors.New("no trusted key verifies it")
