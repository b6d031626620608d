package main

import "testing"

// The mutants run with make test-mutants. This test checks that they still match the sources.
func TestMutantsMatchTheSources(t *testing.T) {
	if len(mutants) < 25 {
		t.Errorf("%d mutants, want 25", len(mutants))
	}
	seen := make(map[string]bool)
	for _, m := range mutants {
		if _, err := m.apply("../../.."); err != nil {
			t.Errorf("%s: %v", m.what, err)
		}
		if seen[m.what] {
			t.Errorf("two mutants are called %q", m.what)
		}
		seen[m.what] = true
	}
}
