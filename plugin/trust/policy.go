package trust

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/daeace23/prober/plugin"
)

// Config is whom an operator trusts.
type Config struct {
	// Keys are the keys whose signatures count. Without any, signatures are not looked
	// at.
	Keys []Key
	// Require refuses plugins that no key has signed. It needs a key.
	Require bool
}

// Policy says which plugins may be loaded. It is safe for concurrent use. A nil Policy
// asks for nothing.
type Policy struct {
	keys    []Key
	require bool
}

// New returns a policy. Its error tells of keys that make no sense together.
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
	return &Policy{keys: slices.Clone(cfg.Keys), require: cfg.Require}, nil
}

// ReadKeys reads files of public keys.
func ReadKeys(files []string) (keys []Key, err error) {
	for _, file := range files {
		key, keyErr := ReadKey(file)
		err = errors.Join(err, keyErr)
		keys = append(keys, key)
	}
	return keys, err
}

// State is what is known of a plugin's signature.
type State string

// The states. A plugin that only unknown keys have signed is never loaded, and one that
// nobody has signed is where signatures are not required.
const (
	Unchecked  State = "unchecked"   // no key is trusted, so nothing was looked at
	Signed     State = "signed"      // by a key that is trusted
	UnknownKey State = "unknown-key" // by others only
	Unsigned   State = "unsigned"
)

// Verdict is what [Policy.Check] found.
type Verdict struct {
	State   State
	Signers []Key    // that are trusted, and have signed
	Unknown []string // ids of keys that say that they have, and are not trusted
}

// Signer returns the id of the first key that vouches for the plugin, or "".
func (v Verdict) Signer() string {
	if len(v.Signers) == 0 {
		return ""
	}
	return v.Signers[0].ID
}

// String says in words what was found.
func (v Verdict) String() string {
	switch v.State {
	case Signed:
		names := make([]string, len(v.Signers))
		for i, k := range v.Signers {
			names[i] = k.String()
		}
		return "signed by " + strings.Join(names, ", ")
	case UnknownKey:
		return "signed by " + strings.Join(v.Unknown, ", ") + ", which is not trusted"
	case Unsigned:
		return "not signed"
	}
	return "not checked"
}

// Refusal is the error of a plugin that may not be loaded.
type Refusal struct {
	Path   string // of the plugin
	State  State  // "" for a signature that is wrong
	Reason string
	Keys   []Key // that are trusted
}

// Error returns one line.
func (r *Refusal) Error() string {
	names := make([]string, len(r.Keys))
	for i, k := range r.Keys {
		names[i] = k.String()
	}
	return fmt.Sprintf("%s: %s; trusted keys: %s", r.Path, r.Reason, strings.Join(names, ", "))
}

// Check decides about the plugin in f.Module, whatever the file at f.Path holds by now.
// Without f.Signatures those in the files beside f.Path count. The error of a plugin that
// may not be loaded is a [*Refusal]: one with a signature that is wrong, or that only
// unknown keys have signed, and where signatures are required one that nobody has.
func (p *Policy) Check(f plugin.Found) (Verdict, error) {
	if p == nil || len(p.keys) == 0 {
		return Verdict{State: Unchecked}, nil
	}
	signatures := f.Signatures
	if signatures == nil {
		signatures = beside(f.Path)
	}
	e := examination{keys: p.keys, found: &f}
	for _, s := range signatures {
		e.look(s)
	}
	v := e.verdict()
	switch {
	case e.wrong != "":
		return Verdict{}, p.refuse(f, "", e.wrong)
	case v.State != Signed && e.unmatched != "":
		return Verdict{}, p.refuse(f, "", e.unmatched)
	case v.State == UnknownKey:
		return Verdict{}, p.refuse(f, v.State, v.String())
	case v.State != Signed && p.require:
		return Verdict{}, p.refuse(f, v.State, v.String()+", and trust.require is set")
	}
	return v, nil
}

func (p *Policy) refuse(f plugin.Found, state State, reason string) error {
	return &Refusal{Path: f.Path, State: state, Reason: reason, Keys: p.keys}
}

// examination gathers what a plugin's signatures say.
type examination struct {
	keys  []Key
	found *plugin.Found

	signers   []Key
	unknown   []string
	wrong     string // why a signature is wrong, of the first one that is
	unmatched string // the same of one that may be another's
}

// look takes one signature into account.
func (e *examination) look(s plugin.Signature) {
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

// verifyBlob returns the key that cosign signed the module with.
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

// lines takes a signature file of prober's into account.
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
			e.unknown = append(e.unknown, l.keyID)
			continue
		}
		public, ok := e.keys[at].public.(ed25519.PublicKey)
		if !ok {
			return fmt.Errorf("key %s is no Ed25519 key", e.keys[at])
		}
		if !ed25519.Verify(public, message, l.signature) {
			return fmt.Errorf("the signature of key %s is not of this plugin, %s", e.keys[at], e.subject())
		}
		e.sign(e.keys[at])
	}
	return nil
}

// subject names what should have been signed.
func (e *examination) subject() string {
	text := plugin.Digest(e.found.Module)
	if e.found.Beside != "" {
		text += " with the manifest " + e.found.Beside
	}
	return text
}

func (e *examination) sign(key Key) {
	if !slices.ContainsFunc(e.signers, func(k Key) bool { return k.ID == key.ID }) {
		e.signers = append(e.signers, key)
	}
}

func (e *examination) verdict() Verdict {
	v := Verdict{State: Unsigned, Signers: e.signers, Unknown: e.unknown}
	switch {
	case len(e.signers) > 0:
		v.State = Signed
	case len(e.unknown) > 0:
		v.State = UnknownKey
	}
	return v
}
