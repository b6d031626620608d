package memory

import (
	"bytes"
	"os"
	"testing"
)

func TestRestoredPagesReadAsImage(t *testing.T) {
	const size = 2 * mappedSize
	image := bytes.Repeat([]byte("image"), size)[:size]
	clear(image[os.Getpagesize() : 3*os.Getpagesize()]) // becomes a hole of the file
	clear(image[size-os.Getpagesize():])
	b := newBacking(image)
	if b == nil {
		t.Fatal("no image can be mapped")
	}
	defer b.close()
	space, err := reserve(uint64(size + os.Getpagesize()))
	if err != nil {
		t.Fatal(err)
	}
	defer unreserve(space)
	if !b.mapOver(space) {
		t.Fatal("the image was not mapped")
	}
	for _, pages := range []int{1, maxRewritten, maxRewritten + 1} { // copied back, or dropped
		for i := range pages {
			space[i*os.Getpagesize()] ^= 0xff
		}
		space[size] = 0xff
		if b.pagemap != nil && b.written(space[:size]) < uint64(pages*os.Getpagesize()) {
			t.Errorf("%d bytes are written, want %d pages", b.written(space[:size]), pages)
		}
		if _, ok := b.restore(space); !ok {
			t.Fatal("not restored")
		}
		if !bytes.Equal(space[:size], image) || bytes.ContainsFunc(space[size:], func(r rune) bool { return r != 0 }) {
			t.Errorf("%d written pages: it does not read as the image", pages)
		}
	}
}
