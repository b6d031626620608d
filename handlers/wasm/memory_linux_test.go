package wasm

import (
	"errors"
	"testing"

	"github.com/daeace23/prober/probe"
)

// A system that has no room for one more instance makes an attempt one that is skipped,
// and no error of the plugin.
func TestASystemWithoutRoom(t *testing.T) {
	b := budget{total: 1 << 30, evict: func() bool { return false }}
	m, err := newMemory(&b, whole(pageSize), 1<<62)
	if m != nil || !errors.Is(err, ErrNoInstance) || !errors.Is(err, probe.ErrNoSlot) || b.inUse() != 0 {
		t.Errorf("got %v, %v, and %d bytes in use", m, err, b.inUse())
	}
}
