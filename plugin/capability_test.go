package plugin_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/plugin"
)

func TestCapabilitiesCoverAllImportModules(t *testing.T) {
	want := []string{abi.ModuleCore} // needs no capability
	for _, c := range plugin.Capabilities() {
		want = append(want, c.Module)
		if got, ok := plugin.CapabilityNamed(c.Name); !ok || got.Name != c.Name {
			t.Errorf("CapabilityNamed(%q): got %v %v", c.Name, got, ok)
		}
		if got, ok := plugin.CapabilityOfModule(c.Module); !ok || got.Name != c.Name {
			t.Errorf("CapabilityOfModule(%q): got %v %v", c.Module, got, ok)
		}
	}
	var got []string
	for _, f := range abi.Imports() {
		if !slices.Contains(got, f.Module) {
			got = append(got, f.Module)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-capabilities +abi.Imports)\n%s", diff)
	}
	for _, module := range []string{abi.ModuleCore, abi.ModuleWASI, ""} {
		if c, ok := plugin.CapabilityOfModule(module); ok {
			t.Errorf("CapabilityOfModule(%q): got %v", module, c)
		}
	}
}

func TestCapabilityPatternsAreGrants(t *testing.T) {
	example := strings.NewReplacer("HOST", "db.internal", "PORTS", "80,443", "/PATH", "/run/x", "NAME", "*.internal")
	for _, c := range plugin.Capabilities() {
		if c.Summary == "" || c.Target == (c.Grant != "") {
			t.Errorf("%s: want a summary, and either the target or a grant", c.Name)
		}
		for _, form := range append(c.Patterns, c.Widest...) {
			if _, err := plugin.ParseGrant(example.Replace(form)); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
		}
	}
	if _, err := plugin.ParseGrants(plugin.WidestGrants()); err != nil {
		t.Error(err)
	}
}

func TestCapabilityGrantedBy(t *testing.T) {
	for _, c := range []struct {
		capability, grants string
		want               bool
	}{
		{"net", "", true},
		{"http", "!tcp://db:1", true},
		{"dns", "", false},
		{"dns", "dns", true},
		{"dns", "dns://*.internal", true},
		{"dns", "!dns", false},
		{"dns", "kv target tcp://*:*", false},
		{"kv", "kv", true},
		{"kv", "!kv", false},
	} {
		grants, err := plugin.ParseGrants(strings.Fields(c.grants))
		if err != nil {
			t.Fatal(err)
		}
		capability, ok := plugin.CapabilityNamed(c.capability)
		if got := capability.GrantedBy(grants); !ok || got != c.want {
			t.Errorf("%s with %q: got %v, want %v", c.capability, c.grants, got, c.want)
		}
	}
}

func TestRequestPatterns(t *testing.T) {
	for _, c := range []struct {
		request plugin.Request
		want    []string
	}{
		{plugin.Request{Capability: "net"}, []string{"target"}},
		{plugin.Request{Capability: "http", Allow: []string{"https://a:1"}}, []string{"target", "https://a:1"}},
		{plugin.Request{Capability: "net", Allow: []string{"tcp://a:1", "target"}}, []string{"tcp://a:1", "target"}},
		{plugin.Request{Capability: "dns"}, []string{"dns"}},
		{plugin.Request{Capability: "dns", Allow: []string{"dns://a"}}, []string{"dns://a"}},
		{plugin.Request{Capability: "kv"}, []string{"kv"}},
		{plugin.Request{Capability: "none", Allow: []string{"x"}}, []string{"x"}},
	} {
		if diff := cmp.Diff(c.want, c.request.Patterns()); diff != "" {
			t.Errorf("%v: (-want +got)\n%s", c.request, diff)
		}
	}
}
