package memory_test

import (
	"testing"

	"github.com/tetratelabs/wazero"

	"github.com/daeace23/prober/handlers/wasm/internal/memory"
)

// TestStackOfFindsField fails if a version of wazero keeps the stack in another field than the one
// that StackOf reads. Then every waiting guest would count with the largest possible stack.
func TestStackOfFindsField(t *testing.T) {
	module := []byte("\x00asm\x01\x00\x00\x00" + "\x01\x04\x01\x60\x00\x00" + "\x03\x02\x01\x00" + "\x07\x05\x01\x01f\x00\x00" + "\x0a\x04\x01\x02\x00\x0b")
	for name, config := range map[string]wazero.RuntimeConfig{"compiler": wazero.NewRuntimeConfig(), "interpreter": wazero.NewRuntimeConfigInterpreter()} {
		runtime := wazero.NewRuntimeWithConfig(t.Context(), config)
		defer runtime.Close(t.Context())
		guest, err := runtime.Instantiate(t.Context(), module)
		if err != nil {
			t.Fatal(err)
		}
		if got := memory.StackOf(guest.ExportedFunction("f")).Size(); got > 20<<10 {
			t.Errorf("%s: a new stack has %d bytes", name, got)
		}
	}
}
