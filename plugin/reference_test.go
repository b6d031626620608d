package plugin_test

import (
	"strings"
	"testing"

	"github.com/daeace23/prober/plugin"
)

func TestParseReference(t *testing.T) {
	digest := plugin.Digest(nil)
	for text, want := range map[string]plugin.Reference{
		"ghcr.io/me/demo:1.0.0":              {Registry: "ghcr.io", Repository: "me/demo", Tag: "1.0.0"},
		"oci://ghcr.io/me/demo:1.0.0":        {Registry: "ghcr.io", Repository: "me/demo", Tag: "1.0.0"},
		"oci://registry/demo@" + digest:      {Registry: "registry", Repository: "demo", Digest: digest},
		"localhost/demo:v_1@" + digest:       {Registry: "localhost", Repository: "demo", Tag: "v_1", Digest: digest},
		"127.0.0.1:5000/a/b__c/d--e:latest":  {Registry: "127.0.0.1:5000", Repository: "a/b__c/d--e", Tag: "latest"},
		"[::1]:5000/demo:1":                  {Registry: "[::1]:5000", Repository: "demo", Tag: "1"},
		"REGISTRY.example.com:443/demo:Beta": {Registry: "REGISTRY.example.com:443", Repository: "demo", Tag: "Beta"},
	} {
		got, err := plugin.ParseReference(text)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
		if again := got.String(); again != strings.TrimPrefix(text, "oci://") {
			t.Errorf("%s: String() is %s", text, again)
		}
	}
}

func TestParseReferenceErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "must be HOST/REPOSITORY:TAG",
		"demo:1":                               "must be HOST/REPOSITORY:TAG",
		"plugins/demo.wasm:1":                  "with a full host name",
		"oci:///demo:1":                        `"" is not a registry`,
		"oci://me@host/demo:1":                 `"me@host" is not a registry`,
		"a b.c/demo:1":                         `"a b.c" is not a registry`,
		"ghcr.io/me/demo":                      "must have a :TAG or an @sha256:DIGEST",
		"ghcr.io/Me/demo:1":                    `"Me/demo" is not a repository`,
		"ghcr.io/me/../demo:1":                 `"me/../demo" is not a repository`,
		"ghcr.io/me//demo:1":                   `"me//demo" is not a repository`,
		"ghcr.io/:1":                           `"" is not a repository`,
		"ghcr.io/demo:":                        `"" is not a tag`,
		"ghcr.io/demo:a/b":                     `"a/b" is not a tag`,
		"ghcr.io/demo:1@sha256:12":             `"sha256:12" is not a digest`,
		"ghcr.io/demo@sha512:00":               `"sha512:00" is not a digest`,
		"ghcr.io/demo@":                        `"" is not a digest`,
		"https://ghcr.io/demo:1":               `"https" is not a scheme that prober knows; known: oci`,
		"ghcr.io/" + strings.Repeat("a", 1100): "more than 1024 bytes",
	} {
		got, err := plugin.ParseReference(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want %q", text, got, err, want)
		}
	}
}

func FuzzParseReference(f *testing.F) {
	f.Add("oci://ghcr.io/me/demo:1.0.0@" + plugin.Digest(nil))
	f.Add("[::1]:5000/a/b:c")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := plugin.ParseReference(text)
		if err != nil {
			return
		}
		if again, err := plugin.ParseReference(plugin.OCIScheme + r.String()); err != nil || again != r {
			t.Errorf("%q: %+v, then %+v, %v", text, r, again, err)
		}
	})
}
