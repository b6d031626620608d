package socket

import (
	"regexp"
	"strings"
	"testing"

	"github.com/daeace23/prober/plugin/plugintest/internal/expr"
)

func exact(text string) *Message { return &Message{data: []byte(text)} }

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
