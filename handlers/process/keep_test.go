package process

import (
	"strconv"
	"testing"

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
