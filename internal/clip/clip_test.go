package clip_test

import (
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/clip"
)

func TestClip(t *testing.T) {
	for _, c := range []struct{ text, bytes, clipped, marked string }{
		{"", "", "", ""},
		{"12345", "12345", "12345", "12345"},
		{"123456", "12345", "12…", "12345..."},
		{"1234é", "1234", "12…", "1234..."},
		{"1é345é", "1é34", "1…", "1é34..."},
		{"\xff2345", "\xff2345", "\xff2345", "\xff2345"},
		{"\xff23456", "2345", "2…", "2345..."},
	} {
		if got := clip.Bytes(c.text, 5); got != c.bytes {
			t.Errorf("Bytes(%q) = %q, want %q", c.text, got, c.bytes)
		}
		if got := clip.Text(c.text, 5); got != c.clipped {
			t.Errorf("Text(%q) = %q, want %q", c.text, got, c.clipped)
		}
		if got := clip.Marked(c.text, 5, "..."); got != c.marked {
			t.Errorf("Marked(%q) = %q, want %q", c.text, got, c.marked)
		}
	}
}

func TestClipAllocatesNothing(t *testing.T) {
	for _, text := range []string{strings.Repeat("a", 100), strings.Repeat("é", 100), strings.Repeat("日本😀", 100)} {
		for most := 40; most < 50; most++ {
			if n := testing.AllocsPerRun(10, func() { _ = clip.Bytes(text, most) }); n > 0 {
				t.Errorf("%v allocations for %d bytes of %.20q", n, most, text)
			}
		}
	}
}
