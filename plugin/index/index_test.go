package index_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/index"
)

const head = "apiVersion: prober.dev/v1\nkind: PluginIndex\n"

var digest = "sha256:" + strings.Repeat("0", 64)

func TestAddAndEncode(t *testing.T) {
	x := &index.Index{}
	add := func(name, version string) {
		m, err := plugin.ParseManifest("plugin.yaml", fmt.Appendf(nil, "apiVersion: prober.dev/v1\nname: %s\nversion: %s\ndescription: %s of %s\nrequests: [{capability: kv}]\n", name, version, version, name))
		if err != nil {
			t.Fatal(err)
		}
		x.Add(m, "ghcr.io/me/"+name+"@"+digest, digest, nil)
	}
	for _, version := range []string{"1.9.0", "1.10.0", "1.2.0", "1.10.0", "2.0.0-rc.1"} {
		add("b", version)
	}
	add("a", "0.1.0-rc.1")
	data, err := x.Encode()
	if err != nil {
		t.Fatal(err)
	}
	read, err := index.Parse("index.yaml", data)
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	p, ok := read.Find("b")
	if !ok || len(p.Versions) != 4 || p.Newest("").Version != "1.10.0" || p.Newest("2.0.0-rc.0").Version != "2.0.0-rc.1" || p.Description != "2.0.0-rc.1 of b" {
		t.Errorf("%+v", p)
	}
	if v, ok := p.Version("1.2.0"); !ok || len(v.Requests) != 1 || v.Requests[0] != "kv" {
		t.Errorf("%+v", v)
	}
	if a, ok := read.Find("a"); !ok || a.Newest("").Version != "0.1.0-rc.1" || !a.Matches("0.1.0-RC") || a.Matches("zz") {
		t.Errorf("%+v", a)
	}
	if _, ok := read.Find("c"); ok {
		t.Error("found c")
	}
}

func TestBadIndexes(t *testing.T) {
	version := "{version: 1.0.0, source: ghcr.io/me/a@" + digest + "}"
	for name, tc := range map[string]struct{ text, want string }{
		"kind":             {"apiVersion: prober.dev/v1\nkind: PluginLock\nplugins: []\n", `index.yaml:2: kind`},
		"name":             {head + "plugins: [{name: A_b, versions: [" + version + "]}]", `plugins[0].name: "A_b" is not the name of a plugin`},
		"twice":            {head + "plugins:\n- {name: a, versions: [" + version + "]}\n- {name: a, versions: [" + version + "]}", `index.yaml:5: plugins[1].name: "a" is set twice, first on line 4`},
		"version twice":    {head + "plugins: [{name: a, versions: [" + version + "," + version + "]}]", `version "1.0.0" is set twice`},
		"no version":       {head + "plugins: [{name: a, versions: []}]", "plugins[0].versions: must have a version"},
		"tag alone":        {head + "plugins: [{name: a, versions: [{version: 1, source: ghcr.io/me/a:1}]}]", "must have an @sha256:DIGEST"},
		"path":             {head + "plugins: [{name: a, versions: [{version: 1, source: ../a.wasm, digest: " + digest + "}]}]", `"../a.wasm" is neither a reference with a digest, nor a path below the folder of the index`},
		"absolute path":    {head + "plugins: [{name: a, versions: [{version: 1, source: /a.wasm, digest: " + digest + "}]}]", "is neither a reference"},
		"URL":              {head + "plugins: [{name: a, versions: [{version: 1, source: 'https://a/b', digest: " + digest + "}]}]", "is neither a reference"},
		"no digest":        {head + "plugins: [{name: a, versions: [{version: 1, source: a.wasm}]}]", "digest: is required, since the source has none"},
		"wrong digest":     {head + "plugins: [{name: a, versions: [{version: 1, source: a.wasm, digest: sha256:00}]}]", "is not a digest"},
		"long text":        {head + "plugins: [{name: a, description: " + strings.Repeat("x", 501) + ", versions: [" + version + "]}]", "plugins[0].description: has 501 bytes; at most 500 are allowed"},
		"unknown":          {head + "plugins: [{name: a, run: x, versions: [" + version + "]}]", "plugins[0].run: unknown field"},
		"too large":        {head + "plugins: []\n" + strings.Repeat("#\n", index.MaxSize/2), "at most"},
		"too many plugins": {head + "plugins: [" + strings.Repeat("1,", index.MaxPlugins) + "1]", "plugins: has 5001 items; at most 5000 are allowed"},
	} {
		if _, err := index.Parse("index.yaml", []byte(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %.300v, want %s", name, err, tc.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(head + "plugins: [{name: a, versions: [{version: 1, source: a.wasm, digest: " + digest + "}]}]"))
	f.Add([]byte(head + "plugins: []"))
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := index.Parse("index.yaml", data)
		if err != nil {
			return
		}
		if _, err := x.Encode(); err != nil {
			t.Errorf("%v: %q", err, data)
		}
	})
}
