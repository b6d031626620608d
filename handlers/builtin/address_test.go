package builtin_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/handlers/builtin/internal/rig"
	"github.com/daeace23/prober/probe"
)

var found = &probe.Container{Name: "c", Ports: []probe.Port{{Name: "found", Number: 93, Protocol: "TCP"}}}

// Reported as kubernetes 139283.
func TestAddress(t *testing.T) {
	for _, h := range []struct {
		name         string
		new          func(builtin.Config) probe.Preparer
		bad, good    string
		withHostPath string
	}{
		{
			"http", func(c builtin.Config) probe.Preparer { return builtin.NewHTTP(c) },
			"#70 HTTP port %s is an error", "#71 HTTP port %s", `{"host":"other","port":76,"path":"/p"}`,
		},
		{
			"tcp", func(c builtin.Config) probe.Preparer { return builtin.NewTCP(c) },
			"#72 TCP port %s is an error", "#72 TCP port %s", `{"host":"other","port":76}`,
		},
	} {
		for port, text := range map[string]string{
			`-1`:          "invalid port number: -1",
			`""`:          `port "" not found: container "c" has found (93)`,
			`"-1"`:        `port "-1" not found: container "c" has found (93)`,
			`"118"`:       `port "118" not found: container "c" has found (93)`,
			`"not-found"`: `port "not-found" not found: container "c" has found (93)`,
		} {
			t.Run(fmt.Sprintf(h.bad, port), func(t *testing.T) {
				var network rig.Network
				p := rig.Prepare(t, h.new(builtin.Config{DialContext: network.DialContext}), `{"port":`+port+`}`)
				got, err := rig.Attempt(t, p, probe.Request{PodIP: "1.2.3.4", Container: found}, time.Minute)
				if err == nil || err.Error() != text || got.Result != probe.Unknown {
					t.Errorf("got %v, %v; want error %q", got.Result, err, text)
				}
				if dials := network.Dials(); len(dials) > 0 {
					t.Errorf("dialled %v", dials)
				}
			})
		}
		for config, address := range map[string]string{
			`{"port":"found"}`: "1.2.3.4:93",
			`{"port":76}`:      "1.2.3.4:76",
			h.withHostPath:     "other:76",
		} {
			t.Run(fmt.Sprintf(h.good, config), func(t *testing.T) {
				var network rig.Network
				p := rig.Prepare(t, h.new(builtin.Config{DialContext: network.DialContext}), config)
				got, err := rig.Attempt(t, p, probe.Request{PodIP: "1.2.3.4", Container: found}, time.Minute)
				if err != nil || got.Result != probe.Failure {
					t.Errorf("got %v, %v; want a failure: nobody listens", got.Result, err)
				}
				rig.WantReason(t, got, probe.ReasonConnectRefused)
				if dials := network.Dials(); !slices.Equal(dials, []string{address}) {
					t.Errorf("dialled %v, want %s", dials, address)
				}
			})
		}
	}
}

// TestCompatPortNumbers checks named ports with and without [probe.CompatPortNumbers].
func TestCompatPortNumbers(t *testing.T) {
	for port, want := range map[string]struct{ dialled, err string }{
		`"found"`:     {"1.2.3.4:93", ""},
		`"118"`:       {"1.2.3.4:118", ""},
		`"-1"`:        {"", "invalid port number: -1"},
		`""`:          {"", `strconv.Atoi: parsing "": invalid syntax`},
		`"not-found"`: {"", `strconv.Atoi: parsing "not-found": invalid syntax`},
	} {
		for name, make := range map[string]func(builtin.Config) probe.Preparer{
			"HTTP": func(c builtin.Config) probe.Preparer { return builtin.NewHTTP(c) },
			"TCP":  func(c builtin.Config) probe.Preparer { return builtin.NewTCP(c) },
		} {
			t.Run(fmt.Sprintf("#70 #71 #72 %s port %s before 1.37", name, port), func(t *testing.T) {
				var network rig.Network
				p := rig.Prepare(t, make(builtin.Config{DialContext: network.DialContext, Compat: probe.CompatPortNumbers}), `{"port":`+port+`}`)
				_, err := rig.Attempt(t, p, probe.Request{PodIP: "1.2.3.4", Container: found}, time.Minute)
				if (err != nil || want.err != "") && (err == nil || err.Error() != want.err) {
					t.Errorf("got %v, want %q", err, want.err)
				}
				if dials := strings.Join(network.Dials(), " "); dials != want.dialled {
					t.Errorf("dialled %s, want %s", dials, want.dialled)
				}
			})
		}
	}
}

func TestAddressOfTarget(t *testing.T) {
	cases := []struct {
		name             string
		config           string
		prepared, asked  probe.Target
		podIP, want, err string
	}{
		{"the request's target before the pod", `{"port":1}`, probe.Target{}, probe.Target{Host: "h"}, "ip", "h:1", ""},
		{"the probe's target before the pod", `{"port":1}`, probe.Target{Host: "h"}, probe.Target{}, "ip", "h:1", ""},
		{"the action before the target", `{"port":1,"host":"a"}`, probe.Target{Host: "h", Port: 2}, probe.Target{Host: "g", Port: 3}, "ip", "a:1", ""},
		{"the target's port", `{}`, probe.Target{Port: 2}, probe.Target{}, "ip", "ip:2", ""},
		{"the request's port", `{}`, probe.Target{Port: 2}, probe.Target{Port: 3}, "ip", "ip:3", ""},
		{"IPv6", `{"port":1}`, probe.Target{}, probe.Target{}, "fd00::1", "[fd00::1]:1", ""},
		{"a socket", `{}`, probe.Target{Unix: "/s"}, probe.Target{}, "ip", "/s", ""},
		{"a socket and a port", `{"port":1}`, probe.Target{}, probe.Target{Unix: "/s"}, "ip", "/s", ""},
		{"no port", `{}`, probe.Target{}, probe.Target{Host: "h"}, "ip", "", "invalid port number: 0"},
	}
	for _, c := range cases {
		for name, h := range map[string]func(builtin.Config) probe.Preparer{
			"tcp":  func(c builtin.Config) probe.Preparer { return builtin.NewTCP(c) },
			"http": func(c builtin.Config) probe.Preparer { return builtin.NewHTTP(c) },
		} {
			t.Run(name+" "+c.name, func(t *testing.T) {
				var network rig.Network
				p, err := h(builtin.Config{DialContext: network.DialContext}).Prepare([]byte(c.config), c.prepared)
				if err != nil {
					t.Fatal(err)
				}
				_, err = rig.Attempt(t, p, probe.Request{PodIP: c.podIP, Target: c.asked}, time.Minute)
				if (err != nil) != (c.err != "") || err != nil && err.Error() != c.err {
					t.Errorf("error %v, want %q", err, c.err)
				}
				if dials := network.Dials(); c.err == "" && !slices.Equal(dials, []string{c.want}) {
					t.Errorf("dialled %v, want %s", dials, c.want)
				}
			})
		}
	}
}
