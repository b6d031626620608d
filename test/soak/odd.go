//go:build linux

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// oddPods is the number of odd pods of each kind: healthyPod and faultyPod.
const oddPods = 5

// oddPod is the format of a manifest. Its arguments are the name, the annotation and the containers.
const oddPod = `apiVersion: v1
kind: Pod
metadata:
  name: %s
  annotations:
    prober.dev/address: 127.0.0.1
    prober.dev/probes: |%s
spec:
  terminationGracePeriodSeconds: 5
  containers:%s
`

// writeOdd writes pods for cases that the pods of the layout do not cover.
func (w *world) writeOdd() error {
	for i := range oddPods {
		for name, text := range map[string]string{
			fmt.Sprintf("healthy-%d", i): w.targets.Odd.healthyPod(w.mark, i),
			fmt.Sprintf("faulty-%d", i):  w.targets.Odd.faultyPod(i),
		} {
			if err := putFile(filepath.Join(w.manifests, name+".yaml"), []byte(text)); err != nil {
				return err
			}
		}
	}
	return nil
}

// healthyPod returns a pod with a local process, and with plugins that other pods do not use.
func (o oddTargets) healthyPod(mark string, i int) string {
	plugins := fmt.Sprintf(`
      json: {readiness: {plugin: {name: httpjson, target: {port: %d}, config: {path: /json, field: status, fail: {equals: ok}}}, period: 2s, timeout: 5s, failureThreshold: 1}}
      health: {readiness: {plugin: {name: grpc-health, target: {port: %d}}, period: 2s, timeout: 5s, failureThreshold: 1}}`, o.HTTP, o.GRPC)
	return fmt.Sprintf(oddPod, fmt.Sprintf("healthy-%d", i), plugins, fmt.Sprintf(`
  - name: json
  - name: health
  - name: local
    command: [sh, -c, "trap 'exit 0' TERM; while :; do echo here; sleep 1 & wait $!; done", %s]
    livenessProbe: {exec: {command: ["true"]}, periodSeconds: 2, timeoutSeconds: 5}
    readinessProbe: {httpGet: {path: /ok, port: %d}, periodSeconds: 1, failureThreshold: 1}`, mark, o.HTTP))
}

// faultyPod returns a pod with a container for each kind of failure. None of them is ever ready. Attempts
// end before the next tick is due, so the agent skips no tick.
func (o oddTargets) faultyPod(i int) string {
	plugins := fmt.Sprintf(`
      hanging: {readiness: {plugin: {name: redis, target: {port: %d}}, period: 2s, timeout: 1s}}
      wrong: {readiness: {plugin: {name: tester, config: {mode: error}}, period: 2s, timeout: 1s}}`, o.Hang)
	return fmt.Sprintf(oddPod, fmt.Sprintf("faulty-%d", i), plugins, fmt.Sprintf(`
  - name: hanging
    livenessProbe: {httpGet: {path: /, port: %d}, periodSeconds: 2}
  - name: wrong
    livenessProbe: {exec: {command: [sh, -c, "sleep 100 & sleep 100"]}, periodSeconds: 5}
  - name: reset
    livenessProbe: {httpGet: {path: /, port: %d}, periodSeconds: 2}
    readinessProbe: {grpc: {port: %[2]d}, periodSeconds: 2}
  - name: refuse
    readinessProbe: {tcpSocket: {port: %d}, periodSeconds: 2}
  - name: slow
    readinessProbe: {httpGet: {path: /slow, port: %d}, periodSeconds: 2}
  - name: cut
    readinessProbe: {httpGet: {path: /cut, port: %[4]d}, periodSeconds: 2}
  - name: bad
    readinessProbe: {httpGet: {path: /bad, port: %[4]d}, periodSeconds: 2}`, o.Hang, o.Reset, o.Refuse, o.HTTP))
}

// checkOdd checks a probe of an odd pod: healthy targets never fail, and faulty ones are never ready. It
// returns the kind of fault and an example, or "" if there is no fault.
func (w *world) checkOdd(p *probeView) (what, example string) {
	if strings.HasPrefix(p.Pod, "faulty-") {
		if p.Kind == "readiness" && p.Result == "success" {
			return "faulty targets that are ready", p.key()
		}
		return "", ""
	}
	if p.Last == nil {
		return "", ""
	}
	for _, t := range append(p.History, *p.Last) {
		if t.Result == "failure" {
			return "false failures", fmt.Sprintf("%s at %v: %s", p.key(), t.Time.Format(time.TimeOnly), t.Output)
		}
	}
	return "", ""
}

// checkRestarts checks that no healthy container was restarted.
func (w *world) checkRestarts() {
	counts, err := w.agent.restarts()
	if err != nil {
		w.failed("pods", err)
		return
	}
	for container, count := range counts {
		if count > 0 && !strings.HasPrefix(container, "faulty-") {
			w.report.fault("%s was restarted %d times", container, count)
		}
	}
}
