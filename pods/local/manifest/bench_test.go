package manifest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/daeace23/prober/pods/local/manifest"
)

// BenchmarkLoad reads files=N manifests of one pod each, as a reload does.
func BenchmarkLoad(b *testing.B) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p%d}\nspec: {containers: [{name: web}]}\n"
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprintf("files=%d", n), func(b *testing.B) {
			dir := b.TempDir()
			for i := range n {
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), fmt.Appendf(nil, pod, i), 0o600); err != nil {
					b.Fatal(err)
				}
			}
			s := &manifest.Source{Paths: []string{dir}}
			for b.Loop() {
				if loaded, err := s.Load(b.Context()); err != nil || len(loaded.Pods) != n {
					b.Fatal(len(loaded.Pods), err)
				}
			}
		})
	}
}
