package plugin_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/daeace23/prober/plugin"
)

func TestGrantsOfFiles(t *testing.T) {
	for _, c := range []struct {
		grant, path string
		want        bool
	}{
		{"file:///proc/loadavg", "/proc/loadavg", true},
		{"file:///proc/loadavg", "/proc/loadavg/x", false},
		{"file:///proc", "/proc", true},
		{"file:///proc", "/proc/1", false},
		{"file:///", "/", true},
		{"file:///", "/etc", false},
		{"file:///**", "/", true},
		{"file:///**", "/etc/shadow", true},
		{"file:///var/backups/**", "/var/backups", true},
		{"file:///var/backups/**", "/var/backups/.a/b", true},
		{"file:///var/backups/**", "/var/backups2", false},
		{"file:///var/backups/**", "/var", false},
		{"file:///proc/*/stat", "/proc/1/stat", true},
		{"file:///proc/*/stat", "/proc/1/2/stat", false},
		{"file:///proc/*/stat", "/proc/stat", false},
		{"file:///var/*.tar", "/var/db.tar", true},
		{"file:///var/*.tar", "/var/.tar", true},
		{"file:///var/*.tar", "/var/db.tar.gz", false},
		{"file:///a*b*c", "/abc", true},
		{"file:///a*b*c", "/axxbyyc", true},
		{"file:///a*b*c", "/ac", false},
		{"file:///a*ba", "/aba", true},
		{"file:///a*ba", "/ba", false},
		{"file:///A", "/a", false},
		{"!file:///A", "/a", true}, // denials ignore case
		{"!file:///home/**", "/HOME/x", true},
		{"tcp://*:*", "/a", false},
		{"!10.0.0.0/8", "/a", false},
		{"unix:///a", "/a", false},
	} {
		if got := grant(t, c.grant).MatchesFile(c.path); got != c.want {
			t.Errorf("%s, %s: got %v", c.grant, c.path, got)
		}
	}
	if g := grant(t, "file:///**"); g.Matches(plugin.Dial{Scheme: "file", Path: "/a"}) || g.Matches(dial("unix", "", "", 0, "/a")) || g.Is("kv") || !g.Is("file") {
		t.Error("a grant of files matches a dial, or another kind")
	}
}

func TestGrantsOfFilesOverlap(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"file:///a/**", "file:///a/b/c", true},
		{"file:///a/b/**", "file:///a/**", true},
		{"file:///a/**", "file:///a", true},
		{"file:///a/**", "file:///b/**", false},
		{"file:///**", "file:///", true},
		{"file:///a", "file:///a/b", false},
		{"file:///a/*.tar", "file:///a/db*", true},
		{"file:///a/*.tar", "file:///a/*.zip", false},
		{"file:///a/db*", "file:///a/x*", false},
		{"file:///proc/*/stat", "file:///proc/1/stat", true},
		{"file:///proc/*/stat", "file:///proc/1/environ", false},
		{"file:///run/x", "unix:///run/x", false},
		{"file:///x", "tcp://*:*", false},
	} {
		a, b := grant(t, c.a), grant(t, c.b)
		if a.Overlaps(b) != c.want || b.Overlaps(a) != c.want {
			t.Errorf("%s, %s: got %v, %v", c.a, c.b, a.Overlaps(b), b.Overlaps(a))
		}
	}
}

// FuzzGrantOfFiles compares a pattern with a regular expression.
func FuzzGrantOfFiles(f *testing.F) {
	f.Add("/proc/*/stat", "/proc/1/stat")
	f.Add("/a/**", "/a/b")
	f.Add("/a*b*a", "/aba")
	f.Fuzz(func(t *testing.T, pattern, path string) {
		g, err := plugin.ParseGrant("file://" + pattern)
		if err != nil || plugin.CheckFilePath(path) != nil {
			return
		}
		text, tree := strings.CutSuffix(pattern, "/**")
		text = strings.ReplaceAll(regexp.QuoteMeta(text), `\*`, "[^/]*")
		if tree {
			text += "(/.*)?"
		}
		want, err := regexp.MatchString("(?s)^"+text+"$", path)
		if tree && pattern == "/**" {
			want = true
		}
		if err != nil {
			return // not UTF-8
		}
		if got := g.MatchesFile(path); got != want {
			t.Errorf("%q, %q: got %v, want %v by %q", pattern, path, got, want, text)
		}
	})
}
