package oci_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/daeace23/prober/internal/registrytest"
	"github.com/daeace23/prober/plugin/oci"
)

// Several agents, and several plugins of one agent, may keep the same artifact concurrently.
func TestStoreConcurrentKeep(t *testing.T) {
	h := registrytest.New(t)
	for round := range 2 {
		dir := filepath.Join(t.TempDir(), "plugins")
		openStore(t, dir)
		a := pack(t, "1.0.0", "signature")
		var keeping sync.WaitGroup
		for i := range 8 {
			ref := h.Ref(t, fmt.Sprint("demo:", i%2))
			keeping.Go(func() {
				s, err := oci.OpenStore(oci.StoreConfig{Dir: dir})
				if err != nil {
					t.Error(err)
					return
				}
				if k := s.Keep(ref, a); k.Unkept != nil {
					t.Errorf("round %d: %v", round, k.Unkept)
				}
				if last, err := s.Last(oci.Wanted{Ref: ref}); err != nil || last.Digest != a.Digest {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		keeping.Wait()
		if left, err := filepath.Glob(filepath.Join(dir, "*.*.*")); err != nil || len(left) > 0 {
			t.Errorf("left: %q, %v", left, err)
		}
	}
}
