package process

import (
	"strconv"
	"testing"
	"time"

	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/internal/pluginpb"
)

// A process may answer what its SDK would not let it keep.
func TestKeysAreBounded(t *testing.T) {
	b := &bound{plugin: &Handler{keeps: true}, store: &store{}}
	values := make(map[string][]byte)
	for n := range abi.MaxKVKeys {
		values[strconv.Itoa(n)] = nil
	}
	if err := b.keep(&pluginpb.KV{Values: values}, abi.MaxKV); err != nil || len(b.Kept()) != abi.MaxKVKeys {
		t.Errorf("got %v, and %d keys are kept", err, len(b.Kept()))
	}
	values["one more"] = nil
	if err := b.keep(&pluginpb.KV{Values: values}, abi.MaxKV); err == nil || err.Error() != "1025 keys; at most 1024 are allowed" || len(b.Kept()) != abi.MaxKVKeys {
		t.Errorf("got %v, and %d keys are kept", err, len(b.Kept()))
	}
}

// What a program has written is read, though the time for that is over before anybody has
// come to look.
func TestWhatWasWrittenInTimeIsRead(t *testing.T) {
	c := newCapture(100)
	if err := c.open(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.write.WriteString("last words"); err != nil {
		t.Fatal(err)
	}
	if err := c.read.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	c.start()
	if c.wg.Wait(); string(c.kept) != "last words" || c.held {
		t.Errorf("got %q, held %t", c.kept, c.held)
	}
	_ = c.read.Close()
}
