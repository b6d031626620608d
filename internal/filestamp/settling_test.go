package filestamp_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/daeace23/prober/internal/filestamp"
)

func TestSettlingDue(t *testing.T) {
	const poll = 500 * time.Millisecond
	for _, c := range []struct {
		name   string
		stamps string // stamp of the files at each poll; a stamp that was due becomes the known one
		want   []int  // the polls at which a change is due
	}{
		{"no change", "aaaa", nil},
		{"a change that settles", "abbbb", []int{2}},
		{"a change that is taken back", "abaaa", nil},
		{"two changes", "abcccdd", []int{3, 6}},
		{"steady change", "abcdefghijklmno", []int{5, 10}},
		{"steady change that settles", "abcdefffgg", []int{5, 9}},
		{"steady change after a pause", "abbbbcdefghi", []int{2, 9}},
	} {
		t.Run(c.name, func(t *testing.T) {
			known, start := c.stamps[:1], time.Unix(0, 0)
			var files filestamp.Settling
			var got []int
			for i, stamp := range c.stamps {
				if files.Due(start.Add(time.Duration(i)*poll), string(stamp), known) {
					got, known = append(got, i), string(stamp)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("due at %s, want %s", fmt.Sprint(got), fmt.Sprint(c.want))
			}
		})
	}
}
