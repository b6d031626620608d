package wasm_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/probe"
)

// The core knows a tick that is to be skipped by this, through any wrapping.
func TestNoInstanceIsNoSlot(t *testing.T) {
	if err := fmt.Errorf("plugin %q: %w", "x", wasm.ErrNoInstance); !errors.Is(err, probe.ErrNoSlot) {
		t.Errorf("%v does not match probe.ErrNoSlot: the tick would be tried again, evented and counted as an error", err)
	}
}
