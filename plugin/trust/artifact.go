package trust

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/daeace23/prober/plugin"
)

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

// envelope is the part of a Sigstore bundle with a statement about an artifact.
type envelope struct {
	Payload     []byte `json:"payload"`
	PayloadType string `json:"payloadType"`
	Signatures  []struct {
		Signature []byte `json:"sig"`
	} `json:"signatures"`
}

// The types of the statement that `cosign sign` makes about an artifact.
const (
	statementType = "application/vnd.in-toto+json"
	signPredicate = "https://sigstore.dev/cosign/sign/v1"
)

// inToto is a statement about artifacts.
type inToto struct {
	Type      string `json:"_type"`
	Predicate string `json:"predicateType"`
	Subjects  []struct {
		Digest map[string]string `json:"digest"`
	} `json:"subject"`
}

// errOther is the error for a bundle whose statement is not a signature, such as a provenance
// attestation.
var errOther = errors.New("not a signature")

// message returns the signed bytes of an envelope: the pre-authentication encoding of DSSE, which has
// the type and the payload, each with its length.
func (e *envelope) message() []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(e.PayloadType), e.PayloadType, len(e.Payload), e.Payload)
}

// signed returns the key that made s, and the digests in the signed payload.
func signed(keys []Key, s plugin.Signature) (Key, []string, error) {
	if s.Payload == nil {
		return signedBundle(keys, s.Data)
	}
	signature, err := parseCosign(s.Data, s.Payload)
	if err != nil {
		return Key{}, nil, err
	}
	key, ok := signerOf(keys, s.Payload, signature)
	if !ok {
		return Key{}, nil, errNoKey
	}
	var p simpleSigning
	if err := json.Unmarshal(s.Payload, &p); err != nil {
		return Key{}, nil, fmt.Errorf("key %s signed data that is not a payload of cosign: %w", key, err)
	}
	if p.Critical.Type != simpleSigningType {
		return Key{}, nil, fmt.Errorf("key %s signed a %.60q, must be a %q", key, p.Critical.Type, simpleSigningType)
	}
	return key, []string{p.Critical.Image.Digest}, nil
}

// signedBundle is [signed] for a Sigstore bundle.
func signedBundle(keys []Key, data []byte) (Key, []string, error) {
	var b bundle
	if err := json.Unmarshal(data, &b); err != nil {
		return Key{}, nil, fmt.Errorf("not a Sigstore bundle: %w", err)
	}
	if b.Envelope == nil {
		return Key{}, nil, errors.New("a bundle without a statement about an artifact, as cosign sign writes it")
	}
	var statement inToto
	err := json.Unmarshal(b.Envelope.Payload, &statement)
	if b.Envelope.PayloadType != statementType || err != nil || statement.Predicate != signPredicate {
		return Key{}, nil, errOther
	}
	for _, s := range b.Envelope.Signatures {
		if key, ok := signerOf(keys, b.Envelope.message(), s.Signature); ok {
			var digests []string
			for _, subject := range statement.Subjects {
				digests = append(digests, "sha256:"+subject.Digest["sha256"])
			}
			return key, digests, nil
		}
	}
	return Key{}, nil, errNoKey
}

// verifyArtifact returns the key that signed a pulled plugin. It checks each step from the key to the
// bytes.
func verifyArtifact(keys []Key, s plugin.Signature, f *plugin.Found) (Key, error) {
	key, digests, err := signed(keys, s)
	if err != nil {
		return Key{}, err
	}
	manifest := plugin.Digest(s.Artifact)
	if !slices.Contains(digests, manifest) {
		want := manifest
		if s.Index != nil {
			want = plugin.Digest(s.Index)
		}
		if !slices.Contains(digests, want) {
			return Key{}, fmt.Errorf("key %s signed the artifact %.80q, and this is %s", key, strings.Join(digests, ", "), want)
		}
		if err := checkListed("index", s.Index, "manifests", manifest); err != nil {
			return Key{}, fmt.Errorf("key %s signed %w", key, err)
		}
	}
	for _, digest := range []string{f.ModuleDigest(), f.Beside} {
		if digest == "" {
			continue
		}
		if err := checkListed("artifact", s.Artifact, "layers", digest); err != nil {
			return Key{}, fmt.Errorf("key %s signed %w", key, err)
		}
	}
	return key, nil
}

// checkListed returns an error unless the list of descriptors in a manifest has digest.
func checkListed(what string, manifest []byte, list, digest string) error {
	var lists map[string]json.RawMessage
	var all []struct {
		Digest string `json:"digest"`
	}
	err := json.Unmarshal(manifest, &lists)
	if err == nil && lists[list] != nil {
		err = json.Unmarshal(lists[list], &all)
	}
	if err != nil {
		return fmt.Errorf("an %s that cannot be read: the artifact's manifest: %w", what, err)
	}
	for _, d := range all {
		if d.Digest == digest {
			return nil
		}
	}
	return fmt.Errorf("an %s without the %s %s", what, strings.TrimSuffix(list, "s"), digest)
}
