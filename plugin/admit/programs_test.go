package admit_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/admit"
	"github.com/daeace23/prober/plugin/oci"
	"github.com/daeace23/prober/plugin/trust"
)

// A pin, a signature or a lock must cover the program and its manifest.
func TestProgramOfRegistryMustBeVouchedFor(t *testing.T) {
	h := newHub(t)
	s := newShelf(t)
	program := oci.Program{Code: []byte("a program"), Manifest: []byte("apiVersion: prober.dev/v1\nname: tester\nversion: 1.0.0\n")}
	of := func(p oci.Program) *plugin.Found {
		return &plugin.Found{Module: p.Code, Beside: plugin.Digest(p.Manifest)}
	}
	signature, err := s.key.Sign(of(program), nil)
	if err != nil {
		t.Fatal(err)
	}
	other := program
	other.Manifest = []byte("apiVersion: prober.dev/v1\nname: tester\nversion: 1.0.0\nlimits: {instances: 64}\n")
	lockFile := func(p oci.Program) string {
		m, err := plugin.ParseManifest("", p.Manifest)
		if err != nil {
			t.Fatal(err)
		}
		f := of(p)
		f.Manifest = m
		data, err := trust.NewLock([]plugin.Found{*f}, unsigned).Encode()
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), trust.LockFile)
		write(t, file, string(data))
		return file
	}
	signed, swapped := program, other
	signed.Signature, swapped.Signature = signature, signature
	code, beside := plugin.Digest(program.Code), plugin.Digest(program.Manifest)
	const keys = "trust: {keys: [%s]}\n"
	for _, tc := range []struct {
		name    string
		program oci.Program
		pins    string // of the plugin
		more    string // of the file
		lock    string
		pinned  bool   // source has a digest
		want    string // "": it may be loaded
	}{
		{"nobody", program, "", "", "", false, "is a program, which runs with all permissions of prober: it needs digest and manifest, a source with @sha256:, or the signature of a trusted key"},
		{"a signature that nobody asked for", signed, "", "", "", false, "is a program, which runs with all permissions of prober"},
		{"a source with a digest", program, "", "", "", true, ""},
		{"a key", signed, "", keys, "", false, ""},
		{"a key, of another manifest", swapped, "", keys, "", false, "is not of this plugin"},
		{"a key that did not sign", program, "", keys, "", false, "is a program, which runs with all permissions of prober"},
		{"a digest", program, "  digest: " + code + "\n", "", "", false, "the digest covers oci://"},
		{"a digest, and what is missing", program, "  digest: " + code + "\n", "", "", false, "and not the manifest beside it: set manifest: " + beside + " too, or use a signature or a lock"},
		{"both digests", program, "  digest: " + code + "\n  manifest: " + beside + "\n", "", "", false, ""},
		{"both digests, of another manifest", other, "  digest: " + code + "\n  manifest: " + beside + "\n", "", "", false, "manifest of oci://"},
		{"a digest and a key", signed, "  digest: " + code + "\n", keys, "", false, ""},
		{"a lock", program, "", "", lockFile(program), false, ""},
		{"a lock of another manifest", other, "", "", lockFile(program), false, "the digest of the manifest beside it is " + plugin.Digest(other.Manifest) + ", the lock has " + beside},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ref := ":1"
			if digest := h.PushProgram(t, "tester:1", tc.program); tc.pinned {
				ref = "@" + digest
			}
			more := tc.more
			if more != "" {
				more = fmt.Sprintf(more, s.path("ops.pub"))
			}
			for _, shadow := range []string{"", "  shadow: true\n"} {
				file := filepath.Join(t.TempDir(), "prober.yaml")
				write(t, file, fileHead+"plugins:\n- name: tester\n  plainHTTP: true\n  source: oci://"+h.Host+"/tester"+ref+"\n"+shadow+tc.pins+more)
				a, err := admit.New(admit.Config{ConfigFile: file, LockFile: tc.lock})
				if err != nil {
					t.Fatal(err)
				}
				pulled := a.Pull(t.Context(), admit.NewSources(admit.SourcesConfig{CacheDir: filepath.Join(t.TempDir(), "plugins")}))
				admitted, err := a.Find(nil, nil)
				count := len(admitted)
				if shadow != "" {
					shadows, shadowErr := a.Shadows()
					count, err = len(shadows), shadowErr
				}
				if (err == nil) != (tc.want == "") || (count == 1) != (tc.want == "") {
					t.Fatalf("%d plugins, %v", count, err)
				}
				if err != nil && (!strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n")) {
					t.Errorf("got %v, want %s", err, tc.want)
				}
				if err != nil && pulled[0].Err == nil {
					t.Error("it was kept as one that is good")
				}
			}
		})
	}
}

func TestPinCoversManifestBesideProgram(t *testing.T) {
	s := newShelf(t)
	path := s.path("plugins/prober-plugin-tester")
	write(t, path, "a program")
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, path+".yaml", "apiVersion: prober.dev/v1\nname: tester\nversion: 1.0.0\n")
	f, err := plugin.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	pin := "plugins:\n- name: tester\n  digest: " + f.Digest + "\n"
	both := pin + "  manifest: " + f.Beside + "\n"
	lock := s.lock(trust.NewLock([]plugin.Found{f}, unsigned))
	find := func(want, file string, change ...func(*admit.Config)) {
		t.Helper()
		got, err := s.find(file, change...)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || err == nil && len(got) != 1 {
			t.Errorf("got %v, %v; want %q", got, err, want)
		}
	}
	find("", "plugins: []\n")
	find("prober.yaml:4: plugins[0]: the digest covers "+path+" alone, and not the manifest beside it: set manifest: "+f.Beside+" too", pin)
	find("", both)
	find("", pin, lock)
	s.sign(f)
	find("", pin+"trust: {keys: [ops.pub]}\n")

	// The manifest alone was changed.
	write(t, path+".yaml", "apiVersion: prober.dev/v1\nname: tester\nversion: 1.0.0\nlimits: {instances: 64}\n")
	find("prober.yaml:4: plugins[0]: manifest of "+path+" is sha256:", both)
	find(`plugin "tester" of `+path+": the digest of the manifest beside it is sha256:", pin, lock)
	find("is not of this plugin", pin+"trust: {keys: [ops.pub]}\n")
}
