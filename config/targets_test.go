package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/probe"
)

const targetsHead = "apiVersion: prober.dev/v1\nkind: AgentConfig\n"

func TestParseTargets(t *testing.T) {
	a, err := config.Parse("prober.yaml", []byte(targetsHead+`
modules:
- {name: http_2xx, probe: {httpGet: {path: /}}}
targets:
- {name: a, module: http_2xx, static: [h]}
- name: b
  namespace: apart
  kind: liveness
  probe: {tcpSocket: {}}
  labels: {x: "1"}
  file: [a.json]
  http: [{url: "https://h/p?q", bearerTokenFile: t}]
  dns: [{srv: _a._tcp.b, server: "::1", refresh: 1s}]
  command: [{run: [/bin/x, y], timeout: 1m}]
  relabel: [{name: n}, {labels: {l: ""}}]
uplink: [b, a]
`))
	if err != nil {
		t.Fatal(err)
	}
	first, second := a.Targets[0], a.Targets[1]
	if first.Namespace != "targets" || first.Kind != probe.Readiness || string(a.ModuleOf(&first).JSON) != `{"httpGet":{"path":"/"}}` {
		t.Errorf("got %+v", first)
	}
	if second.Namespace != "apart" || second.Kind != probe.Liveness || string(a.ModuleOf(&second).JSON) != `{"tcpSocket":{}}` || second.Labels["x"] != "1" {
		t.Errorf("got %+v", second)
	}
	for _, diff := range []string{
		cmp.Diff([]config.HTTPTargets{{URL: "https://h/p?q", BearerTokenFile: "t", Refresh: 30 * time.Second, Timeout: 10 * time.Second}}, second.HTTP),
		cmp.Diff([]config.DNSTargets{{SRV: "_a._tcp.b", Server: "[::1]:53", Refresh: time.Second}}, second.DNS),
		cmp.Diff([]config.CommandTargets{{Run: []string{"/bin/x", "y"}, Refresh: 30 * time.Second, Timeout: time.Minute}}, second.Commands),
		cmp.Diff([]string{"a.json"}, second.Files),
	} {
		if diff != "" {
			t.Error(diff)
		}
	}
	if diff := cmp.Diff([]string{"b", "a"}, a.WitnessGroups()); diff != "" {
		t.Error(diff)
	}
	if len(second.Relabel) != 2 || second.Relabel[0].Name != "n" || second.Relabel[1].Path != "targets[1].relabel[1]" {
		t.Errorf("got %+v", second.Relabel)
	}
}

func TestParseRefusesBadTargets(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"targets: [{name: g, static: [h]}]", "targets[0]: must have a module or a probe"},
		{"targets: [{name: g, probe: {}}]", "targets[0]: must have at least one of static, file, http, dns and command"},
		{"targets: [{name: G, probe: {}, static: [h]}]", `targets[0].name: "G" must be at most 40 lower-case letters, digits and dashes, and not begin or end with a dash`},
		{"targets: [{name: " + strings.Repeat("g", 41) + ", probe: {}, static: [h]}]", `targets[0].name: "` + strings.Repeat("g", 41) + `" must be at most 40 lower-case letters, digits and dashes, and not begin or end with a dash`},
		{"targets: [{name: g, probe: {}, module: m, static: [h]}]\nmodules: [{name: m, probe: {}}]", "targets[0].probe: must not be set together with module"},
		{"targets: [{name: g, module: htp, static: [h]}]\nmodules: [{name: http, probe: {}}]", `targets[0].module: unknown module "htp"; known: http (did you mean "http"?)`},
		{"modules: [{name: m, probe: {}}, {name: m, probe: {}}]", `modules[1].name: "m" is set twice, first on line 3`},
		{"modules: [{name: a b, probe: {}}]", `modules[0].name: "a b" is not the name of a module: must be at most 63 letters, digits, dashes, dots and underscores`},
		{"modules: [{name: m, probe: x}]", "modules[0].probe: must be a mapping, not a string"},
		{"targets: [{name: g, probe: {}, static: [h]}, {name: g, probe: {}, static: [h]}]", `targets[1].name: "g" is set twice, first on line 3`},
		{"targets: [{name: g, probe: {}, kind: live, static: [h]}]", `targets[0].kind: unknown kind "live"; known: liveness, readiness, startup`},
		{"targets: [{name: g, probe: {}, file: ['[']}]", `targets[0].file[0]: "[": syntax error in pattern`},
		{"targets: [{name: g, probe: {}, http: [{url: 'ftp://h'}]}]", "targets[0].http[0].url: must be an http:// or https:// URL"},
		{"targets: [{name: g, probe: {}, http: [{url: 'http://u:p@h'}]}]", "targets[0].http[0].url: must not have a user or a password: use bearerTokenFile"},
		{"targets: [{name: g, probe: {}, http: [{url: 'http://h', refresh: 10ms}]}]", "targets[0].http[0].refresh: must be from 1s to 24h0m0s"},
		{"targets: [{name: g, probe: {}, dns: [{srv: a, server: dns.example}]}]", `targets[0].dns[0].server: "dns.example" must be the IP address of a name server, and may have a port`},
		{"targets: [{name: g, probe: {}, command: [{run: [ls]}]}]", "targets[0].command[0].run: must begin with the absolute path of a program"},
		{"targets: [{name: g, probe: {}, command: [{run: []}]}]", "targets[0].command[0].run: must begin with the absolute path of a program"},
		{"uplink: [gate]\ntargets: [{name: gates, probe: {}, static: [h]}]", `uplink[0]: unknown group of targets "gate"; known: gates (did you mean "gates"?)`},
		{"uplink: [{}]", "uplink[0]: must be a string, not a mapping"},
		{"uplink: gates", "uplink: must be a list, not a string"},
		{"uplink: ['']", "uplink[0]: must not be empty"},
		{"targets: [{name: g, probe: {}, static: [h], relabel: [{name: a, drop: b}]}]", "targets[0].relabel[0]: must have exactly one of address, drop, labels, name"},
	} {
		_, err := config.Parse("prober.yaml", []byte(targetsHead+c.text+"\n"))
		if got := fmt.Sprint(err); got != "prober.yaml:3: "+c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.text, got, c.want)
		}
	}
}
