package kube_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/probe"
)

// allowed parses entries of kubernetes.targets.
func allowed(texts ...string) (all []config.Target) {
	for _, text := range texts {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			all = append(all, config.Target{Prefix: prefix})
		} else {
			all = append(all, config.Target{Host: text})
		}
	}
	return all
}

// A probe must not reach addresses that the author of its pod cannot reach.
func TestTargets(t *testing.T) {
	everything := allowed("0.0.0.0/0", "::/0")
	for _, c := range []struct {
		host    string
		targets []config.Target
		inPod   bool
		want    string // part of the message; "" if it is allowed
	}{
		{"10.1.0.7", nil, false, ""},
		{"fd00:1::7", nil, false, ""},
		{"FD00:1:0::7", nil, false, ""},
		{"[fd00:1::7]", nil, false, ""},
		{"::ffff:10.1.0.7", nil, false, ""},
		{"10.1.0.8", nil, false, "is no address of the pod"},
		{"10.1.0.8", allowed("10.1.0.0/16"), false, ""},
		{"10.2.0.8", allowed("10.1.0.0/16"), false, "is no address of the pod"},
		{"web.shop.svc", nil, false, "is no address of the pod"},
		{"Web.Shop.svc.", allowed("web.shop.svc"), false, ""},
		{"a.web.shop.svc", allowed("web.shop.svc"), false, "is no address of the pod"},
		{"127.0.0.1", nil, false, "would be the node itself"},
		{"127.0.0.1", everything, false, "would be the node itself"},
		{"127.0.0.1", nil, true, ""},
		{"127.9.9.9", nil, true, ""},
		{"::1", nil, true, ""},
		{"::1", everything, false, "would be the node itself"},
		{"::ffff:127.0.0.1", everything, false, "would be the node itself"},
		{"64:ff9b::7f00:1", everything, true, "would be the node itself"}, // NAT64, so it leaves the pod
		{"localhost", nil, false, `"localhost" would be the node itself`},
		{"LOCALHOST.", allowed("localhost"), false, `"localhost" would be the node itself`},
		{"a.localhost", nil, false, "would be the node itself"},
		{"localhost", nil, true, ""},
		{"0.0.0.0", everything, true, "is not the address of a host"},
		{"::", everything, true, "is not the address of a host"},
		{"0.1.2.3", everything, true, "is not the address of a host"},
		{"255.255.255.255", everything, true, "is not the address of a host"},
		{"224.0.0.1", everything, true, "is not the address of a host"},
		{"169.254.169.254", nil, false, "is no address of the pod"},
		{"169.254.169.254", everything, true, "is no address of the pod"},
		{"169.254.169.254", allowed("169.254.169.254/32"), false, ""},
		{"169.254.169.254", allowed("169.254.0.0/16"), false, ""},
		{"169.254.169.254", allowed("169.0.0.0/8"), false, "is no address of the pod"},
		{"::ffff:169.254.169.254", everything, false, "is no address of the pod"},
		{"64:ff9b::a9fe:a9fe", everything, false, "is no address of the pod"},
		{"fe80::1%eth0", everything, false, "is no address of the pod"},
		{"fe80::1", allowed("fe80::/10"), false, ""},
		{"168.63.129.16", allowed("168.0.0.0/8"), false, "is no address of the pod"},
		{"fd00:ec2::254", everything, false, "is no address of the pod"},
		{"127.1", everything, true, "is no address of the pod"}, // parsed as a host name
		{"0x7f000001", everything, true, "is no address of the pod"},
		{"2130706433", everything, true, "is no address of the pod"},
		{"10.1.0.7:80", everything, false, "is no address of the pod"},
	} {
		for _, form := range []string{
			`{httpGet: {path: /r, port: 80, host: %q}, period: 1s}`,
			`{tcpSocket: {port: 80, host: %q}, period: 1s}`,
			`{plugin: {name: redis, target: {host: %q, port: 80}}, period: 1s}`,
			`{plugin: {name: http, config: {port: 80, host: %q}}, period: 1s}`,
			`{plugin: {name: tcp, config: {port: 80}, target: {host: %q}}, period: 1s}`,
		} {
			t.Run(fmt.Sprintf("%s/%v/%t/%.40s", c.host, c.targets, c.inPod, form), func(t *testing.T) {
				bubble(t, func(w *world) {
					pod := podNamed("web", "{web: {readiness: "+fmt.Sprintf(form, c.host)+", liveness: {tcpSocket: {port: 2}, period: 1s}}}")
					if c.inPod {
						pod.Annotations["prober.dev/network"] = "pod"
						w.network[pod.UID] = "/proc/1/ns/net"
					}
					w.cluster.set(pod)
					w.start()
					w.wait(2 * time.Second)
					events := strings.Join(w.takeEvents(), "\n")
					probes := len(w.manager.Probes())
					if c.want == "" && (events != "" || probes != 2) {
						t.Errorf("refused: %s", events)
					}
					if c.want != "" && (!strings.Contains(events, "[web].readiness.") || !strings.Contains(events, c.want) || probes != 1) {
						t.Errorf("%d probes, events %q", probes, events)
					}
				}, withRuntime, func(w *world) { w.cfg.Policy.Targets, w.cfg.Policy.PodNetwork = c.targets, true })
			})
		}
	}
}

