package agent

import (
	"testing"

	"github.com/daeace23/prober/core/results"
)

func TestIsNews(t *testing.T) {
	const first, more, changed = "\"a\" 1\n", "\"a\" 1\n\"b\" 1\n", "\"a\" 2\n\"b\" 1\n"
	for _, c := range []struct {
		name        string
		r           request
		before, now string
		want        bool
	}{
		{"another file is watched", request{cause: changedFiles}, first, more, false},
		{"a file is no longer watched", request{cause: changedFiles}, more, first, false},
		{"a file has changed", request{cause: changedFiles}, more, changed, true},
		{"a caller waits", request{cause: "request", retry: true}, first, first, true},
		{"a retry with other manifests", request{cause: otherManifests, retry: true}, first, first, false},
	} {
		if got := c.r.isNews(c.before, c.now); got != c.want {
			t.Errorf("%s: got %t", c.name, got)
		}
	}
}

func TestIsDecided(t *testing.T) {
	for _, c := range []struct {
		name string
		u    results.Update
		want bool
	}{
		{"result of a probe", results.Update{Result: results.Success}, true},
		{"initial result", results.Update{Cause: results.Cause{Reason: results.Initial}}, false},
		{"restored result", results.Update{Cause: results.Cause{Reason: results.Restored}}, false},
		{"removed result", results.Update{Removed: true}, false},
	} {
		if got := isDecided(c.u); got != c.want {
			t.Errorf("%s: got %t", c.name, got)
		}
	}
}
