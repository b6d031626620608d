package doctest_test

import (
	"testing"

	"github.com/daeace23/prober/internal/doctest"
)

func TestLike(t *testing.T) {
	for _, c := range []struct {
		want, got string
		like      bool
	}{
		{"", "", true},
		{"", "something", false},
		{"one\ntwo", "one\ntwo", true},
		{"one\ntwo", "one\ntwo\nthree", false},
		{"one\n…", "one\ntwo\nthree", true},
		{"one\n…\nthree", "one\nthree", true},
		{"one\n…\nthree", "one\ntwo", false},
		{"…\nthree", "one\ntwo\nthree", true},
		{"took …", "took 3 ms", true},
		{"took … ms", "took 3 s", false},
		{"a  b", "a b", true},
		{"a b", "ab", false},
		{"1.5", "105", false},
	} {
		if got := doctest.Like(c.want, c.got); got != c.like {
			t.Errorf("Like(%q, %q) = %t", c.want, c.got, got)
		}
	}
}
