package wasmfile

import (
	"bytes"
	"testing"
)

// FuzzCustom compares Custom with Sections, which reads the whole module and so finds more errors. Otherwise their
// results must be equal.
func FuzzCustom(f *testing.F) {
	const empty = "\x00asm\x01\x00\x00\x00"
	for _, module := range []string{
		"", empty, empty + "\x00\x05\x03abcx", empty + "\x00\x05\x03abcx\x00\x06\x03abcyz", empty + "\x01\x01\x00\x00\x05\x03abdx\x00\x04\x03abc",
		empty + "\x00\x05\x09abcx", empty + "\x00\x01\x03abc", empty + "\x00\xff\x7f\x03abc", empty + "\x0a\xff\xff\xff\xff\x0f",
	} {
		f.Add([]byte(module))
	}
	f.Add(append([]byte(empty+"\x00\x66\x64"), bytes.Repeat([]byte("a"), 101)...)) // a name longer than a header
	f.Fuzz(func(t *testing.T, module []byte) {
		got, err := Custom(bytes.NewReader(module), int64(len(module)), "abc", 10)
		if err != nil {
			return
		}
		sections, err := Sections(module)
		if err != nil && len(got) == 0 {
			return // the error is in the name of another section, which Custom does not read
		}
		var want [][]byte
		for _, s := range sections {
			if s.ID == 0 && s.Name == "abc" {
				want = append(want, s.Body)
			}
		}
		if err == nil && len(got) != len(want) {
			t.Fatalf("got %q, want %q", got, want)
		}
		for i := range want {
			if !bytes.Equal(got[i], want[i]) {
				t.Errorf("got %q, want %q", got[i], want[i])
			}
		}
	})
}

func TestCustomReadsOnlyHeaders(t *testing.T) {
	module := []byte("\x00asm\x01\x00\x00\x00" + "\x0a\x80\x80\x80\x01")
	code := len(module)
	module = append(module, make([]byte, 2<<20)...)
	module = append(module, "\x00\x0a\x03abcfound!"...)
	r := &counting{data: module}
	got, err := Custom(r, int64(len(module)), "abc", 10)
	if err != nil || len(got) != 1 || string(got[0]) != "found!" {
		t.Errorf("got %q, %v", got, err)
	}
	if r.read > code+1000 {
		t.Errorf("%d bytes of %d were read", r.read, len(module))
	}
	if _, err := Custom(r, int64(len(module)), "abc", 5); err == nil {
		t.Error("a body of more bytes than allowed was read")
	}
}

// counting counts the bytes that are read.
type counting struct {
	data []byte
	read int
}

func (c *counting) ReadAt(p []byte, at int64) (int, error) {
	n, err := bytes.NewReader(c.data).ReadAt(p, at)
	c.read += n
	return n, err
}
