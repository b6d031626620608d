package builtin_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

var found = &probe.Container{Name: "c", Ports: []probe.Port{{Name: "found", Number: 93, Protocol: "TCP"}}}

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
			`""`:          `strconv.Atoi: parsing "": invalid syntax`,
			`"-1"`:        "invalid port number: -1",
			`"not-found"`: `strconv.Atoi: parsing "not-found": invalid syntax`,
		} {
			t.Run(fmt.Sprintf(h.bad, port), func(t *testing.T) {
				var network probetest.Network
				p := prepare(t, h.new(builtin.Config{DialContext: network.DialContext}), `{"port":`+port+`}`)
				got, err := attempt(t, p, probe.Request{PodIP: "1.2.3.4", Container: found}, time.Minute)
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
			`{"port":"118"}`:   "1.2.3.4:118",
			h.withHostPath:     "other:76",
		} {
			t.Run(fmt.Sprintf(h.good, config), func(t *testing.T) {
				var network probetest.Network
				p := prepare(t, h.new(builtin.Config{DialContext: network.DialContext}), config)
				got, err := attempt(t, p, probe.Request{PodIP: "1.2.3.4", Container: found}, time.Minute)
				if err != nil || got.Result != probe.Failure {
					t.Errorf("got %v, %v; want a failure: nobody listens", got.Result, err)
				}
				wantReason(t, got, probe.ReasonConnectRefused)
				if dials := network.Dials(); !slices.Equal(dials, []string{address}) {
					t.Errorf("dialled %v, want %s", dials, address)
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
				var network probetest.Network
				p, err := h(builtin.Config{DialContext: network.DialContext}).Prepare([]byte(c.config), c.prepared)
				if err != nil {
					t.Fatal(err)
				}
				_, err = attempt(t, p, probe.Request{PodIP: c.podIP, Target: c.asked}, time.Minute)
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

func TestResolvePort(t *testing.T) {
	c := &probe.Container{Ports: []probe.Port{{Name: "bar", Number: 80}, {Name: "foo", Number: 8080}}}
	cases := []struct {
		name   string
		port   intstr.IntOrString
		c      *probe.Container
		want   int
		broken bool
	}{
		{"#145 a name that exists", intstr.FromString("bar"), c, 80, false},
		{"#145 a name that is missing", intstr.FromString("baz"), c, 0, true},
		{"#146 443", intstr.FromInt32(443), c, 443, false},
		{"#146 66666", intstr.FromInt32(66666), c, 66666, true},
		{"#146 foo", intstr.FromString("foo"), c, 8080, false},
		{"#146 a missing name", intstr.FromString("foo"), &probe.Container{}, 0, true},
		{"#146 an invalid kind", intstr.IntOrString{Type: 7}, c, -1, true},
		{"no container", intstr.FromString("foo"), nil, 0, true},
		{"65535", intstr.FromInt32(65535), nil, 65535, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := builtin.ResolvePort(c.port, c.c)
			if got != c.want || (err != nil) != c.broken {
				t.Errorf("got %d, %v; want %d, error: %v", got, err, c.want, c.broken)
			}
		})
	}
}