func TestPolicyRefusals(t *testing.T) {
	for _, c := range []struct{ name, probe, want string }{
		{"unix", `plugin: {name: redis, target: {unix: /run/docker.sock}}`, "[web].readiness.plugin.target.unix: Forbidden: a pod of a cluster must not name sockets of its node"},
		{"other case", `plugin: {name: http, config: {port: 80, HoSt: 10.1.0.7}}`, "[web].readiness.plugin.config.HoSt: Invalid value: unknown field"},
		{"twice", `plugin: {name: http, config: {port: 80, HOST: 10.1.0.7, host: 127.0.0.1}}`, "[web].readiness.plugin.config.HOST: Invalid value: unknown field"},
		{"period", `tcpSocket: {port: 1}, period: 20ms`, `[web].readiness.period: Invalid value: "20ms": kubernetes.minPeriod of the agent is 100ms`},
		{"unhealthy period", `tcpSocket: {port: 1}, period: 10s, unhealthyPeriod: 20ms`, `[web].readiness.unhealthyPeriod: Invalid value: "20ms": kubernetes.minPeriod of the agent is 100ms`},
		{"exec as a plugin", `plugin: {name: exec, config: {command: ["true"]}}`, "[web].readiness.plugin.config: Forbidden: the agent can run no commands in containers: it needs --cri-socket, or kubernetes.apiExec"},
		{"half a bracket", `tcpSocket: {port: 80, host: "[10.1.0.7"}`, `[web].readiness.tcpSocket.host: Forbidden: "[10.1.0.7" is `},
		{"exec", `exec: {command: ["true"]}`, "[web].readiness.exec: Forbidden: the agent can run no commands in containers: it needs --cri-socket, or kubernetes.apiExec"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				// The API server could run commands, but the operator must allow it.
				w.cluster.set(podNamed("web", "{web: {readiness: {"+c.probe+"}, liveness: {tcpSocket: {port: 2}, period: 1s}}}"))
				w.start()
				w.wait(2 * time.Second)
				w.wantEvents("Warning ProbeInvalid metadata.annotations[prober.dev/probes]" + c.want)
				w.wantConditions("web", "liveness.web=success", "readiness.web=unknown?")
			}, func(w *world) {
				w.cfg.Exec = func(context.Context, api.Pod, string, []string) ([]byte, int, error) { return nil, 0, nil }
			})
		})
	}
}

