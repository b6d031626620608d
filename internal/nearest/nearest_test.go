package nearest_test

import (
	"testing"

	"github.com/daeace23/prober/internal/nearest"
)

func TestName(t *testing.T) {
	known := []string{"page", "pause", "probe", "run"}
	for name, want := range map[string]string{
		"puase": "pause", "pgae": "page", "pag": "page", "prob": "probe", "rnu": "run", "paused!": "pause", "xyz": "", "": "", "pb": "", "ur": "run",
	} {
		if got := nearest.Name(name, known); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
