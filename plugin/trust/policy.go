package trust

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/daeace23/prober/plugin"
)

// Config configures a [Policy].
type Config struct {
	// Keys are the trusted keys. If it is empty, signatures are not checked.
	Keys []Key
	// Require refuses plugins that no trusted key has signed. It needs a key.
	Require bool
}

// Policy decides which plugins may be loaded. It is safe for concurrent use. A nil Policy
// accepts all.
type Policy struct {
	keys    []Key
	require bool
}

// New returns a policy.
func New(cfg Config) (*Policy, error) {
	if cfg.Require && len(cfg.Keys) == 0 {
		return nil, errors.New("signatures are required, and no key is trusted: no plugin could be loaded")
	}
	for i, k := range cfg.Keys {
		if k.public == nil {
			return nil, fmt.Errorf("key %d is empty", i)
		}
		if at := slices.IndexFunc(cfg.Keys[:i], func(other Key) bool { return other.ID == k.ID }); at >= 0 {
			return nil, fmt.Errorf("keys %s and %s are the same", cfg.Keys[at], k)
		}
	}
	return &Policy{cfg.Keys, cfg.Require}, nil
}

// State is the result of checking the signatures of a plugin.
type State string

// The states. UnknownKey is always refused, Unsigned only if signatures are required.
const (
	Unchecked  State = "unchecked"   // no key is trusted
	Signed     State = "signed"      // a trusted key has signed it
	UnknownKey State = "unknown-key" // only other keys have signed it
	Unsigned   State = "unsigned"
)

// Verdict is the result of [Policy.Check].
type Verdict struct {
	State   State
	Signers []Key    // trusted keys that have signed
	Unknown []string // IDs of other keys in the signature files
}

// Signer returns the ID of the first trusted key that has signed, or "".
func (v Verdict) Signer() string {
	if len(v.Signers) == 0 {
		return ""
	}
	return v.Signers[0].ID
}

// String returns v as a phrase, such as "signed by …" or "not signed".
func (v Verdict) String() string {
	switch v.State {
	case Signed:
		return "signed by " + joinKeys(v.Signers)
	case UnknownKey:
		return "signed by " + strings.Join(v.Unknown, ", ") + ", which is not trusted"
	case Unsigned:
		return "not signed"
	}
	return "not checked"
}

// Refusal is the error of a plugin that may not be loaded.
type Refusal struct {
	Path   string // path of the plugin
	State  State  // "" for a wrong signature
	Reason string
	Keys   []Key // the trusted keys
}

// Error returns one line with the path, the reason and the trusted keys.
func (r *Refusal) Error() string {
	return fmt.Sprintf("%s: %s; trusted keys: %s", r.Path, r.Reason, joinKeys(r.Keys))
}

func joinKeys(keys []Key) string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.String()
	}
	return strings.Join(names, ", ")
}

// Check decides whether the plugin in f.Module may be loaded. It checks f.Signatures or, if they are
// nil, the signatures in the files beside f.Path. It returns a [*Refusal] if a signature is wrong, if
// only unknown keys have signed the plugin, or if the plugin is unsigned and signatures are required.
func (p *Policy) Check(f plugin.Found) (Verdict, error) {
	if p == nil || len(p.keys) == 0 {
		return Verdict{State: Unchecked}, nil
	}
	signatures := f.Signatures
	if signatures == nil {
		signatures = signaturesBeside(f.Path)
	}
	e := examination{keys: p.keys, found: &f, Verdict: Verdict{State: Unsigned}}
	for _, s := range signatures {
		e.check(s)
	}
	if len(e.Signers) > 0 {
		e.State = Signed
	} else if len(e.Unknown) > 0 {
		e.State = UnknownKey
	}
	refusal := &Refusal{Path: f.Path, Keys: p.keys}
	switch {
	case e.wrong != "":
		refusal.Reason = e.wrong
	case e.State == Signed:
		return e.Verdict, nil
	case e.unmatched != "":
		refusal.Reason = e.unmatched
	case e.State == UnknownKey:
		refusal.State, refusal.Reason = e.State, e.String()
	case p.require:
		refusal.State, refusal.Reason = e.State, e.String()+", and trust.require is set"
	default:
		return e.Verdict, nil
	}
	return Verdict{}, refusal
}

// examination is a check of the signatures of a plugin.
type examination struct {
	keys  []Key
	found *plugin.Found

	Verdict
	wrong     string // reason for which the first wrong signature is wrong
	unmatched string // message about the first signature that no key of keys made
}

// check checks one signature.
func (e *examination) check(s plugin.Signature) {
	err := s.Err
	if err == nil {
		err = e.verify(s)
	}
	switch {
	case errors.Is(err, errOther):
	case errors.Is(err, errNoKey) && e.unmatched == "":
		e.unmatched = fmt.Sprintf("%s: %v", s.From, err)
	case err != nil && !errors.Is(err, errNoKey) && e.wrong == "":
		e.wrong = fmt.Sprintf("%s: %v", s.From, err)
	}
}

func (e *examination) verify(s plugin.Signature) error {
	if strings.HasPrefix(string(s.Data), headerOf) && s.Payload == nil && s.Artifact == nil {
		return e.lines(s.Data)
	}
	verify := e.verifyBlob
	if s.Payload != nil || s.Artifact != nil {
		verify = func(s plugin.Signature) (Key, error) { return verifyArtifact(e.keys, s, e.found) }
	}
	key, err := verify(s)
	if err == nil {
		e.sign(key)
	}
	return err
}

// verifyBlob returns the key with which cosign signed the module.
func (e *examination) verifyBlob(s plugin.Signature) (Key, error) {
	signature, err := parseCosign(s.Data, e.found.Module)
	if err != nil {
		return Key{}, err
	}
	key, ok := signerOf(e.keys, e.found.Module, signature)
	switch {
	case !ok:
		return Key{}, errNoKey
	case e.found.Beside != "":
		return Key{}, fmt.Errorf("key %s signed the module only, and its manifest is in a file beside it", key)
	}
	return key, nil
}

// lines checks a signature file of prober.
func (e *examination) lines(data []byte) error {
	if len(data) > maxSignature {
		return fmt.Errorf("more than %d bytes", maxSignature)
	}
	lines, err := parse(data)
	if err != nil {
		return err
	}
	message := statement(e.found)
	for _, l := range lines {
		at := slices.IndexFunc(e.keys, func(k Key) bool { return k.ID == l.keyID })
		if at < 0 {
			e.Unknown = append(e.Unknown, l.keyID)
			continue
		}
		public, ok := e.keys[at].public.(ed25519.PublicKey)
		if !ok {
			return fmt.Errorf("key %s is not an Ed25519 key", e.keys[at])
		}
		if !ed25519.Verify(public, message, l.signature) {
			return fmt.Errorf("the signature of key %s is not of this plugin, %s", e.keys[at], e.subject())
		}
		e.sign(e.keys[at])
	}
	return nil
}

// subject returns the digests that a signature must cover, as text.
func (e *examination) subject() string {
	text := e.found.ModuleDigest()
	if e.found.Beside != "" {
		text += " with the manifest " + e.found.Beside
	}
	return text
}

func (e *examination) sign(key Key) {
	if !slices.ContainsFunc(e.Signers, func(k Key) bool { return k.ID == key.ID }) {
		e.Signers = append(e.Signers, key)
	}
}
