package socket

import (
	"regexp"
	"strings"
	"testing"
)

func TestRecvMatch(t *testing.T) {
	for _, c := range []struct {
		recv Recv
		data string
		n    int
		done bool
		want string // in the error
	}{
		{Recv{Any: true}, "", 0, false, ""},
		{Recv{Any: true}, "abc", 3, true, ""},
		{Recv{Exact: []byte("HELO")}, "HE", 4, false, ""},
		{Recv{Exact: []byte("HELO")}, "HELO more", 4, true, ""},
		{Recv{Exact: []byte("HELO")}, "HX", 0, false, `got "HX", want "HELO"`},
		{Recv{Prefix: []byte("{")}, "{}", 2, true, ""},
		{Recv{Prefix: []byte("{")}, "x", 1, false, `got "x", want "{"`},
		{Recv{Regex: regexp.MustCompile(`^a+b`)}, "aa", 0, false, ""},
		{Recv{Regex: regexp.MustCompile(`^a+b`)}, "aabc", 3, true, ""},
	} {
		n, done, err := c.recv.match([]byte(c.data))
		switch {
		case c.want != "":
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v of %q: got %v, want %q", &c.recv, c.data, err, c.want)
			}
		case done != c.done || done && n != c.n || err != nil:
			t.Errorf("%v of %q: got %d, %v, %v", &c.recv, c.data, n, done, err)
		}
	}
}
