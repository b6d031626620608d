package oci_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/registrytest"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/oci"
)

const programManifest = "apiVersion: prober.dev/v1\nname: demo\nversion: "

var (
	arm  = oci.Platform{OS: "linux", Architecture: "arm64"}
	mac  = oci.Platform{OS: "darwin", Architecture: "arm64"}
	s390 = oci.Platform{OS: "linux", Architecture: "s390x"}
)

// program returns an artifact of a program for a platform.
func program(t *testing.T, version, signature string, on oci.Platform) *oci.Artifact {
	t.Helper()
	a, err := oci.PackProgram(oci.Program{
		Manifest: []byte(programManifest + version + "\n"), Code: []byte("a program for " + on.String()), Signature: []byte(signature), Platform: on,
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// pushProgram pushes a program, and keeps the programs of other platforms at ref.
func pushProgram(t *testing.T, c *oci.Client, ref plugin.Reference, a *oci.Artifact) *oci.Artifact {
	t.Helper()
	joined, err := c.Join(t.Context(), ref, a)
	if err != nil {
		t.Fatal(err)
	}
	push(t, c, ref, joined)
	return joined
}

// checkProgram fails unless a is an artifact that program returns.
func checkProgram(t *testing.T, a *oci.Artifact, version, signature string, on oci.Platform) {
	t.Helper()
	if string(a.Module) != "a program for "+on.String() || a.Platform != on || string(a.Signature) != signature ||
		string(a.Beside) != programManifest+version+"\n" || a.Manifest.Version != version || a.Manifest.Runtime != plugin.Process {
		t.Errorf("got %q of version %s for %s, with the signature %q", a.Module, a.Manifest.Version, a.Platform, a.Signature)
	}
}

func TestPullProgramOfPlatform(t *testing.T) {
	h := registrytest.New(t)
	c := client(t, oci.ClientConfig{})
	host, ref := oci.HostPlatform(), h.Ref(t, "me/demo:1")
	first := pushProgram(t, c, ref, program(t, "1.0.0", "signature", host))
	second := pushProgram(t, c, ref, program(t, "1.0.0", "", s390))
	if first.Digest == second.Digest || len(second.Platforms()) != 2 {
		t.Errorf("%s, %v", second.Digest, second.Platforms())
	}
	for _, ref := range []plugin.Reference{ref, ref.Pinned(second.Digest)} {
		a, err := c.Pull(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		checkProgram(t, a, "1.0.0", "signature", host)
		if a.Digest != second.Digest || plugin.Digest(a.Index()) != a.Digest || !bytes.Contains(a.Index(), []byte(plugin.Digest(a.Root()))) {
			t.Errorf("%s of %s", a.Digest, a.Index())
		}
		if a, err = client(t, oci.ClientConfig{Platform: s390}).Pull(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		checkProgram(t, a, "1.0.0", "", s390)
	}
	_, err := client(t, oci.ClientConfig{Platform: mac}).Pull(t.Context(), ref)
	have := []string{host.String(), s390.String()}
	slices.Sort(have)
	wantError(t, err, ref.String()+" has no program for darwin/arm64; it has "+strings.Join(have, ", "))
	if _, ok := errors.AsType[*oci.PlatformError](err); !ok {
		t.Errorf("%T", err)
	}

	// The OCI manifest of one platform is a plugin as well.
	alone := first.Alone()
	a, err := c.Pull(t.Context(), ref.Pinned(alone.Digest))
	if err != nil {
		t.Fatal(err)
	}
	checkProgram(t, a, "1.0.0", "signature", host)
	_, err = client(t, oci.ClientConfig{Platform: mac}).Pull(t.Context(), ref.Pinned(alone.Digest))
	wantError(t, err, "has no program for darwin/arm64; it has "+host.String())

	// Pushing the same program again changes nothing. Another program for the same platform
	// replaces it. Another version replaces the programs of all platforms.
	if again := pushProgram(t, c, ref, program(t, "1.0.0", "signature", host)); again.Digest != second.Digest {
		t.Errorf("got %s, want %s", again.Digest, second.Digest)
	}
	if other := pushProgram(t, c, ref, program(t, "1.0.0", "other", host)); other.Digest == second.Digest || len(other.Platforms()) != 2 {
		t.Errorf("%s, %v", other.Digest, other.Platforms())
	}
	if next := pushProgram(t, c, ref, program(t, "2.0.0", "", s390)); len(next.Platforms()) != 1 {
		t.Errorf("%v", next.Platforms())
	}
	_, err = c.Pull(t.Context(), ref)
	wantError(t, err, "has no program for "+host.String()+"; it has linux/s390x")
	// A module replaces programs, and a program replaces a module.
	push(t, c, ref, pack(t, "1.0.0", ""))
	if again := pushProgram(t, c, ref, program(t, "1.0.0", "", host)); len(again.Platforms()) != 1 {
		t.Errorf("%v", again.Platforms())
	}
}

func TestPackProgramIsDeterministic(t *testing.T) {
	if got, want := program(t, "1.0.0", "signature", arm).Digest, "sha256:5d18e00b51901ad22f033f94079af4bab5ddee1f2a713c5ff867b9c5179cedc4"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Other clients depend on these fields.
func TestPushedIndex(t *testing.T) {
	h := registrytest.New(t)
	c := client(t, oci.ClientConfig{})
	pushProgram(t, c, h.Ref(t, "demo:1"), program(t, "1.0.0", "signature", mac))
	pushProgram(t, c, h.Ref(t, "demo:1"), program(t, "1.0.0", "signature", arm))
	var index struct {
		MediaType, ArtifactType string
		Manifests               []struct {
			MediaType, ArtifactType, Digest string
			Platform                        struct{ OS, Architecture string }
		}
		Annotations map[string]string
	}
	getJSON(t, h, "/v2/demo/manifests/1", &index)
	if index.MediaType != "application/vnd.oci.image.index.v1+json" || index.ArtifactType != oci.ArtifactType || len(index.Manifests) != 2 ||
		index.Annotations["org.opencontainers.image.version"] != "1.0.0" || index.Annotations["org.opencontainers.image.title"] != "demo" {
		t.Fatalf("%+v", index)
	}
	for i, on := range []oci.Platform{mac, arm} {
		if d := index.Manifests[i]; d.Platform.OS != on.OS || d.Platform.Architecture != on.Architecture || d.ArtifactType != oci.ArtifactType ||
			d.MediaType != "application/vnd.oci.image.manifest.v1+json" {
			t.Errorf("%+v", d)
		}
	}
	var m struct {
		ArtifactType string
		Config       struct{ MediaType, Digest string }
		Layers       []struct {
			MediaType   string
			Annotations map[string]string
		}
	}
	getJSON(t, h, "/v2/demo/manifests/"+index.Manifests[1].Digest, &m)
	var got []string
	for _, l := range m.Layers {
		got = append(got, l.MediaType+" "+l.Annotations["org.opencontainers.image.title"])
	}
	want := []string{
		"application/vnd.prober.plugin.manifest.v1+yaml prober-plugin-demo.yaml", "application/vnd.prober.plugin.process.v1 prober-plugin-demo",
		"application/vnd.prober.plugin.signature.v1 prober-plugin-demo.sig",
	}
	if m.ArtifactType != oci.ArtifactType || m.Config.MediaType != "application/vnd.prober.plugin.process.config.v1+json" || !slices.Equal(got, want) {
		t.Errorf("%+v", m)
	}
	var config struct{ OS, Architecture string }
	getJSON(t, h, "/v2/demo/blobs/"+m.Config.Digest, &config)
	if config.OS != "linux" || config.Architecture != "arm64" {
		t.Errorf("%+v", config)
	}
}

func TestLayoutHasProgramsOfAllPlatforms(t *testing.T) {
	h := registrytest.New(t)
	c := client(t, oci.ClientConfig{})
	host, ref := oci.HostPlatform(), h.Ref(t, "demo:1")
	pushProgram(t, c, ref, program(t, "1.0.0", "signature", host))
	both := pushProgram(t, c, ref, program(t, "1.0.0", "", s390))
	dir := t.TempDir()
	whole := func() *oci.Artifact {
		a, err := c.PullWhole(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	loads := func(path, digest string, on oci.Platform, signature string) {
		t.Helper()
		all, err := oci.Load(path, on)
		if err != nil || len(all) != 1 || all[0].Digest != digest {
			t.Fatalf("%s: %v, %d plugins", path, err, len(all))
		}
		checkProgram(t, all[0], "1.0.0", signature, on)
	}
	for path, save := range map[string]func(string, string, *oci.Artifact) error{"a": oci.SaveDir, "a.tar": oci.SaveTar} {
		path = filepath.Join(dir, path)
		if err := save(path, "1", whole()); err != nil {
			t.Fatal(err)
		}
		loads(path, both.Digest, host, "signature")
		loads(path, both.Digest, s390, "")
		_, err := oci.Load(path, mac)
		wantError(t, err, path+": demo-1 has no program for darwin/arm64; it has ")
		// An artifact that was pulled for one platform cannot be saved.
		one, err := c.Pull(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		wantError(t, save(path, "1", one), "it was read for one platform")
	}
	alone, err := c.Pull(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	alone = alone.Alone()
	if err := oci.SaveTar(filepath.Join(dir, "alone.tar"), "1", alone); err != nil {
		t.Fatal(err)
	}
	loads(filepath.Join(dir, "alone.tar"), alone.Digest, host, "signature")

	// SaveDir adds platforms to a folder one by one.
	folder := filepath.Join(dir, "folder")
	for _, a := range []*oci.Artifact{program(t, "1.0.0", "", s390), program(t, "1.0.0", "signature", host)} {
		if err := oci.SaveDir(folder, "1", a); err != nil {
			t.Fatal(err)
		}
	}
	loads(folder, both.Digest, host, "signature")
	loads(folder, both.Digest, s390, "")

	// A plugin without a program for the host can be saved.
	pushProgram(t, c, h.Ref(t, "demo:2"), program(t, "1.0.0", "", s390))
	a, err := c.PullWhole(t.Context(), h.Ref(t, "demo:2"))
	if err != nil {
		t.Fatal(err)
	}
	checkProgram(t, a, "1.0.0", "", s390)
}

func TestPullWholeVerifiesOtherPlatforms(t *testing.T) {
	h := registrytest.New(t)
	c := client(t, oci.ClientConfig{})
	ref := h.Ref(t, "demo:1")
	pushProgram(t, c, ref, program(t, "1.0.0", "", oci.HostPlatform()))
	other := program(t, "1.0.0", "", s390)
	pushProgram(t, c, ref, other)
	h.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, plugin.Digest(other.Module)) {
			return false
		}
		_, _ = w.Write(bytes.ToUpper(other.Module))
		return true
	})
	_, err := c.PullWhole(t.Context(), ref)
	wantError(t, err, ref.String()+": program for linux/s390x: ", "the bytes do not match their digest")
}

// putVariants pushes an index with programs for the host and for other platforms. edit changes
// the OCI manifests of the others.
func putVariants(t *testing.T, h *registrytest.Registry, c *oci.Client, ref plugin.Reference, others []oci.Platform, edit func(manifest string) string) {
	t.Helper()
	const manifestType, indexType = "application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.index.v1+json"
	index := string(pushProgram(t, c, ref, program(t, "1.0.0", "", oci.HostPlatform())).Index())
	for _, on := range others {
		index = string(pushProgram(t, c, ref, program(t, "1.0.0", "", on)).Index())
	}
	for _, on := range others {
		before := string(program(t, "1.0.0", "", on).Root())
		after := edit(before)
		h.Put(t, "/v2/demo/manifests/"+plugin.Digest([]byte(after)), manifestType, after)
		named := func(root string) string {
			return fmt.Sprintf(`"digest":%q,"size":%d`, plugin.Digest([]byte(root)), len(root))
		}
		index = strings.Replace(index, named(before), named(after), 1)
	}
	h.Put(t, "/v2/demo/manifests/"+ref.Tag, indexType, index)
}

func TestPullWholeTooLargeIsErrorBeforeDownload(t *testing.T) {
	h := registrytest.New(t)
	c := client(t, oci.ClientConfig{})
	ref := h.Ref(t, "demo:1")
	size := regexp.MustCompile(`(` + regexp.QuoteMeta(oci.ProgramType) + `","digest":"[^"]*","size":)\d+`)
	putVariants(t, h, c, ref, []oci.Platform{s390, mac, {OS: "a", Architecture: "b"}, {OS: "c", Architecture: "d"}}, func(manifest string) string {
		return size.ReplaceAllString(manifest, "${1}268435456")
	})
	h.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/blobs/") {
			t.Errorf("%s was requested", r.URL.Path)
		}
		return false
	})
	_, err := c.PullWhole(t.Context(), ref)
	wantError(t, err, ref.String()+": more than 1073741824 bytes of programs")
}

func TestPullWholeKeepsProgramsOfNewerFormat(t *testing.T) {
	h := registrytest.New(t)
	c := client(t, oci.ClientConfig{})
	ref := h.Ref(t, "demo:1")
	putVariants(t, h, c, ref, []oci.Platform{s390}, func(manifest string) string {
		return strings.Replace(manifest, oci.ManifestType, "application/vnd.prober.plugin.manifest.v9+yaml", 1)
	})
	a, err := c.PullWhole(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := oci.SaveDir(dir, "1", a); err != nil {
		t.Fatal(err)
	}
	other := program(t, "1.0.0", "", s390)
	for _, data := range [][]byte{other.Module, other.Beside} {
		if got := readFile(t, blobPath(dir, plugin.Digest(data))); !bytes.Equal(got, data) {
			t.Errorf("got %q, want %q", got, data)
		}
	}
	if _, err := oci.Load(dir, oci.HostPlatform()); err != nil {
		t.Error(err)
	}
}

func TestPullProgramErrors(t *testing.T) {
	h := registrytest.New(t)
	c := client(t, oci.ClientConfig{Platform: arm})
	good := pushProgram(t, c, h.Ref(t, "demo:good"), program(t, "1.0.0", "", arm))
	blob := func(text string) string {
		h.PutBlob(t, "demo", []byte(text))
		return fmt.Sprintf(`"digest":%q,"size":%d`, plugin.Digest([]byte(text)), len(text))
	}
	layer := func(mediaType, text string) string { return fmt.Sprintf(`{"mediaType":%q,%s}`, mediaType, blob(text)) }
	const manifestType, indexType = "application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.index.v1+json"
	manifest := func(config string, layers ...string) string {
		return fmt.Sprintf(`{"schemaVersion":2,"config":%s,"layers":[%s]}`, layer(oci.ProgramConfigType, config), strings.Join(layers, ","))
	}
	index := func(entries ...string) string {
		return fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"manifests":[%s]}`, indexType, strings.Join(entries, ","))
	}
	entry := func(text string, on string) string {
		h.Put(t, "/v2/demo/manifests/"+plugin.Digest([]byte(text)), manifestType, text)
		return fmt.Sprintf(`{"mediaType":%q,"artifactType":%q,"digest":%q,"size":%d,"platform":%s}`, manifestType, oci.ArtifactType, plugin.Digest([]byte(text)), len(text), on)
	}
	const onArm, config = `{"os":"linux","architecture":"arm64"}`, `{"os":"linux","architecture":"arm64"}`
	code, beside := layer(oci.ProgramType, "code"), layer(oci.ManifestType, programManifest+"1.0.0\n")
	root := string(good.Root())
	push(t, c, h.Ref(t, "demo:module"), pack(t, "1.0.0", ""))
	wasm := string(pack(t, "1.0.0", "").Root())
	for _, tc := range []struct {
		name, mediaType, body string
		want                  string
	}{
		{"images", indexType, index(strings.Replace(entry(root, onArm), oci.ArtifactType, "", 1)), "/demo:images is an index of images, not a plugin"},
		{"untold", indexType, strings.Replace(index(entry(root, onArm)), `"mediaType":"`+indexType+`",`, "", 1), "is an index of images, not a plugin"},
		{"ambiguous", indexType, index(entry(root, onArm), entry(root, onArm)), "has two programs for linux/arm64"},
		{"nowhere", indexType, index(entry(root, `{"os":"../..","architecture":"arm64"}`)), `"../../arm64" is not a platform`},
		{"crowd", indexType, index(slices.Repeat([]string{entry(root, onArm)}, 65)...), "is an index of 65 manifests; at most 64 are allowed"},
		{"disguise", indexType, index(entry(root, `{"os":"linux","architecture":"s390x"}`), entry(manifest(`{"os":"linux","architecture":"s390x"}`, code, beside), onArm)),
			"has no program for linux/arm64; it has linux/s390x"},
		{"wasm", indexType, index(entry(wasm, onArm)), "has a module for a platform, and modules run on all"},
		{"bare", manifestType, manifest(config, code), "has 0 layers of application/vnd.prober.plugin.manifest.v1+yaml, must have 1"},
		{"empty", manifestType, manifest(config, beside), "has 0 layers of application/vnd.prober.plugin.process.v1, must have 1"},
		{"two", manifestType, manifest(config, code, code, beside), "has 2 layers of application/vnd.prober.plugin.process.v1, must have 1"},
		{"twofaced", manifestType, manifest(config, code, beside, beside), "has 2 layers of application/vnd.prober.plugin.manifest.v1+yaml, must have 1"},
		{"module in its place", manifestType, manifest(config, layer(oci.LayerType, "code"), beside), "has 0 layers of application/vnd.prober.plugin.process.v1"},
		{"placeless", manifestType, manifest(`{}`, code, beside), `config: "/" is not a platform`},
		{"nagios", manifestType, manifest(config, code, layer(oci.ManifestType, programManifest+"1.0.0\nruntime: nagios\ncommand: [sh]\n")), "its runtime is nagios, must be process"},
		{"sandboxed", manifestType, manifest(config, code, layer(oci.ManifestType, programManifest+"1.0.0\nruntime: wasm\n")), "its runtime is wasm, must be process"},
		{"path", manifestType, manifest(config, code, layer(oci.ManifestType, "apiVersion: prober.dev/v1\nname: ../demo\nversion: 1.0.0\n")), `"../demo" is not a name`},
		{"huge", manifestType, manifest(config, beside, strings.Replace(code, `"size":4`, `"size":268435457`, 1)), "of 268435457 bytes (application/vnd.prober.plugin.process.v1); at most 268435456 are allowed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tag := strings.ReplaceAll(tc.name, " ", "-")
			h.Put(t, "/v2/demo/manifests/"+tag, tc.mediaType, tc.body)
			_, err := c.Pull(t.Context(), h.Ref(t, "demo:"+tag))
			wantError(t, err, tc.want, h.Host+"/demo:"+tag)
		})
	}
	// Every part of a signed index is verified against its digest.
	for name, digest := range map[string]string{"manifest": plugin.Digest(good.Root()), "program": plugin.Digest(good.Module), "plugin's manifest": plugin.Digest(good.Beside)} {
		t.Run("other "+name, func(t *testing.T) {
			h.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, digest) || r.Method != http.MethodGet {
					return false
				}
				w.Header().Set("Content-Type", manifestType)
				_, _ = w.Write([]byte(strings.Repeat("x", len(root))))
				return true
			})
			defer h.Intercept(nil)
			_, err := c.Pull(t.Context(), h.Ref(t, "demo:good"))
			wantError(t, err, h.Host+"/demo:good: ")
		})
	}
}

func TestPackProgramErrors(t *testing.T) {
	beside := []byte(programManifest + "1.0.0\n")
	for want, p := range map[string]oci.Program{
		"program of 0 bytes; must have 1 to": {Manifest: beside},
		`"linux/" is not a platform`:         {Manifest: beside, Code: []byte("x"), Platform: oci.Platform{OS: "linux"}},
		"signature of 65537 bytes; at most":  {Manifest: beside, Code: []byte("x"), Signature: make([]byte, 64<<10+1)},
		"its runtime is wasm":                {Manifest: append(slices.Clone(beside), "runtime: wasm\n"...), Code: []byte("x")},
		"name: the field is required":        {Manifest: []byte("apiVersion: prober.dev/v1\nversion: 1.0.0\n"), Code: []byte("x")},
	} {
		_, err := oci.PackProgram(p)
		wantError(t, err, want)
	}
	for _, text := range []string{"", "linux", "linux/", "/arm64", "linux/arm/v7", "Linux/arm64", "linux/../x"} {
		_, err := oci.ParsePlatform(text)
		wantError(t, err, "is not a platform: must be OS/ARCHITECTURE, such as linux/arm64")
	}
	if p, err := oci.ParsePlatform("linux/arm64"); err != nil || p != arm {
		t.Errorf("%v, %v", p, err)
	}
}

func TestStoreKeepsProgramOfHost(t *testing.T) {
	h := registrytest.New(t)
	c := client(t, oci.ClientConfig{})
	dir := filepath.Join(t.TempDir(), "plugins")
	s := openStore(t, dir)
	host, ref := oci.HostPlatform(), h.Ref(t, "demo:1")
	pushProgram(t, c, ref, program(t, "1.0.0", "", s390))
	_, err := s.Resolve(t.Context(), c, oci.Wanted{Ref: ref})
	wantError(t, err, "has no program for "+host.String())
	joined := pushProgram(t, c, ref, program(t, "1.0.0", "signature", host))
	for _, w := range []oci.Wanted{{Ref: ref}, {Ref: ref.Pinned(joined.Digest)}} {
		k, err := s.Resolve(t.Context(), c, w)
		if err != nil || k.Stale != nil || k.Unkept != nil {
			t.Fatalf("%v, %+v", err, k)
		}
		checkProgram(t, k.Artifact, "1.0.0", "signature", host)
		if k, err = s.Last(w); err != nil || k.Digest != joined.Digest {
			t.Fatalf("%v", err)
		}
		checkProgram(t, k.Artifact, "1.0.0", "signature", host)
	}
	spoilEach(t, dir, joined, func() error { _, err := s.Last(oci.Wanted{Ref: ref}); return err })
}
