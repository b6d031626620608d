package memory

import (
	"bytes"
	"os"
	"testing"
)

// An instance that rests has given back its pages; all of them read as the image again.
func TestForgottenPagesReadAsTheImage(t *testing.T) {
	image := bytes.Repeat([]byte("image"), mappedSize/4)
	image = image[:mappedSize]
	b := newBacking(image)
	if b == nil {
		t.Fatal("no image can be mapped")
	}
	defer b.close()
	space, err := reserve(uint64(mappedSize + os.Getpagesize()))
	if err != nil {
		t.Fatal(err)
	}
	defer unreserve(space)
	if !b.mapOver(space) {
		t.Fatal("the image was not mapped")
	}
	for _, rests := range []bool{false, true} {
		for i := 0; i < len(space); i += os.Getpagesize() {
			space[i] ^= 0xff
		}
		if _, ok := b.restore(space); !ok {
			t.Fatal("not restored")
		}
		if rests {
			b.forget(space)
		}
		own := b.written(space[:mappedSize])
		if b.pagemap != nil && (own == 0) != rests {
			t.Errorf("rests=%v: %d bytes are its own", rests, own)
		}
		if !bytes.Equal(space[:mappedSize], image) || bytes.ContainsFunc(space[mappedSize:], func(r rune) bool { return r != 0 }) {
			t.Errorf("rests=%v: it does not read as the image", rests)
		}
	}
}
