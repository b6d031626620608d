package trust_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/trust"
)

const lockHead = "apiVersion: prober.dev/v1\nkind: PluginLock\n"

func named(t *testing.T, name, version, text string) plugin.Found {
	t.Helper()
	f := found(module(t, text))
	f.Path = name + ".wasm"
	f.Manifest = plugin.Minimal(name)
	f.Manifest.Version = version
	return f
}

func TestLock(t *testing.T) {
	b, a := named(t, "b", "1.0", "b"), named(t, "a", "2", "a")
	a.Beside = plugin.Digest([]byte(manifest))
	key := private(t)
	lock := trust.NewLock([]plugin.Found{b, a}, func(f plugin.Found) string {
		if f.Manifest.Name == "a" {
			return key.ID
		}
		return ""
	})
	data, err := lock.Encode()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), trust.LockFile)
	write(t, file, string(data))
	got, err := trust.ReadLock(file)
	if err != nil {
		t.Fatal(err)
	}
	want := []trust.Locked{
		{Name: "a", Version: "2", Digest: a.Digest, Manifest: a.Beside, Signer: key.ID, Source: "a.wasm"},
		{Name: "b", Version: "1.0", Digest: b.Digest, Source: "b.wasm"},
	}
	if diff := cmp.Diff(want, got.Plugins, cmpopts.IgnoreUnexported(trust.Locked{})); diff != "" {
		t.Errorf("(-want +got)\n%s\n%s", diff, data)
	}
	for _, f := range []plugin.Found{a, b} {
		if err := got.Check(f); err != nil {
			t.Errorf("%s: %v", f.Path, err)
		}
	}
	again, err := trust.NewLock([]plugin.Found{a, b}, func(plugin.Found) string { return "" }).Encode()
	if err != nil || strings.Replace(string(data), "    signer: "+key.ID+"\n", "", 1) != string(again) {
		t.Errorf("another order gives another file (%v):\n%s", err, again)
	}
	changed, moved, stranger := named(t, "b", "1.0", "changed"), a, named(t, "c", "1", "c")
	moved.Beside = ""
	lying := changed
	lying.Digest = b.Digest // Check must use the bytes
	for _, c := range []struct {
		f    plugin.Found
		want string
	}{
		{changed, file + `:11: plugins[1]: plugin "b" of b.wasm: its digest is ` + changed.Digest + ", the lock has " + b.Digest},
		{lying, file + `:11: plugins[1]: plugin "b" of b.wasm: its digest is ` + changed.Digest + ", the lock has " + b.Digest},
		{moved, `plugins[0]: plugin "a" of a.wasm: the digest of the manifest beside it is none, the lock has ` + a.Beside},
		{stranger, file + `: plugin "c" of c.wasm is not in the lock`},
	} {
		if err := got.Check(c.f); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

func TestParseLockErrors(t *testing.T) {
	digest := plugin.Digest(nil)
	entry := func(fields string) string { return lockHead + "plugins:\n- {" + fields + "}\n" }
	whole := "name: a, version: '1', source: a.wasm, digest: "
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "l:1: the file is empty"},
		{"cut off", lockHead, "l:1: plugins: the field is required"},
		{"bad YAML", lockHead + "plugins: [\n", "l:3: did not find expected node content"},
		{"another kind", "apiVersion: prober.dev/v1\nkind: AgentConfig\nplugins: []\n", `l:2: kind: must be "PluginLock", not "AgentConfig"`},
		{"another version", "apiVersion: prober.dev/v2\nkind: PluginLock\nplugins: []\n", `l:1: apiVersion: must be "prober.dev/v1", not "prober.dev/v2"`},
		{"an unknown field", lockHead + "plugin: []\nplugins: []\n", "l:3: plugin: unknown field; known: apiVersion, kind, plugins (did you mean \"plugins\"?)"},
		{"two documents", lockHead + "plugins: []\n---\na: b\n", "l:5: must be one document"},
		{"no list", lockHead + "plugins: {}\n", "l:3: plugins: must be a list, not a mapping"},
		{"no mapping", lockHead + "plugins: [a]\n", "l:3: plugins[0]: must be a mapping, not a string"},
		{"null", lockHead + "plugins:\n", "l:3: plugins: must be a list, not null"},
		{"no digest", entry("name: a, version: '1', source: a.wasm"), "l:4: plugins[0].digest: the field is required"},
		{"an empty digest", entry(whole + "''"), `l:4: plugins[0].digest: "" is not a digest: must be sha256:`},
		{"a null digest", entry(whole + "null"), `l:4: plugins[0].digest: must be a string, not null`},
		{"a short digest", entry(whole + digest[:70]), "plugins[0].digest"},
		{"another digest", entry(whole + strings.Replace(digest, "sha256", "sha1", 1)), "plugins[0].digest"},
		{"a digest in upper case", entry(whole + "sha256:" + strings.ToUpper(digest[7:])), "64 hexadecimal digits in lower case"},
		{"a digest twice", entry(whole + digest + ", digest: " + digest), "l:4: plugins[0].digest: the field is set twice"},
		{"a digest by alias", lockHead + "plugins: [{name: a, version: &v x, source: x, digest: *v}]\n", "plugins[0].digest"},
		{"a bad name", entry("name: A, version: '1', source: x, digest: " + digest), `plugins[0].name: "A" is not the name of a plugin`},
		{"a bad signer", entry(whole + digest + ", signer: me"), `plugins[0].signer: "me" is not the ID of a key: must be 32 hexadecimal digits`},
		{"a name twice", entry(whole+digest) + "- {" + whole + digest + "}\n", `l:5: plugins[1].name: "a" is set twice, first on line 4`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := trust.ParseLock("l", []byte(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	if _, err := trust.ReadLock(filepath.Join(t.TempDir(), "nosuch")); err == nil {
		t.Error("a lock that is not there is read")
	}
}

// A lock admits the plugins with its digests, and no others.
func FuzzLock(f *testing.F) {
	code := module(f, "one")
	f.Add([]byte(lockHead + "plugins:\n- {name: demo, version: '1', source: x, digest: " + plugin.Digest(code) + "}\n"))
	f.Add([]byte(lockHead + "plugins: []\n---\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		lock, err := trust.ParseLock("l", data)
		if err != nil {
			return
		}
		names := slices.ContainsFunc(lock.Plugins, func(p trust.Locked) bool {
			return p.Name == "demo" && p.Digest == plugin.Digest(code) && p.Manifest == ""
		})
		if err := lock.Check(found(code)); (err == nil) != names {
			t.Errorf("%q: got %v", data, err)
		}
		text, err := lock.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := trust.ParseLock("l", text); err != nil {
			t.Errorf("%q is written as %q: %v", data, text, err)
		}
	})
}
