package semantic_test

import (
	"testing"

	"github.com/daeace23/prober/internal/semantic"
)

func TestRaised(t *testing.T) {
	for _, tc := range []struct {
		from, to string
		want     semantic.Level
	}{
		{"1.2.3", "1.2.4", semantic.Patch},
		{"1.2.3", "1.3.0", semantic.Minor},
		{"1.2.3", "2.0.0", semantic.Major},
		{"v1", "1.0.1", semantic.Patch},
		{"0.1.0", "0.1.1", semantic.Minor},
		{"0.1.0", "0.2.0", semantic.Major},
		{"0.9.0", "1.0.0", semantic.Major},
		{"2.0.0-rc.1", "2.0.0-rc.2", semantic.Major},
		{"2.0.0-rc.1", "2.0.0", semantic.Major},
		{"2.0.0-rc.1", "2.0.1", semantic.Patch},
		{"1.2.3", "1.2.3", semantic.None},
		{"1.2.3", "1.2.3+build", semantic.None},
		{"1.2.3", "1.2.2", semantic.None},
		{"latest", "1.2.2", semantic.None},
		{"1.2.2", "", semantic.None},
	} {
		if got := semantic.Raised(tc.from, tc.to); got != tc.want {
			t.Errorf("Raised(%q, %q) = %s, want %s", tc.from, tc.to, got, tc.want)
		}
	}
}

func TestNewerVersion(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"1.10.0", "1.9.0", true},
		{"1.02", "1.01", true},
		{"1.010.0", "1.9.0", true},
		{"2026.02.01", "2026.01.31", true},
		{"1.2-rc2", "1.2-rc1", true},
		{"1.2", "1.2-rc1", true},
		{"1.2.0", "1.2-rc1", true},
		{"1.2-rc1", "1.2", false},
		{"1.0.0-rc.010", "1.0.0-rc.9", true},
		{"1.0.0-a", "1.0.0-1", true},
		{"1.0.0.1", "1.0.0", false}, // four numbers cannot be compared
		{"1.2+2", "1.2.0+1", false},
		{"v1", "1.0.0", false},
		{"00.1.0", "0.0.9", true},
		{"1", "", false},
		{"nightly", "1", false},
	} {
		if got := semantic.Newer(c.a, c.b); got != c.want {
			t.Errorf("%s newer than %s: got %t", c.a, c.b, got)
		}
		if c.want && semantic.Newer(c.b, c.a) {
			t.Errorf("%s newer than %s and the reverse", c.a, c.b)
		}
	}
}