// A startup probe that is refused holds the others, and a probe that runs is ended when the policy
// refuses its new target.
func TestPolicyRefusesChangedProbe(t *testing.T) {
	bubble(t, func(w *world) {
		live := w.script("/l", success)
		const text = `{web: {startup: {tcpSocket: {port: 1, host: HOST}, period: 1s}, liveness: {httpGet: {path: /l, port: http}, period: 1s}}}`
		pod := podNamed("web", strings.Replace(text, "HOST", "10.1.0.7", 1))
		w.cluster.set(pod)
		w.start()
		w.wait(3 * time.Second)
		w.wantEvents()
		if live.Count() == 0 {
			t.Error("no liveness attempt")
		}
		pod.Annotations[declared.Annotation] = strings.Replace(text, "HOST", "10.1.0.8", 1)
		w.cluster.set(pod)
		w.wait(time.Second)
		w.wantEvents("Warning ProbeInvalid metadata.annotations[prober.dev/probes][web].startup.tcpSocket.host: Forbidden")
		if probes := w.manager.Probes(); len(probes) != 1 || probes[0].Kind != probe.Liveness {
			t.Errorf("probes: %+v", probes)
		}
		if started, _ := w.ready(pod); started {
			t.Error("a container whose startup probe is refused has started")
		}
	})
}

// The address of a pod may be assigned to another pod later.
func TestPolicyChecksAddressesOfEveryStatus(t *testing.T) {
	bubble(t, func(w *world) {
		pod := podNamed("web", `{web: {readiness: {httpGet: {path: /r, port: http, host: 10.1.0.7}, period: 1s}, liveness: {tcpSocket: {port: 2}, period: 1s}}}`)
		w.cluster.set(pod)
		w.start()
		w.wait(2 * time.Second)
		w.wantConditions("web", "liveness.web=success", "readiness.web=success")
		pod.Status.PodIP, pod.Status.PodIPs = "10.1.0.99", []v1.PodIP{{IP: "10.1.0.99"}}
		w.cluster.set(pod)
		w.wait(2 * time.Second)
		w.wantEvents("Warning ProbeInvalid metadata.annotations[prober.dev/probes][web].readiness.httpGet.host: Forbidden")
		w.wantConditions("web", "liveness.web=success", "readiness.web=unknown?")
		// The same with an invalid annotation, with which the probes would otherwise continue.
		pod.Annotations[declared.Annotation] = strings.Replace(pod.Annotations[declared.Annotation], "10.1.0.7", "10.1.0.99", 1)
		w.cluster.set(pod)
		w.wait(2 * time.Second)
		w.wantConditions("web", "liveness.web=success", "readiness.web=success")
		pod.Annotations[declared.Annotation] = "["
		pod.Status.PodIP, pod.Status.PodIPs = "10.1.0.7", []v1.PodIP{{IP: "10.1.0.7"}}
		w.cluster.set(pod)
		w.wait(2 * time.Second)
		if probes := w.manager.Probes(); len(probes) > 0 {
			t.Errorf("probes: %+v", probes)
		}
	})
}

func TestHostNetworkPodHasAddressesOfItsNode(t *testing.T) {
	bubble(t, func(w *world) {
		pod := podNamed("web", `{web: {readiness: {httpGet: {path: /r, port: http, host: 192.0.2.1}, period: 1s}, liveness: {tcpSocket: {port: 1, host: 127.0.0.1}, period: 1s}}}`)
		pod.Spec.HostNetwork = true
		pod.Status.PodIP, pod.Status.PodIPs = "192.0.2.1", []v1.PodIP{{IP: "192.0.2.1"}}
		w.cluster.set(pod)
		w.start()
		w.wait(2 * time.Second)
		w.wantEvents("Warning ProbeInvalid metadata.annotations[prober.dev/probes][web].liveness.tcpSocket.host: Forbidden")
		w.wantConditions("web", "liveness.web=unknown?", "readiness.web=success")
	})
}

