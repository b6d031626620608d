package trust_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/trust"
)

// recorded returns a file that cosign wrote; see testdata/cosign/README.md.
func recorded(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata/cosign", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Check reads each kind of file that cosign writes beside a module.
func TestCheckSignaturesOfCosign(t *testing.T) {
	keys, err := trust.ReadKeys([]string{"testdata/cosign/cosign.pub", "testdata/cosign/other.pub", "testdata/cosign/ed.pub"})
	if err != nil {
		t.Fatal(err)
	}
	ec, stranger, ed := keys[0], keys[1], keys[2]
	policy := func(keys ...trust.Key) *trust.Policy {
		p, err := trust.New(trust.Config{Keys: keys, Require: true})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	module, err := plugin.Embed([]byte("\x00asm\x01\x00\x00\x00"), []byte("apiVersion: prober.dev/v1\nkind: Plugin\nname: demo\nversion: 1.0.0\n"))
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{
		"v2.sig": "demo.wasm.sig", "v2.bundle": "demo.wasm.cosign.bundle", "v2.sigstore.json": "demo.wasm.sigstore.json",
		"v3.sig": "demo.wasm.cosign.sig", "v3.sigstore.json": "demo.wasm.sigstore.json", "v3.ed.sigstore.json": "demo.wasm.sigstore.json",
	} {
		t.Run(name, func(t *testing.T) {
			trusted := ec
			if strings.Contains(name, ".ed.") {
				trusted = ed
			}
			path := filepath.Join(t.TempDir(), "demo.wasm")
			put := func(name string, data []byte) {
				if err := os.WriteFile(filepath.Join(filepath.Dir(path), name), data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			put("demo.wasm", module)
			put(file, recorded(t, name))
			f, err := trust.Read(path)
			if err != nil {
				t.Fatal(err)
			}
			if v, err := policy(stranger, trusted).Check(*f); err != nil || v.Signer() != trusted.ID {
				t.Errorf("got %v, %v; want %s", v, err, trusted)
			}
			_, err = policy(stranger).Check(*f)
			refused(t, err, file+": no trusted key verifies it")
			other := *f
			other.Module = append(bytes.Clone(module), 0)
			if _, err = policy(trusted).Check(other); err == nil {
				t.Error("it is a signature of any module")
			}
			data := recorded(t, name)
			at := max(bytes.Index(data, []byte(`ignature":"`)), 0) // 0 if the whole file is the signature
			data[at+30] ^= 1
			put(file, data)
			if _, err = policy(trusted).Check(*f); err == nil {
				t.Error("the signature was changed, and is taken")
			}
		})
	}
	f := &plugin.Found{Module: module, Path: "demo.wasm"}
	for name, want := range map[string]string{
		"v2.attestation.sigstore.json": "a bundle with an attestation, must be one with a signature, as cosign sign-blob writes it",
		"v2.other.sig":                 "no trusted key verifies it",
	} {
		f.Signatures = []plugin.Signature{{From: name, Data: recorded(t, name)}}
		_, err := policy(ec).Check(*f)
		refused(t, err, name+": "+want)
	}
}
