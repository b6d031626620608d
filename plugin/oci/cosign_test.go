package oci_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/daeace23/prober/internal/registrytest"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/oci"
	"github.com/daeace23/prober/plugin/trust"
)

// recorded is the folder with the contents of a registry after cosign ran; see its README.md.
const recorded = "../trust/testdata/cosign"

// cosigned starts a registry with the recorded contents of one way of signing. change, if not nil,
// returns the replacement of a manifest; nil omits the manifest.
func cosigned(t *testing.T, way string, referrers bool, change func(name string, data []byte) []byte) *registrytest.Registry {
	t.Helper()
	h := registrytest.New(t, registry.WithReferrersSupport(referrers))
	for _, name := range files(t, filepath.Join(recorded, "registry/blobs")) {
		blob := readFile(t, name)
		for _, repo := range []string{"demo", "program"} {
			h.PutBlob(t, repo, blob)
		}
	}
	for _, of := range []string{"base", way} {
		for _, repo := range []string{"demo", "program"} {
			names := files(t, filepath.Join(recorded, "registry", of, repo))
			for _, last := range []bool{false, true} { // an index is pushed after its manifests
				for _, name := range names {
					data := readFile(t, name)
					if isIndex := strings.Contains(string(data), `"manifests":`); isIndex != last {
						continue
					}
					ref := strings.Replace(filepath.Base(name), "=", ":", 1)
					if change != nil && of != "base" {
						if data = change(ref, data); data == nil {
							continue
						}
						if strings.HasPrefix(ref, "sha256:") {
							ref = plugin.Digest(data)
						}
					}
					kind := "manifest"
					if last {
						kind = "index"
					}
					h.Put(t, "/v2/"+repo+"/manifests/"+ref, "application/vnd.oci.image."+kind+".v1+json", string(data))
				}
			}
		}
	}
	return h
}

// files returns the paths of the files in a folder, if any.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, filepath.Join(dir, e.Name()))
	}
	return names
}

