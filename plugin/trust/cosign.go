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

	"github.com/daeace23/prober/plugin"
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
	Envelope json.RawMessage `json:"dsseEnvelope"`
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

// simpleSigning is the payload that cosign signs for an artifact.
type simpleSigning struct {
	Critical struct {
		Image struct {
			Digest string `json:"docker-manifest-digest"`
		} `json:"image"`
		Type string `json:"type"`
	} `json:"critical"`
}

const simpleSigningType = "cosign container image signature"

// VerifyPayload verifies the signature that cosign made of an OCI artifact, and returns
// the key that made it. payload is the layer that cosign pushed, signature what that
// layer's annotation dev.cosignproject.cosign/signature holds once decoded, and digest
// that of the artifact's manifest.
func VerifyPayload(keys []Key, payload, signature []byte, digest string) (Key, error) {
	key, ok := signerOf(keys, payload, signature)
	if !ok {
		return Key{}, errNoKey
	}
	var p simpleSigning
	if err := json.Unmarshal(payload, &p); err != nil {
		return Key{}, fmt.Errorf("what key %s signed is no payload of cosign's: %w", key, err)
	}
	if p.Critical.Type != simpleSigningType {
		return Key{}, fmt.Errorf("what key %s signed is a %.60q; want a %q", key, p.Critical.Type, simpleSigningType)
	}
	if p.Critical.Image.Digest != digest {
		return Key{}, fmt.Errorf("key %s signed the artifact %.80q, and this is %s", key, p.Critical.Image.Digest, digest)
	}
	return key, nil
}

// errNoKey means that a signature is none of any key that is trusted. Which key made it
// is not known: cosign does not say.
var errNoKey = errors.New("no trusted key verifies it")

// verifyArtifact follows the chain from a key to a module that was pulled.
func verifyArtifact(keys []Key, s plugin.Signature, digest string) (Key, error) {
	signature, err := parseCosign(s.Data, s.Payload)
	if err != nil {
		return Key{}, err
	}
	key, err := VerifyPayload(keys, s.Payload, signature, plugin.Digest(s.Artifact))
	if err != nil {
		return Key{}, err
	}
	var artifact struct {
		Layers []struct {
			Digest string `json:"digest"`
		} `json:"layers"`
	}
	if err := json.Unmarshal(s.Artifact, &artifact); err != nil {
		return Key{}, fmt.Errorf("the artifact's manifest: %w", err)
	}
	for _, layer := range artifact.Layers {
		if layer.Digest == digest {
			return key, nil
		}
	}
	return Key{}, fmt.Errorf("key %s signed an artifact that has no layer %s", key, digest)
}
