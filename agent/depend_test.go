package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/agent/depend"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/probe"
)

// A profile of the kubelet counts trouble of the host as failures, and so has no uplink. It has dependencies.
func TestCompatHasDependenciesAndNoUplink(t *testing.T) {
	c, err := config.Parse("prober.yaml", []byte(`apiVersion: prober.dev/v1
kind: AgentConfig
targets:
- {name: gw, probe: {tcpSocket: {port: 1}}, static: [h]}
- {name: web, probe: {tcpSocket: {port: 1}}, static: [h], dependsOn: [gw]}
uplink: [gw]
`))
	if err != nil {
		t.Fatal(err)
	}
	want := depend.Rules{Uplink: []string{"gw"}, DependsOn: map[string][]string{"web": {"gw"}}}
	if diff := cmp.Diff(want, (&Agent{}).dependencies(c)); diff != "" {
		t.Error(diff)
	}
	want.Uplink = nil
	a := &Agent{cfg: Config{Compat: probe.CompatKubeletV1_36}}
	if diff := cmp.Diff(want, a.dependencies(c)); diff != "" {
		t.Error(diff)
	}
}
