package trust_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/trust"
)

const manifest = "apiVersion: prober.dev/v1\nkind: Plugin\nname: demo\nversion: 1.0.0\n"

// module returns a module with a manifest inside; different texts give different ones.
func module(t testing.TB, text string) []byte {
	t.Helper()
	m, err := plugin.Embed([]byte("\x00asm\x01\x00\x00\x00"), []byte(manifest+"description: "+text+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// private returns a new private key.
func private(t testing.TB) trust.PrivateKey {
	t.Helper()
	k, err := trust.Generate()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// public returns a key with the file name.
func public(t testing.TB, name string, key crypto.PublicKey) trust.Key {
	t.Helper()
	k, err := trust.ParseKey(name, publicPEM(t, key))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func publicPEM(t testing.TB, key crypto.PublicKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func ecdsaKey(t testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func ecdsaSign(t testing.TB, k *ecdsa.PrivateKey, message []byte) []byte {
	t.Helper()
	sum := sha256.Sum256(message)
	signature, err := ecdsa.SignASN1(rand.Reader, k, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return signature
}

func found(code []byte) plugin.Found {
	return plugin.Found{Path: "demo.wasm", Module: code, Digest: plugin.Digest(code), Manifest: plugin.Minimal("demo")}
}

func sign(t testing.TB, k trust.PrivateKey, f plugin.Found, others []byte) []byte {
	t.Helper()
	data, err := k.Sign(&f, others)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// check returns the verdict of a policy with keys about f with signatures.
func check(t testing.TB, require bool, keys []trust.Key, f plugin.Found, signatures ...plugin.Signature) (trust.Verdict, error) {
	t.Helper()
	p, err := trust.New(trust.Config{Keys: keys, Require: require})
	if err != nil {
		t.Fatal(err)
	}
	f.Signatures = append([]plugin.Signature{}, signatures...)
	return p.Check(f)
}

func from(name string, data []byte) plugin.Signature { return plugin.Signature{From: name, Data: data} }

// refused fails unless err is a refusal in one line that contains all of wants.
func refused(t *testing.T, err error, wants ...string) {
	t.Helper()
	if _, ok := errors.AsType[*trust.Refusal](err); !ok {
		t.Fatalf("got %v, want a refusal", err)
	}
	for _, want := range append(wants, "demo.wasm", "; trusted keys: ") {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q says nothing of %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%q has several lines", err)
	}
}
func TestCheckSigned(t *testing.T) {
	a, b := private(t), private(t)
	f := found(module(t, "one"))
	file := sign(t, b, f, sign(t, a, f, nil))
	for _, require := range []bool{false, true} {
		v, err := check(t, require, []trust.Key{a.Key}, f, from("demo.wasm.sig", file))
		if err != nil || v.State != trust.Signed || v.Signer() != a.ID {
			t.Errorf("require %v: got %v, %v", require, v, err)
		}
		if diff := cmp.Diff([]string{b.ID}, v.Unknown); diff != "" {
			t.Errorf("unknown keys (-want +got)\n%s", diff)
		}
	}
	v, err := check(t, true, []trust.Key{a.Key, b.Key}, f, from("demo.wasm.sig", file))
	if want := "signed by " + a.ID + ", " + b.ID; err != nil || v.String() != want {
		t.Errorf("got %q, %v; want %q", v, err, want)
	}
	if got := strings.Count(string(sign(t, a, f, file)), "\n"); got != 3 {
		t.Errorf("a second signature of the same key makes a file of %d lines, want 3", got)
	}
}

func TestCheckUnsigned(t *testing.T) {
	key, stranger, f := private(t), private(t), found(module(t, "one"))
	keys := []trust.Key{key.Key}

	v, err := check(t, false, keys, f)
	if err != nil || v.State != trust.Unsigned || v.String() != "not signed" {
		t.Errorf("not required: got %v, %v", v, err)
	}
	_, err = check(t, true, keys, f)
	refused(t, err, "not signed, and trust.require is set", key.ID)

	unknown := from("demo.wasm.sig", sign(t, stranger, f, nil))
	for _, require := range []bool{false, true} {
		_, err = check(t, require, keys, f, unknown)
		refused(t, err, "signed by "+stranger.ID+", which is not trusted", key.ID)
	}

	var nobody *trust.Policy
	if v, err := nobody.Check(f); err != nil || v.State != trust.Unchecked {
		t.Errorf("no policy: got %v, %v", v, err)
	}
}

func TestCheckWrongSignatureIsRefused(t *testing.T) {
	key, stranger := private(t), private(t)
	f, other := found(module(t, "one")), found(module(t, "two"))
	good := string(sign(t, key, f, nil))
	head, row, _ := strings.Cut(good, "\n")
	elliptic256 := ecdsaKey(t, elliptic.P256())
	confused := public(t, "ec.pub", &elliptic256.PublicKey)
	lines := func(rows ...string) []byte { return []byte(strings.Join(append([]string{head}, rows...), "\n") + "\n") }
	row = strings.TrimSuffix(row, "\n")
	signature := row[strings.LastIndex(row, " ")+1:]
	seventeen := make([]string, 17)
	for i := range seventeen {
		seventeen[i] = fmt.Sprintf("ed25519 %032x %s", i, signature)
	}
	beside := f
	beside.Beside = plugin.Digest([]byte(manifest))
	for _, c := range []struct {
		name, want string
		data       []byte
	}{
		{"of another file", "is not of this plugin, " + f.Digest, sign(t, key, other, nil)},
		{"of the same module with a manifest beside it", "is not of this plugin", sign(t, key, beside, nil)},
		{"another key's, under the name of one that is trusted", "is not of this plugin",
			[]byte(strings.ReplaceAll(string(sign(t, stranger, f, nil)), stranger.ID, key.ID))},
		{"good, and stale by another trusted key", "is not of this plugin", sign(t, key, f, sign(t, stranger, other, nil))},
		{"empty", "a signature of neither prober nor cosign", nil},
		{"garbage", "a signature of neither prober nor cosign", []byte("\x00\xff\xfe garbage")},
		{"truncated in the line", "truncated: ", []byte(good[:len(good)-10])},
		{"truncated before the newline", "truncated: ", []byte(good[:len(good)-1])},
		{"truncated to its head", "0 signatures, must be 1 to 16", []byte(head + "\n")},
		{"oversized", "more than 4096 bytes", lines(row + strings.Repeat(" ", 4096))},
		{"too many lines", "17 signatures, must be 1 to 16", lines(seventeen...)},
		{"another version", `"prober.dev/signature/v2"`, []byte(strings.Replace(good, "/v1", "/v2", 1))},
		{"the key twice", "line 3: key " + key.ID + " occurs twice", lines(row, row)},
		{"an empty line", "line 3: must be", lines(row, "")},
		{"carriage returns", "must be", []byte(strings.ReplaceAll(good, "\n", "\r\n"))},
		{"a carriage return in the signature", "is not a signature", lines(row + "\r")},
		{"another algorithm", `the algorithm is "ecdsa"`, lines("ecdsa" + strings.TrimPrefix(row, "ed25519"))},
		{"a key id in upper case", "is not the ID of a key", lines(strings.Replace(row, key.ID, strings.ToUpper("A"+key.ID[1:]), 1))},
		{"a short key id", "is not the ID of a key", lines(strings.Replace(row, key.ID, key.ID[:30], 1))},
		{"a short signature", "is not a signature", lines("ed25519 " + key.ID + " " + base64.StdEncoding.EncodeToString([]byte("short")))},
		{"unpadded", "is not a signature", lines(strings.TrimRight(row, "="))},
		{"stray bits behind the signature", "is not a signature", lines(strings.TrimSuffix(row, signature) + strayBits(signature))},
		{"a key of another kind", "is not an Ed25519 key", lines(strings.Replace(row, key.ID, confused.ID, 1))},
		{"a bundle that is none", "not a bundle of cosign", []byte("{")},
		{"a bundle of nothing", "a bundle must have one signature", []byte("{}")},
		{"a bundle of two", "a bundle must have one signature", []byte(`{"base64Signature":"AAAA","messageSignature":{}}`)},
		{"an empty bundle", "a bundle without a signature", []byte(`{"messageSignature":{}}`)},
		{"an attestation", "a bundle with an attestation", []byte(`{"dsseEnvelope":{}}`)},
		{"cosign's of another file", "no trusted key verifies it", base64ed(ecdsaSign(t, elliptic256, other.Module))},
		{"a bundle of another file", "a bundle for sha256:", messageBundle(t, other.Module, ecdsaSign(t, elliptic256, other.Module))},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, require := range []bool{false, true} {
				_, err := check(t, require, []trust.Key{key.Key, stranger.Key, confused}, f, from("demo.wasm.sig", c.data))
				refused(t, err, "demo.wasm.sig: ", c.want, key.ID)
			}
		})
	}
}

// strayBits changes bits of base64 that are not part of a byte.
func strayBits(text string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	last := strings.TrimRight(text, "=")
	at := strings.IndexByte(alphabet, last[len(last)-1])
	return last[:len(last)-1] + string(alphabet[at|1]) + text[len(last):]
}

func TestNewErrors(t *testing.T) {
	key := private(t)
	again := public(t, "again.pub", readPublic(t, key.Key))
	for _, c := range []struct {
		name, want string
		cfg        trust.Config
	}{
		{"nobody to trust", "signatures are required, and no key is trusted", trust.Config{Require: true}},
		{"a key twice", "keys " + key.ID + " and " + again.ID + " (again.pub) are the same", trust.Config{Keys: []trust.Key{key.Key, again}}},
		{"an empty key", "key 0 is empty", trust.Config{Keys: []trust.Key{{}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := trust.New(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// plainBase64 removes the characters that decoders of base64 and JSON ignore.
var plainBase64 = strings.NewReplacer("\n", "", "\r", "", `\`, "")

// Check accepts data as a signature only if the owner of a trusted key made it.
func FuzzSignature(f *testing.F) {
	key, ec := private(f), ecdsaKey(f, elliptic.P256())
	ecKey := public(f, "ec.pub", &ec.PublicKey)
	plain := found(module(f, "one"))
	good := sign(f, key, plain, nil)
	_, row, _ := strings.Cut(strings.TrimSuffix(string(good), "\n"), "\n")
	signature := ecdsaSign(f, ec, plain.Module)
	f.Add(good)
	f.Add(sign(f, private(f), plain, good))
	f.Add(base64ed(signature))
	f.Add(messageBundle(f, plain.Module, signature))
	f.Add([]byte(`{"base64Signature":"AAAA","cert":"x"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := check(t, true, []trust.Key{key.Key, ecKey}, plain, from("demo.wasm.sig", data))
		if err != nil {
			refused(t, err)
			return
		}
		text, want := "\n"+string(data), "\n"+row+"\n"
		if v.Signer() == ecKey.ID {
			text, want = plainBase64.Replace(text), base64.StdEncoding.EncodeToString(signature)
		}
		if !strings.Contains(text, want) {
			t.Errorf("%q went through as %v", data, v)
		}
	})
}
