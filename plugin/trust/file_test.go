package trust_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/trust"
)

// The file at the path changes after the plugin has been read.
func TestCheckUsesBytesThatWereRead(t *testing.T) {
	dir := t.TempDir()
	key, stranger := private(t), private(t)
	good, evil := module(t, "good"), module(t, "evil")
	write(t, filepath.Join(dir, "good"), string(good))
	write(t, filepath.Join(dir, "evil"), string(evil))
	path := filepath.Join(dir, "demo.wasm")
	point := func(to string) {
		t.Helper()
		if err := os.Symlink(to, path+".new"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	policy, err := trust.New(trust.Config{Keys: []trust.Key{key.Key}, Require: true})
	if err != nil {
		t.Fatal(err)
	}
	write(t, path+".sig", string(sign(t, key, found(good), nil)))

	point("good")
	all, err := plugin.Find([]string{dir})
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	point("evil") // between the read and the check
	if v, err := policy.Check(all[0]); err != nil || v.State != trust.Signed || plugin.Digest(all[0].Module) != plugin.Digest(good) {
		t.Errorf("what was read and signed: got %v, %v", v, err)
	}
	all, err = plugin.Find([]string{dir})
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	point("good")
	_, err = policy.Check(all[0])
	refused(t, err, "is not of this plugin, "+plugin.Digest(evil))

	// Check does not use the field Digest, which may be wrong.
	claimed := all[0]
	claimed.Digest = plugin.Digest(good)
	_, err = policy.Check(claimed)
	refused(t, err, plugin.Digest(evil))

	write(t, path+".sig", string(sign(t, stranger, found(evil), nil)))
	_, err = policy.Check(all[0])
	refused(t, err, stranger.ID+", which is not trusted")
}

// unreadable makes a signature file that cannot be read. want is in the error.
type unreadable struct {
	name, want string
	make       func(path string) error
}

// pipes are the unreadable files that only some systems have.
var pipes []unreadable

func TestUnreadableSignatureIsRefused(t *testing.T) {
	key := private(t)
	policy, err := trust.New(trust.Config{Keys: []trust.Key{key.Key}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range append([]unreadable{
		{"a folder", "not a regular file", func(path string) error { return os.Mkdir(path, 0o700) }},
		{"a link to itself", "too many", func(path string) error { return os.Symlink(filepath.Base(path), path) }},
		{"oversized", "more than 262144 bytes", func(path string) error { return os.WriteFile(path, make([]byte, 1<<20), 0o600) }},
	}, pipes...) {
		for _, suffix := range []string{".sig", ".cosign.sig", ".cosign.bundle", ".sigstore.json"} {
			t.Run(c.name+suffix, func(t *testing.T) {
				f := found(module(t, "one"))
				f.Path = filepath.Join(t.TempDir(), "demo.wasm")
				if err := c.make(f.Path + suffix); err != nil {
					t.Fatal(err)
				}
				_, err := policy.Check(f)
				refused(t, err, suffix+": ", c.want)
			})
		}
	}
}

func TestManifestBesideIsSigned(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	key := private(t)
	policy, err := trust.New(trust.Config{Keys: []trust.Key{key.Key}, Require: true})
	if err != nil {
		t.Fatal(err)
	}
	path, yaml := filepath.Join(dir, "demo.wasm"), filepath.Join(dir, "plugin.yaml")
	load := func() plugin.Found {
		t.Helper()
		all, err := plugin.Find([]string{filepath.Dir(dir)})
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		return all[0]
	}
	signIt := func() {
		t.Helper()
		f, err := trust.Read(path)
		if err != nil {
			t.Fatal(err)
		}
		write(t, path+".sig", string(sign(t, key, *f, nil)))
	}
	write(t, path, "\x00asm\x01\x00\x00\x00\x00\x20")
	if f, err := trust.Read(path); f == nil || err == nil || !strings.Contains(err.Error(), "truncated") {
		t.Errorf("got %v, %v for a module that is cut off", f, err)
	}
	write(t, path, "\x00asm\x01\x00\x00\x00")
	if _, err := trust.Read(path); err == nil || !strings.Contains(err.Error(), "and there is no plugin.yaml beside it") {
		t.Errorf("got %v for a module without a manifest", err)
	}
	write(t, yaml, manifest)
	signIt()
	if v, err := policy.Check(load()); err != nil || v.State != trust.Signed {
		t.Errorf("got %v, %v", v, err)
	}
	more := manifest + "requests: [{capability: net, allow: ['tcp://*:*'], reason: more}]\n"
	write(t, yaml, more)
	_, err = policy.Check(load())
	refused(t, err, "with the manifest "+plugin.Digest([]byte(more)))

	// If a module has the same manifest inside, the signature covers the module only, so that the
	// module can be copied without plugin.yaml.
	inside, err := plugin.Embed([]byte("\x00asm\x01\x00\x00\x00"), []byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, string(inside))
	write(t, yaml, manifest)
	signIt()
	f := load()
	if v, err := policy.Check(f); err != nil || v.State != trust.Signed || f.Beside != "" {
		t.Errorf("got %v, %v, beside %q", v, err, f.Beside)
	}
	write(t, yaml, more) // takes precedence over the one inside
	_, err = policy.Check(load())
	refused(t, err, "with the manifest "+plugin.Digest([]byte(more)))
}

func TestReadProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "prober-plugin-demo")
	write(t, path, "#!/bin/sh\n")
	if _, err := trust.Read(path); err == nil {
		t.Error("a program without a manifest is read")
	}
	write(t, path+".yaml", manifest)
	f, err := trust.Read(path)
	if err != nil || f.Beside != plugin.Digest([]byte(manifest)) || f.Digest != plugin.Digest([]byte("#!/bin/sh\n")) {
		t.Errorf("got %+v, %v", f, err)
	}
	if _, err := trust.Read(filepath.Dir(path)); err == nil || !strings.Contains(err.Error(), "there is no plugin.yaml in this folder") {
		t.Errorf("got %v for a folder", err)
	}
}

func TestReadLargeManifestIsError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plugin.yaml")
	write(t, path, manifest+"runtime: nagios\ncommand: [sh]\n"+strings.Repeat("#", plugin.MaxManifest))
	if f, err := trust.Read(path); err == nil {
		t.Errorf("read %d bytes", len(f.Module))
	}
}
