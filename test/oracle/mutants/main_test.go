package main

import "testing"

// TestMutantsMatchSources checks that each mutant applies to the sources. `make test-mutants` runs them.
func TestMutantsMatchSources(t *testing.T) {
	if len(mutants) < 25 {
		t.Errorf("%d mutants, want at least 25", len(mutants))
	}
	seen := make(map[string]bool)
	for _, m := range mutants {
		if _, err := m.apply("../../.."); err != nil {
			t.Errorf("%s: %v", m.what, err)
		}
		if seen[m.what] {
			t.Errorf("two mutants have the name %q", m.what)
		}
		seen[m.what] = true
	}
}
