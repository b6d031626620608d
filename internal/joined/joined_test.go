package joined_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/daeace23/prober/internal/joined"
)

func TestErrors(t *testing.T) {
	a, b, c := errors.New("a"), errors.New("b"), errors.New("c")
	wrapped := fmt.Errorf("wrapped: %w", errors.Join(a, b))
	both := fmt.Errorf("%w: %w", a, b)
	for _, tc := range []struct {
		err  error
		want []error
	}{
		{nil, nil},
		{a, []error{a}},
		{errors.Join(a), []error{a}},
		{errors.Join(errors.Join(a, nil, b), c), []error{a, b, c}},
		{errors.Join(wrapped, c), []error{wrapped, c}},
		{errors.Join(both, c), []error{both, c}},
	} {
		if got := joined.Errors(tc.err); !slices.Equal(got, tc.want) {
			t.Errorf("Errors(%q): got %q, want %q", tc.err, got, tc.want)
		}
	}
}

func TestLine(t *testing.T) {
	err := fmt.Errorf("config: %w", errors.Join(errors.New("a"), errors.New("b")))
	if got, want := joined.Line(err), "config: a; b"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
