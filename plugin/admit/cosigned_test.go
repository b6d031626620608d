package admit_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/admit"
)

// cosign signs the artifact with this digest as `cosign sign --key` does.
func (h hub) cosign(t *testing.T, key *ecdsa.PrivateKey, digest, of string) {
	t.Helper()
	payload := fmt.Sprintf(`{"critical":{"identity":{"docker-reference":"%s/demo"},"image":{"docker-manifest-digest":%q},"type":"cosign container image signature"},"optional":null}`, h.Host, of)
	sum := sha256.Sum256([]byte(payload))
	signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	h.PutBlob(t, "demo", []byte(payload))
	h.Put(t, "/v2/demo/manifests/"+strings.Replace(digest, ":", "-", 1)+".sig", "application/vnd.oci.image.manifest.v1+json", fmt.Sprintf(
		`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":%[1]q,"size":%[2]d},
		"layers":[{"mediaType":"application/vnd.dev.cosign.simplesigning.v1+json","digest":%[1]q,"size":%[2]d,"annotations":{"dev.cosignproject.cosign/signature":%[3]q}}]}`,
		plugin.Digest([]byte(payload)), len(payload), base64.StdEncoding.EncodeToString(signature)))
}

// newKey returns a new key, and the file of its public key.
func newKey(t *testing.T) (key *ecdsa.PrivateKey, file string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "cosign.pub")
	write(t, file, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))
	return key, file
}

func TestCosignedPluginOfRegistryIsSigned(t *testing.T) {
	h := newHub(t)
	key, file := newKey(t)
	other, _ := newKey(t)
	cache := filepath.Join(t.TempDir(), "plugins")
	source := "oci://" + h.Host + "/demo:1"
	pull := func(offline bool) (admit.Pulled, []admit.Plugin) {
		t.Helper()
		a, err := admit.New(admit.Config{ConfigFile: sourced(t, source, "trust: {require: true, keys: ["+file+"]}\n")})
		if err != nil {
			t.Fatal(err)
		}
		all := a.Pull(t.Context(), admit.NewSources(admit.SourcesConfig{CacheDir: cache, Offline: offline}))
		admitted, _ := a.Find(nil, nil)
		return all[0], admitted
	}
	refused := func(want string) {
		t.Helper()
		if r, admitted := pull(false); r.Err == nil || !strings.Contains(r.Err.Error(), want) || len(admitted) > 0 {
			t.Errorf("got %v, %d plugins; want %q", r.Err, len(admitted), want)
		}
	}
	first := h.push(t, "1", moduleOf(t, "demo", "1.0.0"))
	refused("not signed, and trust.require is set")
	h.cosign(t, other, first, first)
	refused("no trusted key verifies it")
	h.cosign(t, key, first, plugin.Digest(nil))
	refused("signed the artifact \"" + plugin.Digest(nil))
	h.cosign(t, key, first, first)
	for _, offline := range []bool{false, true} {
		r, admitted := pull(offline)
		if r.Err != nil || r.Stale != nil || r.Unkept != nil || len(admitted) != 1 || admitted[0].Verdict.State != "signed" {
			t.Errorf("offline %t: %v, %v, %+v", offline, r.Err, r.Stale, admitted)
		}
	}
	// An unsigned version does not replace a signed one.
	h.push(t, "1", moduleOf(t, "demo", "2.0.0"))
	r, admitted := pull(false)
	if r.Stale == nil || !strings.Contains(r.Stale.Error(), "not signed") || len(admitted) != 1 || admitted[0].Manifest.Version != "1.0.0" {
		t.Errorf("%v, %v, %d plugins", r.Err, r.Stale, len(admitted))
	}
}
