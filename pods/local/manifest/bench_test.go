package manifest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/daeace23/prober/pods/local/manifest"
)

const benchmarkPod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p%d}\nspec: {containers: [{name: web}]}\n"

// benchmarkFiles calls do with the source of n manifests of one pod each.
func benchmarkFiles(b *testing.B, do func(b *testing.B, s *manifest.Source, n int)) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprintf("files=%d", n), func(b *testing.B) {
			dir := b.TempDir()
			for i := range n {
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), fmt.Appendf(nil, benchmarkPod, i), 0o600); err != nil {
					b.Fatal(err)
				}
			}
			do(b, &manifest.Source{Paths: []string{dir}}, n)
		})
	}
}

// BenchmarkLoad reads files=N manifests for the first time, as a start does.
func BenchmarkLoad(b *testing.B) {
	benchmarkFiles(b, func(b *testing.B, s *manifest.Source, n int) {
		for b.Loop() {
			loadAll(b, &manifest.Source{Paths: s.Paths}, n)
		}
	})
}

// BenchmarkLoadAgain reads files=N manifests that have not changed since they were last read.
func BenchmarkLoadAgain(b *testing.B) {
	benchmarkFiles(b, func(b *testing.B, s *manifest.Source, n int) {
		loadAll(b, s, n)
		for b.Loop() {
			loadAll(b, s, n)
		}
	})
}

func loadAll(b *testing.B, s *manifest.Source, n int) {
	if loaded, err := s.Load(b.Context()); err != nil || len(loaded.Pods) != n {
		b.Fatal(len(loaded.Pods), err)
	}
}

// BenchmarkStamp checks files=N manifests for changes, as an agent does twice a second.
func BenchmarkStamp(b *testing.B) {
	benchmarkFiles(b, func(b *testing.B, s *manifest.Source, _ int) {
		first := s.Stamp()
		for b.Loop() {
			if s.Stamp() != first {
				b.Fatal("the stamp has changed")
			}
		}
	})
}
