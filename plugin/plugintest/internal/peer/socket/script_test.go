package socket

import (
	"regexp"
	"strings"
	"testing"

	"github.com/daeace23/prober/plugin/plugintest/internal/expr"
)

func exact(text string) *Message { return &Message{data: []byte(text)} }

// FuzzFrame checks that a complete message is within its bytes, and that more bytes do not change it.
func FuzzFrame(f *testing.F) {
	f.Add([]byte("\x00\x03abc"), 2, 0, 0, true, false)
	f.Add([]byte("0\x82\x00\x01a"), 0, 1, 0, false, true)
	f.Add([]byte("\x10\x80\x01"), 0, 1, -1, true, true)
	f.Fuzz(func(t *testing.T, data []byte, size, offset, add int, flag, other bool) {
		frame := &Frame{Bytes: size & 7, Offset: offset & 63, Add: add % 64, Includes: flag}
		if frame.Bytes == 0 {
			frame.Encoding = map[bool]encoding{true: ber, false: varint}[other]
		} else if other {
			frame.Order = little
		}
		body, n, done, err := frame.match(data)
		if err != nil || !done {
			return
		}
		if body < frame.Offset || n < body || n > len(data) || n-body > maxReceived {
			t.Errorf("%+v of %x: body at %d of %d bytes", frame, data, body, n)
		}
		if again, m, done, err := frame.match(append(data[:n:n], "more"...)); again != body || m != n || !done || err != nil {
			t.Errorf("%+v of %x: %d bytes, with more %d, %v, %v", frame, data, n, m, done, err)
		}
	})
}

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
		{Recv{Exact: exact("HELO")}, "HE", 4, false, ""},
		{Recv{Exact: exact("HELO")}, "HELO more", 4, true, ""},
		{Recv{Exact: exact("HELO")}, "HX", 0, false, `got "HX", want "HELO"`},
		{Recv{Prefix: exact("{")}, "{}", 2, true, ""},
		{Recv{Prefix: exact("{")}, "x", 1, false, `got "x", want "{"`},
		{Recv{Regex: regexp.MustCompile(`^a+b`)}, "aa", 0, false, ""},
		{Recv{Regex: regexp.MustCompile(`^a+b`)}, "aabc", 3, true, ""},
		{Recv{Length: 3}, "ab", 0, false, ""},
		{Recv{Length: 3}, "abcd", 3, true, ""},
		{Recv{Until: []byte("\r\n")}, "ab\r", 0, false, ""},
		{Recv{Until: []byte("\r\n")}, "ab\r\ncd", 4, true, ""},
		{Recv{Frame: &Frame{Bytes: 2}}, "\x00", 0, false, ""},
		{Recv{Frame: &Frame{Bytes: 2}}, "\x00\x03ab", 0, false, ""},
		{Recv{Frame: &Frame{Bytes: 2}}, "\x00\x03abcd", 5, true, ""},
		{Recv{Frame: &Frame{Bytes: 2, Order: little, Includes: true}}, "\x03\x00abcd", 3, true, ""},
		{Recv{Frame: &Frame{Bytes: 4, Offset: 1, Includes: true}}, "Q\x00\x00\x00\x05abcd", 6, true, ""},
		{Recv{Frame: &Frame{Bytes: 1, Add: 2}}, "\x01abcd", 4, true, ""},
		{Recv{Frame: &Frame{Bytes: 1, Includes: true}}, "\x00", 0, false, "the length is 0: the message would have -1 more bytes"},
		{Recv{Frame: &Frame{Bytes: 4}}, "\xff\xff\xff\xff", 0, false, "the limit is 1048576"},
		{Recv{Frame: &Frame{Bytes: 8}}, "\xff\xff\xff\xff\xff\xff\xff\xff", 0, false, "8 bytes do not fit an integer"},
		{Recv{Frame: &Frame{Offset: 1, Encoding: varint}}, "\x30\x80", 0, false, ""},
		{Recv{Frame: &Frame{Offset: 1, Encoding: varint}}, "\x30\x02abc", 4, true, ""},
		{Recv{Frame: &Frame{Encoding: varint}}, strings.Repeat("\xff", 11), 0, false, "too large a varint"},
		{Recv{Frame: &Frame{Encoding: ber}}, "\x82\x00", 0, false, ""},
		{Recv{Frame: &Frame{Encoding: ber}}, "\x82\x00\x01ab", 4, true, ""},
		{Recv{Frame: &Frame{Encoding: ber}}, "\x02abc", 3, true, ""},
		{Recv{Frame: &Frame{Encoding: ber}}, "\x80", 0, false, "indefinite"},
	} {
		got, done, err := c.recv.match([]byte(c.data), &expr.Env{})
		switch {
		case c.want != "":
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v of %q: got %v, want %q", &c.recv, c.data, err, c.want)
			}
		case done != c.done || done && got.size != c.n || err != nil:
			t.Errorf("%v of %q: got %d, %v, %v", &c.recv, c.data, got.size, done, err)
		}
	}
}
