package process

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestOutputCutsAndDropsLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		l := &Output{W: &b, Prefix: "p: "}
		write := func(s string) {
			if n, err := l.Write([]byte(s)); n != len(s) || err != nil {
				t.Errorf("wrote %d of %d bytes, %v", n, len(s), err)
			}
		}
		want := func(text string) {
			t.Helper()
			if b.String() != text {
				t.Errorf("got %.100q, want %.100q", b.String(), text)
			}
			b.Reset()
		}
		write("one\ntw")
		want("p: one\n")
		write("o\n\n")
		want("p: two\np: \n")
		write(strings.Repeat("x", maxLine) + "yyy\n")
		want("p: " + strings.Repeat("x", maxLine) + " [cut]\n")

		line := strings.Repeat("z", 1000) + "\n"
		write(strings.Repeat(line, 300))
		kept := strings.Count(b.String(), "\n")
		if kept < 200 || kept > 262 {
			t.Errorf("%d lines of 1000 bytes kept in a second", kept)
		}
		b.Reset()
		time.Sleep(time.Second)
		write("after\n")
		if got := b.String(); !strings.HasPrefix(got, "p: [") || !strings.HasSuffix(got, " lines dropped]\np: after\n") {
			t.Errorf("got %q", got)
		}
		b.Reset()
		write("no line feed")
		l.close()
		want("p: no line feed\n")
	})
}

func TestOutputCountsDroppedLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		l := &Output{W: &b}
		line := strings.Repeat("z", maxLine) + "\n"
		for range 40 {
			_, _ = l.Write([]byte(line))
		}
		l.close()
		if got := b.String(); strings.Count(got, "z\n") != 32 || !strings.HasSuffix(got, "[8 lines dropped]\n") {
			t.Errorf("%d lines kept, then %q", strings.Count(got, "z\n"), got[len(got)-30:])
		}
	})
}
