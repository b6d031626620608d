package agent

import "testing"

// A file that is watched for the first time is no reason to log again what is wrong.
func TestIsNews(t *testing.T) {
	news := &request{cause: changedFiles}
	const first, more, changed = "\"a\" 1\n", "\"a\" 1\n\"b\" 1\n", "\"a\" 2\n\"b\" 1\n"
	for _, c := range []struct {
		name, before, now string
		want              bool
	}{
		{"a file that is watched now", first, more, false},
		{"one that is not any more", more, first, false},
		{"one that has changed", more, changed, true},
	} {
		if got := news.isNews(c.before, c.now); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}