func policy(t *testing.T, key string) *trust.Policy {
	t.Helper()
	keys, err := trust.ReadKeys([]string{filepath.Join(recorded, key)})
	if err != nil {
		t.Fatal(err)
	}
	p, err := trust.New(trust.Config{Keys: keys, Require: true})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// verdict pulls an artifact and checks its signatures with a key.
func verdict(t *testing.T, h *registrytest.Registry, rest, key string) error {
	t.Helper()
	c := client(t, oci.ClientConfig{Cosign: true, Platform: oci.Platform{OS: "linux", Architecture: "arm64"}})
	ref := h.Ref(t, rest)
	a, err := c.Pull(t.Context(), ref)
	if err != nil {
		return err
	}
	// The verdict is about the artifact that a store returns.
	if kept, err := openStore(t, filepath.Join(t.TempDir(), "plugins")).Keep(ref, a), error(nil); err != nil || kept.Unkept != nil {
		t.Fatal(err, kept.Unkept)
	}
	_, err = policy(t, key).Check(a.Found(ref))
	return err
}

// Cosign keeps signatures in a registry in several ways.
func TestPullSignaturesOfCosign(t *testing.T) {
	ways := []struct {
		name      string
		referrers bool
	}{
		{"v2-tag", false}, {"v2-tag", true}, {"v2-oci11", true}, {"v2-bundle", true}, {"v2-bundle-fallback", false}, {"v2-recursive", false},
		{"v3-bundle", true}, {"v3-bundle-fallback", false},
	}
	for _, way := range ways {
		t.Run(fmt.Sprintf("%s referrers=%t", way.name, way.referrers), func(t *testing.T) {
			h := cosigned(t, way.name, way.referrers, nil)
			for _, ref := range []string{"demo:1", "program:1"} {
				if err := verdict(t, h, ref, "cosign.pub"); err != nil {
					t.Errorf("%s: %v", ref, err)
				}
				wantError(t, verdict(t, h, ref, "other.pub"), "no trusted key verifies it")
			}
		})
	}
}

func TestPullWrongSignatureIsRefused(t *testing.T) {
	signatureOf := func(t *testing.T, way, repo string) (name string, data []byte) {
		t.Helper()
		all := files(t, filepath.Join(recorded, "registry", way, repo))
		if len(all) != 1 {
			t.Fatalf("%d files", len(all))
		}
		return filepath.Base(all[0]), readFile(t, all[0])
	}
	t.Run("a payload of another artifact", func(t *testing.T) {
		_, program := signatureOf(t, "v2-tag", "program")
		h := cosigned(t, "v2-tag", false, func(string, []byte) []byte { return program })
		wantError(t, verdict(t, h, "demo:1", "cosign.pub"), "signed the artifact ")
	})
	t.Run("a bundle of another artifact", func(t *testing.T) {
		_, demo := signatureOf(t, "v2-bundle", "demo")
		_, program := signatureOf(t, "v2-bundle", "program")
		bundle := func(manifest []byte) string {
			_, rest, _ := strings.Cut(string(manifest), `"layers":[`)
			layer, _, _ := strings.Cut(rest, "]")
			return layer
		}
		h := cosigned(t, "v2-bundle", true, func(_ string, data []byte) []byte {
			return []byte(strings.Replace(string(data), bundle(demo), bundle(program), 1))
		})
		wantError(t, verdict(t, h, "demo:1", "cosign.pub"), "signed the artifact ")
	})
	t.Run("a payload of another type", func(t *testing.T) {
		h := cosigned(t, "v2-tag", false, func(_ string, data []byte) []byte {
			return []byte(strings.Replace(string(data), "vnd.dev.cosign.simplesigning.v1", "vnd.dev.cosign.other.v1", 1))
		})
		wantError(t, verdict(t, h, "demo:1", "cosign.pub"), "not signed, and trust.require is set")
	})
	t.Run("a signature that was changed", func(t *testing.T) {
		h := cosigned(t, "v2-tag", false, func(_ string, data []byte) []byte {
			const before = `cosign/signature":"`
			data[strings.Index(string(data), before)+len(before)+20] ^= 1 // one letter of base64 for another
			return data
		})
		wantError(t, verdict(t, h, "demo:1", "cosign.pub"), "no trusted key verifies it")
	})
	t.Run("a signature without end", func(t *testing.T) {
		h := cosigned(t, "v2-tag", false, func(_ string, data []byte) []byte {
			const before = `cosign/signature":"`
			return []byte(strings.Replace(string(data), before, before+strings.Repeat("AAAA", 2000), 1))
		})
		wantError(t, verdict(t, h, "demo:1", "cosign.pub"), "a signature of 80", " bytes; at most 4096 are allowed")
	})
	t.Run("a subject that is another artifact", func(t *testing.T) {
		h := cosigned(t, "v2-bundle", true, func(_ string, data []byte) []byte {
			_, subject, _ := strings.Cut(string(data), `"subject":`)
			_, digest, _ := strings.Cut(subject, `"digest":"`)
			digest, _, _ = strings.Cut(digest, `"`)
			return []byte(strings.Replace(string(data), digest, plugin.Digest(nil), 1))
		})
		wantError(t, verdict(t, h, "demo:1", "cosign.pub"), "not signed, and trust.require is set")
	})
	t.Run("an attestation", func(t *testing.T) {
		h := cosigned(t, "v2-bundle", true, func(_ string, data []byte) []byte {
			_, rest, _ := strings.Cut(string(data), `"layers":[{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json",`)
			layer, _, _ := strings.Cut(rest, "}")
			other := readFile(t, filepath.Join(recorded, "v2.attestation.sigstore.json"))
			return []byte(strings.Replace(string(data), layer, fmt.Sprintf(`"size":%d,"digest":%q`, len(other), plugin.Digest(other)), 1))
		})
		other := readFile(t, filepath.Join(recorded, "v2.attestation.sigstore.json"))
		h.PutBlob(t, "demo", other)
		wantError(t, verdict(t, h, "demo:1", "cosign.pub"), "not signed, and trust.require is set")
	})
}

// Anyone with write access to a registry can make the list of referrers long.
func TestPullManyReferrersIsError(t *testing.T) {
	h := registrytest.New(t)
	c := client(t, oci.ClientConfig{Cosign: true})
	push(t, c, h.Ref(t, "demo:1"), pack(t, "1.0.0", ""))
	for want, page := range map[string]func(i int) (entries int, artifactType string, next bool){
		"more than 16 signatures":              func(int) (int, string, bool) { return 65, "application/vnd.dev.sigstore.bundle.v0.3+json", false },
		"more than 1000 manifests refer to it": func(int) (int, string, bool) { return 1001, "application/spdx+json", false },
		"listing exceeded 16 pages":            func(int) (int, string, bool) { return 1, "application/spdx+json", true },
	} {
		asked := 0
		h.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/referrers/") {
				return false
			}
			n, artifactType, next := page(asked)
			asked++
			if next {
				w.Header().Set("Link", fmt.Sprintf(`<%s?page=%d>; rel="next"`, r.URL.Path, asked))
			}
			entry := fmt.Sprintf(`{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":%q,"size":2,"artifactType":%q}`, plugin.Digest([]byte("{}")), artifactType)
			w.Header().Set("Content-Type", "application/vnd.oci.image.index.v1+json")
			fmt.Fprintf(w, `{"schemaVersion":2,"manifests":[%s]}`, strings.TrimSuffix(strings.Repeat(entry+",", n), ","))
			return true
		})
		_, err := c.Pull(t.Context(), h.Ref(t, "demo:1"))
		wantError(t, err, h.Host+"/demo:1: ", want)
		if asked > 16 {
			t.Errorf("%d pages were asked for", asked)
		}
	}
	// If the registry has no list of referrers, or denies access to it, there are no signatures.
	for _, status := range []int{400, 401, 403, 404, 405, 501} {
		h.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(r.URL.Path, "/referrers/") {
				w.WriteHeader(status)
				return true
			}
			return false
		})
		if a, err := c.Pull(t.Context(), h.Ref(t, "demo:1")); err != nil || len(a.Cosigned) > 0 {
			t.Errorf("%d: %v", status, err)
		}
	}
}
