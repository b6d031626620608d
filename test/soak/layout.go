//go:build linux

package main

import (
	"fmt"
	"strings"
	"time"
)

const (
	podProbes = 10 // probes of a pod
	filePods  = 20 // pods of a manifest
)

// port is one of the ports of the targets. The destination address and port of a connection identify the
// probe.
type port uint8

const (
	portStartup port = iota
	portReady
	portLive
	portFaultyHTTP
	portAPI
	portDBReady
	portDBLive
	portGRPC
	portRedis
	portGate // its listener is closed from time to time
	portReadyNext
	portLiveNext
	portFaultyRedis
	portFaultyGRPC
	ports

	portUnseen = ports // identifies the probe of a pod that makes no connection
)

// role says which actions a pod is subject to.
type role uint8

const (
	steady    role = iota
	changing       // the probes of its container web change
	recreated      // it is removed and added again
	acted          // the readiness probe of its container db is triggered, paused and resumed
)

func roleOf(pod int) role {
	switch pod % filePods {
	case 7:
		return changing
	case 13:
		return recreated
	case 3:
		return acted
	}
	return steady
}

// probe is one probe of a pod.
type probe struct {
	container, kind string
	handler         string // the v1.ProbeHandler, or the plugin
	port            port
	unseen          bool // its attempts make no connection to the targets
	exact           bool // nothing changes it, so all of its ticks can be predicted
	faulty          bool // behind the fault proxy
	period, timeout time.Duration
	success, fail   int // thresholds
}

// layout generates the probes of all pods.
type layout struct {
	// pace multiplies periods, so that more than [fullLoad] probes do not increase the load.
	pace time.Duration
}

// fullLoad is the number of probes up to which periods are the shortest: about 400 ticks a second. With
// more ticks a second, two processors have no time left for the agent's other work.
const fullLoad = 2500

func layoutOf(probes int) layout { return layout{time.Duration((probes + fullLoad - 1) / fullLoad)} }

// probesOf returns the probes of a pod. generation is the number of changes of a changing pod.
func (l layout) probesOf(pod, generation int) []probe {
	all := []probe{
		{container: "web", kind: "startup", handler: "http", port: portStartup},
		{container: "web", kind: "readiness", handler: "http", port: portReady},
		{container: "web", kind: "liveness", handler: "http", port: portLive},
		{container: "api", kind: "readiness", handler: "http", port: portFaultyHTTP, faulty: true},
		{container: "api", kind: "liveness", handler: "tcp", port: portAPI},
		{container: "db", kind: "readiness", handler: "tcp", port: portDBReady},
		{container: "db", kind: "liveness", handler: "tcp", port: portDBLive},
		{container: "rpc", kind: "readiness", handler: "grpc", port: portGRPC},
		{container: "cache", kind: "readiness", handler: "redis", port: portRedis},
		auxiliary(pod),
	}
	for i := range all {
		all[i].schedule(l.pace, hash(pod, i))
		all[i].exact = all[i].port != portGate
	}
	all[0].period, all[0].timeout, all[0].success, all[0].fail, all[0].exact = time.Second, time.Second, 1, 60, false
	switch roleOf(pod) {
	case changing:
		all[1].exact, all[2].exact = false, false
		all[1].period, all[1].timeout = []time.Duration{5 * time.Second, 2 * time.Second, 3 * time.Second}[generation%3]*l.pace, 2*time.Second
		all[1].fail = 1 + generation // shown by the API
		if generation%2 == 1 {
			all[1].port, all[2].port = portReadyNext, portLiveNext
		}
	case recreated:
		for i := range all {
			all[i].exact = false
		}
	case acted:
		all[5].exact = false
	}
	return all
}

// auxiliary returns the last probe of a pod. Its handler depends on the pod.
func auxiliary(pod int) probe {
	switch p := (probe{container: "aux", kind: "readiness"}); pod % podProbes {
	case 0:
		p.handler, p.port, p.unseen = "exec", portUnseen, true
		return p
	case 1, 2:
		p.handler, p.port, p.unseen = "tester", portUnseen, true
		return p
	case 3, 4:
		p.handler, p.port = "tcp", portGate
		return p
	case 5, 6, 7:
		p.handler, p.port, p.faulty = "redis", portFaultyRedis, true
		return p
	default:
		p.handler, p.port, p.faulty = "grpc", portFaultyGRPC, true
		return p
	}
}

