package kube_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/probe"
)

// harmless is an annotation that the policy allows.
const harmless = `{"web":{"readiness":{"tcpSocket":{"port":1},"period":"1s"}}}`

// refusedProbes are probes that the policy refuses, as JSON. V stands for a value that JSON and YAML parsers may
// read differently.
var refusedProbes = []string{
	`"readiness":{"httpGet":{"host":"10.96.0.1","port":80,"path":"/x","httpHeaders":[{"name":"X","value":"V"}]},"period":"1s"}`,
	`"readiness":{"httpGet":{"port":80,"path":"/x","httpHeaders":[{"name":"X","value":"V"}]},"period":"10ms"}`,
	`"readiness":{"tcpSocket":{"host":"V","port":80},"period":"1s"},"startup":{"tcpSocket":{"host":"10.1.0.8","port":80}}`,
	`"liveness":{"plugin":{"name":"redis","target":{"unix":"/run/containerd/containerd.sock"},"config":{"x":"V"}},"period":"1s"}`,
	`"liveness":{"plugin":{"name":"redis","target":{"host":"10.1.0.8","port":1},"config":{"V":"x"}},"period":"1s"}`,
	`"liveness":{"plugin":{"name":"http","config":{"Host":"127.0.0.1","port":80,"path":"/V"}},"period":"1s"}`,
	`"liveness":{"exec":{"command":["V"]},"period":"1s"}`,
	`"readiness":{"grpc":{"port":80,"service":"V"},"period":"20ms"}`,
	`"readiness":{"all":{"a":{"tcpSocket":{"port":1}},"b":{"httpGet":{"host":"10.96.0.1","port":80,"path":"/V"}}},"period":"1s"}`,
	`"liveness":{"any":{"a":{"tcpSocket":{"port":1}},"b":{"plugin":{"name":"redis","target":{"unix":"/run/containerd/containerd.sock"},"config":{"x":"V"}}}},"period":"1s"}`,
	`"readiness":{"atLeast":{"min":1,"of":{"V":{"tcpSocket":{"port":1}},"b":{"exec":{"command":["V"]}}}},"period":"1s"}`,
	`"readiness":{"all":{"a":{"tcpSocket":{"port":1}},"b":{"plugin":{"name":"http","config":{"host":"127.0.0.1","port":80,"path":"/V"}}}},"period":"1s"}`,
	`"readiness":{"all":{"a":{"tcpSocket":{"port":1}},"b":{"tcpSocket":{"port":2}}},"period":"20ms"}`,
}

// policyValues are contents of a JSON string. For most of them, JSON and YAML parsers differ: one refuses the text, or
// both read different values.
var policyValues = []string{
	"a", `\ud83d\ude00`, "\x7f", "\u0080", "\u2028", `\/`, `\u0000`, `\ud800`, "\xff", "\ufeff", `\"}}}`, "- #", "*a", "&a", "!!binary aGk=", "<<", "${file:/etc/shadow}", "0x10", "\t",
}

// annotationOf returns an annotation with two refused probes and an allowed one, in one of several syntactic forms.
func annotationOf(form uint8, first, second uint8, value string) string {
	a, b := refusedProbes[int(first)%len(refusedProbes)], refusedProbes[int(second)%len(refusedProbes)]
	text := strings.ReplaceAll(`{"web":{`+a+`},"side":{`+b+`,"readiness":{"tcpSocket":{"port":1}}}}`, "V", value)
	switch form % 5 {
	case 1: // YAML with braces
		return " " + text
	case 2: // YAML in blocks
		if block, err := yaml.JSONToYAML([]byte(text)); err == nil {
			return string(block)
		}
	case 3: // a second document
		return text + "\n---\n" + harmless
	case 4:
		return "\ufeff" + text
	}
	return text
}

// violation returns why an attempt violates the policy of the test; "" if it does not. It looks only at the arguments
// of the handler, not at annotations.
func violation(name string, config []byte, bound probe.Target, req *probe.Request) string {
	target := probe.Target{Host: cmp.Or(req.Target.Host, bound.Host), Unix: cmp.Or(req.Target.Unix, bound.Unix)}
	var action struct {
		Host string
		URL  string
	}
	_ = json.Unmarshal(config, &action) // as the built-in handlers do: names of any case
	host := cmp.Or(action.Host, target.Host, req.PodIP)
	switch {
	case name == "exec":
		return "a command"
	case target.Unix != "":
		return "the socket " + target.Unix
	case !slices.Contains([]string{"10.1.0.7", "fd00:1::7"}, host):
		return fmt.Sprintf("the host %q", host)
	case req.Spec.Period < 100*time.Millisecond:
		return fmt.Sprintf("the period %v", req.Spec.Period)
	}
	return ""
}

