package trust_test

import (
	"crypto"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/trust"
)

func base64ed(data []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(data) + "\n") }

func messageBundle(t testing.TB, message, signature []byte) []byte {
	t.Helper()
	sum := sha256.Sum256(message)
	data, err := json.Marshal(map[string]any{
		"mediaType":            "application/vnd.dev.sigstore.bundle.v0.3+json",
		"verificationMaterial": map[string]any{"publicKey": map[string]any{"hint": "any"}},
		"messageSignature": map[string]any{
			"messageDigest": map[string]any{"algorithm": "SHA2_256", "digest": sum[:]}, "signature": signature,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestCheckCosign(t *testing.T) {
	f := found(module(t, "one"))
	ec := ecdsaKey(t, elliptic.P256())
	_, ed, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha512.Sum512(f.Module)
	hashed, err := ed.Sign(nil, sum[:], &ed25519.Options{Hash: crypto.SHA512})
	if err != nil {
		t.Fatal(err)
	}
	signature := ecdsaSign(t, ec, f.Module)
	own, err := json.Marshal(map[string]any{"base64Signature": signature, "cert": "ignored", "rekorBundle": map[string]any{}})
	if err != nil {
		t.Fatal(err)
	}
	ecKey, edKey := public(t, "cosign.pub", &ec.PublicKey), public(t, "ed.pub", ed.Public())
	for _, c := range []struct {
		name string
		key  trust.Key
		data []byte
	}{
		{"ECDSA", ecKey, base64ed(signature)},
		{"cosign's bundle", ecKey, own},
		{"Sigstore's bundle", ecKey, messageBundle(t, f.Module, signature)},
		{"Ed25519", edKey, base64ed(ed25519.Sign(ed, f.Module))},
		{"Ed25519ph", edKey, base64ed(hashed)},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := check(t, true, []trust.Key{ecKey, edKey}, f, from("demo.wasm.cosign.sig", c.data))
			if err != nil || v.Signer() != c.key.ID || v.String() != "signed by "+c.key.String() {
				t.Errorf("got %v, %v; want %s", v, err, c.key)
			}
			_, err = check(t, false, []trust.Key{private(t).Key}, f, from("demo.wasm.cosign.sig", c.data))
			refused(t, err, "demo.wasm.cosign.sig: no trusted key verifies it")
			beside := f
			beside.Beside = plugin.Digest([]byte(manifest))
			_, err = check(t, false, []trust.Key{c.key}, beside, from("demo.wasm.cosign.sig", c.data))
			refused(t, err, "signed the module only")
		})
	}
	// A cosign signature of an unknown key does not affect a plugin that a trusted key has signed.
	key := private(t)
	v, err := check(t, true, []trust.Key{key.Key}, f, from("a", base64ed(signature)), from("b", sign(t, key, f, nil)))
	if err != nil || v.Signer() != key.ID {
		t.Errorf("got %v, %v", v, err)
	}
}

// A signature in the format of cosign is invalid in the format of prober, and vice versa.
func TestCheckSignatureOfOtherFormatIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ops.key")
	key := private(t)
	if err := key.Write(file); err != nil {
		t.Fatal(err)
	}
	raw := readRaw(t, file)
	f := found(module(t, "one"))
	keys := []trust.Key{key.Key}
	sum := sha256.Sum256(f.Module)
	text := func(data []byte) []byte {
		return []byte("prober.dev/signature/v1\ned25519 " + key.ID + " " + base64.StdEncoding.EncodeToString(data) + "\n")
	}
	for _, c := range []struct {
		name   string
		signed []byte
	}{
		{"the module, as cosign signs", f.Module},
		{"its sum", sum[:]},
		{"its digest", []byte(f.Digest)},
		{"the statement without its prefix", []byte("module " + f.Digest + "\n")},
		{"the statement without its newline", []byte("prober.dev/signature/v1\nmodule " + f.Digest)},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := check(t, false, keys, f, from("demo.wasm.sig", text(ed25519.Sign(raw, c.signed))))
			refused(t, err, "is not of this plugin")
		})
	}
	t.Run("a plugin that reads like a statement", func(t *testing.T) {
		good := string(sign(t, key, f, nil))
		statement := found([]byte("prober.dev/signature/v1\nmodule " + f.Digest + "\n"))
		signature := good[strings.LastIndex(good, " ")+1:]
		_, err := check(t, false, keys, statement, from("demo.wasm.cosign.sig", []byte(signature)))
		refused(t, err, "no trusted key verifies it")
	})
	t.Run("what the statement is", func(t *testing.T) { // as in the documentation for verifiers
		good := string(sign(t, key, f, nil))
		signature, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(good[strings.LastIndex(good, " ")+1:], "\n"))
		statement := "prober.dev/signature/v1\nmodule " + f.Digest + "\n"
		if err != nil || !ed25519.Verify(raw.Public().(ed25519.PublicKey), []byte(statement), signature) {
			t.Errorf("the signature is not of %q (%v)", statement, err)
		}
	})
}

func readRaw(t *testing.T, file string) ed25519.PrivateKey {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	raw, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return raw.(ed25519.PrivateKey)
}

// The key signs the payload. The payload names the manifest, and the manifest names the module.
func TestCheckArtifact(t *testing.T) {
	ec := ecdsaKey(t, elliptic.P256())
	key := public(t, "cosign.pub", &ec.PublicKey)
	f := found(module(t, "one"))
	artifact := []byte(`{"layers":[{"digest":"` + f.Digest + `"}]}`)
	payload := func(kind string, artifact []byte) []byte {
		return []byte(`{"critical":{"identity":{"docker-reference":"x"},"image":{"docker-manifest-digest":"` + plugin.Digest(artifact) + `"},"type":"` + kind + `"},"optional":null}`)
	}
	const kind = "cosign container image signature"
	good := payload(kind, artifact)
	signed := func(payload, artifact []byte) plugin.Signature {
		return plugin.Signature{From: "oci://r/x", Data: base64ed(ecdsaSign(t, ec, payload)), Payload: payload, Artifact: artifact}
	}
	v, err := check(t, true, []trust.Key{key}, f, signed(good, artifact))
	if err != nil || v.Signer() != key.ID {
		t.Errorf("got %v, %v", v, err)
	}
	elsewhere := []byte(`{"layers":[{"digest":"` + plugin.Digest(nil) + `"}]}`)
	moved := signed(good, artifact)
	moved.Payload = payload(kind, elsewhere)
	for _, c := range []struct {
		name, want string
		signature  plugin.Signature
	}{
		{"another artifact", `signed the artifact "` + plugin.Digest(artifact), signed(good, elsewhere)},
		{"an artifact of another module", "without the layer " + f.Digest, signed(payload(kind, elsewhere), elsewhere)},
		{"another payload", "no trusted key verifies it", moved},
		{"something else that cosign signed", `a "atomic container signature"`, signed(payload("atomic container signature", artifact), artifact)},
		{"no payload", "data that is not a payload of cosign", signed([]byte("text"), artifact)},
		{"no artifact", "signed the artifact", signed(good, nil)},
		{"a manifest that is none", "the artifact's manifest", signed(payload(kind, []byte("{")), []byte("{"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := check(t, false, []trust.Key{key}, f, c.signature)
			refused(t, err, c.want)
		})
	}
}
