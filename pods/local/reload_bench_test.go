package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/pods"
)

const reloadPod = `apiVersion: v1
kind: Pod
metadata:
  name: shop-%d
  annotations:
    prober.dev/probes: |
      cache:
        readiness: {plugin: {name: redis, target: {port: 6379}}, period: 10s, timeout: 2s, failureThreshold: %d}
spec:
  containers:
  - name: web
    ports: [{containerPort: 80}]
    startupProbe: {httpGet: {path: /healthz, port: 80}, periodSeconds: 1, failureThreshold: 60}
    readinessProbe: {httpGet: {path: /healthz, port: 80}, periodSeconds: 10, timeoutSeconds: 5}
    livenessProbe: {httpGet: {path: /healthz, port: 80}, periodSeconds: 10, timeoutSeconds: 5}
  - name: cache
---
`

// BenchmarkReload with pods=N changed=1 changes one of N pods in a folder of manifests, and reloads. Each file has
// 20 pods.
func BenchmarkReload(b *testing.B) {
	const inFile = 20
	for _, n := range []int{2000} {
		b.Run(fmt.Sprintf("pods=%d/changed=1", n), func(b *testing.B) {
			dir := b.TempDir()
			write := func(file, threshold int) {
				var text strings.Builder
				for i := range inFile {
					fmt.Fprintf(&text, reloadPod, file*inFile+i, threshold)
					threshold = 3 // for the other pods
				}
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%05d.yaml", file)), []byte(text.String()), 0o600); err != nil {
					b.Fatal(err)
				}
			}
			for file := range n / inFile {
				write(file, 3)
			}
			source, _ := startSource(b, dir)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				write(n/inFile/2, 4+i%2)
				if err := source.Reload(b.Context(), pods.Reload{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