// The guard checks every connection, independent of the plan.
func TestCheckTarget(t *testing.T) {
	bubble(t, func(w *world) {
		pod, other := podNamed("web", `{web: {liveness: {tcpSocket: {port: 2}, period: 1s}}}`), podNamed("other", `{web: {liveness: {tcpSocket: {port: 2}, period: 1s}}}`)
		other.Status.PodIP, other.Status.PodIPs = "10.1.0.8", []v1.PodIP{{IP: "10.1.0.8"}}
		w.cluster.set(pod)
		w.cluster.set(other)
		w.start()
		const node, metadata, none = "would be the node itself", "is a link-local or metadata address", "is not the address of a host"
		for _, c := range []struct {
			to   netns.To
			want string // "": allowed
		}{
			{netns.To{Host: "10.1.0.7"}, ""}, {netns.To{Host: "10.1.0.8"}, "is no address of the pod"}, {netns.To{Host: "10.96.0.1"}, "is no address of the pod"},
			{netns.To{Host: "::ffff:10.1.0.7"}, ""}, {netns.To{Host: "loop.test"}, ""}, {netns.To{Host: "LOOP.test."}, ""}, {netns.To{Host: "db.test"}, "is no address of the pod"},
			{netns.To{Host: "localhost"}, node}, {netns.To{Host: "127.0.0.1"}, node}, {netns.To{Host: "169.254.169.254"}, "is no address of the pod"}, {netns.To{Host: "169.254.170.2"}, ""},
			{netns.To{Socket: "/run/containerd/containerd.sock"}, "must not name sockets"}, {netns.To{}, none},
			{netns.To{Addr: netip.MustParseAddr("10.1.0.8")}, ""}, {netns.To{Addr: netip.MustParseAddr("169.254.170.2")}, ""},
			{netns.To{Addr: netip.MustParseAddr("127.0.0.1")}, node}, {netns.To{Addr: netip.MustParseAddr("::1")}, node}, {netns.To{Addr: netip.MustParseAddr("::ffff:127.0.0.1")}, node},
			{netns.To{Addr: netip.MustParseAddr("169.254.169.254")}, metadata}, {netns.To{Addr: netip.MustParseAddr("fd00:ec2::254")}, metadata},
			{netns.To{Addr: netip.MustParseAddr("0.0.0.0")}, none}, {netns.To{Addr: netip.MustParseAddr("::")}, none}, {netns.To{Addr: netip.MustParseAddr("224.0.0.1")}, none},
		} {
			err := w.source.CheckTarget(string(pod.UID), c.to)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: got %v, want %q", c.to, err, c.want)
			}
		}
		if err := w.source.CheckTarget("nobody", netns.To{Host: "10.1.0.7"}); err == nil {
			t.Error("a pod that is not known may connect")
		}
	}, func(w *world) { w.cfg.Policy.Targets = allowed("169.254.170.2/32", "loop.test") })
}

// Whoever may write pod statuses must not choose the targets of probes. Addresses that no pod can have are not dialed.
func TestForgedAddressIsNotDialed(t *testing.T) {
	for _, ip := range []string{"127.0.0.1", "::1", "169.254.169.254", "fd00:ec2::254", "0.0.0.0", "::ffff:127.0.0.1", "no address"} {
		t.Run(ip, func(t *testing.T) {
			bubble(t, func(w *world) {
				pod := podNamed("web", `{web: {readiness: {tcpSocket: {port: 1}, period: 1s}}}`)
				pod.Status.PodIP, pod.Status.PodIPs = ip, []v1.PodIP{{IP: ip}}
				w.cluster.set(pod)
				w.start()
				w.wait(2 * time.Second)
				status, ok := w.source.PodStatus(pod.UID)
				if !ok || status.PodIP != "" || len(status.PodIPs) != 0 {
					t.Errorf("status of the pod: %q, %v, %t", status.PodIP, status.PodIPs, ok)
				}
			})
		})
	}
}