// watchPolicy fails the test of w at the first attempt that violates the policy, and counts the others.
func watchPolicy(w *world, attempts *atomic.Int32) {
	w.bind = func(name string, config []byte, target probe.Target) (probe.Handler, error) {
		config = slices.Clone(config)
		return probe.HandlerFunc(func(_ context.Context, req probe.Request) (probe.Outcome, error) {
			attempts.Add(1)
			if why := violation(name, config, target, &req); why != "" {
				w.t.Errorf("an attempt of %s with %q, %+v: %s", name, config, req.Target, why)
			}
			return probe.Outcome{Result: probe.Success}, nil
		}), nil
	}
}

// The steps in the life of a pod.
const (
	stepHarmless = iota
	stepText
	stepRaw
	stepNone // the annotation is removed
	stepRemove
	stepRestart // of the agent
	stepAddress
	stepContainer
	steps
)

// liveUnderPolicy applies the steps ops to a pod and an agent, and returns the number of attempts.
func liveUnderPolicy(t *testing.T, text, raw string, ops []byte) int {
	var attempts atomic.Int32
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		watchPolicy(w, &attempts)
		pod := podNamed("web", harmless)
		pod.Spec.Containers = append(pod.Spec.Containers, pod.Spec.Containers[0])
		pod.Spec.Containers[1].Name = "side"
		container := func(id string) {
			run(pod, id, time.Now())
			side := pod.Status.ContainerStatuses[0]
			side.Name, side.ContainerID = "side", side.ContainerID+"-side"
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, side)
		}
		container("c1")
		w.start()
		exists := false
		for i, op := range ops {
			switch op % steps {
			case stepHarmless:
				pod.Annotations[declared.Annotation] = harmless
			case stepText:
				pod.Annotations[declared.Annotation] = text
			case stepRaw:
				pod.Annotations[declared.Annotation] = raw
			case stepNone:
				delete(pod.Annotations, declared.Annotation)
			case stepRemove:
				if exists {
					w.cluster.remove(pod.Name)
					exists = false
				}
			case stepRestart:
				w.end()
				next := newWorld(t, func(next *world) { next.cluster, next.cfg.Pods = w.cluster, w.cluster })
				watchPolicy(next, &attempts)
				w = next
				w.start()
			case stepAddress:
				first := &pod.Status.PodIPs[0].IP // swap IPv4 and IPv6
				pod.Status.PodIPs[1].IP, *first = *first, pod.Status.PodIPs[1].IP
				pod.Status.PodIP = *first
			case stepContainer:
				container(fmt.Sprintf("c%d", i+2))
			}
			if op%steps != stepRemove {
				w.cluster.set(pod)
				exists = true
			}
			w.wait(1200 * time.Millisecond)
		}
		w.end()
	})
	return int(attempts.Load())
}

// allSteps applies each change before and after the text, starting with a harmless pod.
var allSteps = []byte{
	stepText, stepHarmless, stepText, stepContainer, stepHarmless, stepRaw, stepText, stepRestart, stepText, stepAddress, stepHarmless, stepRestart, stepText,
	stepNone, stepText, stepRemove, stepText, stepHarmless, stepText, stepRestart, stepRaw, stepText, stepRemove, stepHarmless,
}

// TestPolicyHoldsForEveryText tries every form of every refused probe, with values that JSON and YAML read differently.
func TestPolicyHoldsForEveryText(t *testing.T) {
	for form := range uint8(5) {
		for i := range refusedProbes {
			t.Run(fmt.Sprintf("form %d of probe %d", form, i), func(t *testing.T) {
				t.Parallel()
				for j, value := range policyValues {
					text := annotationOf(form, uint8(i), uint8(i+j+1), value)
					if n := liveUnderPolicy(t, text, value, allSteps); n == 0 {
						t.Errorf("%q: no attempt of the pod was made", text)
					}
				}
			})
		}
	}
}

// FuzzPolicyHolds looks for an annotation and a sequence of steps that lead to an attempt which the policy forbids.
func FuzzPolicyHolds(f *testing.F) {
	for i, value := range policyValues {
		f.Add(uint8(i), uint8(i), uint8(i+3), value, "", allSteps)
		f.Add(uint8(0), uint8(i), uint8(i+1), value, annotationOf(uint8(i), uint8(i+2), 3, value), []byte{stepHarmless, stepText, stepRaw, stepText})
	}
	f.Fuzz(func(t *testing.T, form, first, second uint8, value, raw string, ops []byte) {
		// Longer inputs find nothing new, and only take longer.
		ops, value, raw = ops[:min(len(ops), 30)], value[:min(len(value), 2048)], raw[:min(len(raw), 2048)]
		liveUnderPolicy(t, annotationOf(form, first, second, value), raw, ops)
	})
}