// schedule sets the period, timeout and thresholds of p from its hash h. The timeout ends an attempt
// before the next tick is due.
func (p *probe) schedule(pace time.Duration, h uint64) {
	part := h % 100
	switch {
	case p.unseen:
		p.period = 10 * time.Second
	case part < 2 && !p.faulty:
		p.period = time.Second
	case part < 10 || p.port == portGate:
		p.period = 2 * time.Second
	case part < 30:
		p.period = 5 * time.Second
	default:
		p.period = 10 * time.Second
	}
	p.period *= pace
	p.timeout = min(p.period, 5*time.Second)
	if p.faulty {
		p.timeout = min(p.period-time.Second, 2*time.Second)
	}
	p.success, p.fail = 1, 1+int(h>>8%3)
	if p.kind == "readiness" {
		p.success = 1 + int(h>>16%2)
	}
}

// hash returns a pseudorandom number that is the same in each run.
func hash(a, b int) uint64 {
	x := uint64(a)<<32 + uint64(b) + 0x9e3779b97f4a7c15 // splitmix64
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func podName(pod int) string { return fmt.Sprintf("p-%05d", pod) }

// podNumber returns the number of a pod by its name. ok is false for odd pods.
func podNumber(name string) (pod int, ok bool) {
	n, err := fmt.Sscanf(name, "p-%05d", &pod)
	return pod, err == nil && n == 1
}

// address returns the address of a pod, on the loopback interface.
func address(pod int) [4]byte { return [4]byte{127, 77, byte(pod >> 8), byte(pod)} }

// manifest returns the manifest of a pod.
func (l layout) manifest(all *targets, pod, generation int) string {
	var containers, annotation strings.Builder
	probes := l.probesOf(pod, generation)
	for i, p := range probes { // sorted by container
		text, plugin := all.text(p)
		if i == 0 || probes[i-1].container != p.container {
			fmt.Fprintf(&containers, "  - name: %s\n", p.container)
			if plugin {
				fmt.Fprintf(&annotation, "      %s:\n", p.container)
			}
		}
		if plugin {
			annotation.WriteString(text)
		} else {
			containers.WriteString(text)
		}
	}
	ip := address(pod)
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: %s
  annotations:
    prober.dev/address: %d.%d.%d.%d
    prober.dev/probes: |
%sspec:
  containers:
%s`, podName(pod), ip[0], ip[1], ip[2], ip[3], annotation.String(), containers.String())
}

// text returns a probe as a line of its container, or as a line of the annotation if its handler is a
// plugin.
func (all *targets) text(p probe) (line string, plugin bool) {
	number, field := 0, ""
	if !p.unseen {
		number = all.Ports[p.port]
	}
	switch p.handler {
	case "http":
		field = fmt.Sprintf("httpGet: {path: /, port: %d}", number)
	case "tcp":
		field = fmt.Sprintf("tcpSocket: {port: %d}", number)
	case "grpc":
		field = fmt.Sprintf("grpc: {port: %d}", number)
	case "exec":
		field = `exec: {command: ["true"]}`
	case "redis":
		field, plugin = fmt.Sprintf("plugin: {name: redis, target: {port: %d}}", number), true
	default:
		field, plugin = fmt.Sprintf("plugin: {name: %s, config: {mode: ok}}", p.handler), true
	}
	if plugin {
		return fmt.Sprintf("        %s: {%s, period: %v, timeout: %v, successThreshold: %d, failureThreshold: %d}\n",
			p.kind, field, p.period, p.timeout, p.success, p.fail), true
	}
	return fmt.Sprintf("    %sProbe: {%s, periodSeconds: %d, timeoutSeconds: %d, successThreshold: %d, failureThreshold: %d}\n",
		p.kind, field, p.period/time.Second, p.timeout/time.Second, p.success, p.fail), false
}
