//go:build !wasip1

package sdk_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
)

// hoarder stores one key more than is allowed.
type hoarder struct{}

func (hoarder) Probe(_ context.Context, r *sdk.Request) (probe.Outcome, error) {
	for n := range abi.MaxKVKeys {
		if err := r.KV().Set(strconv.Itoa(n), nil); err != nil {
			return sdk.Failuref("%d keys: %v", n, err), nil
		}
	}
	if err := r.KV().Set("0", []byte("again")); err != nil {
		return sdk.Failuref("a key that is there: %v", err), nil
	}
	return probe.Outcome{}, r.KV().Set("one more", nil)
}

func TestKVBoundsKeys(t *testing.T) {
	got, err := sdk.Native(hoarder{}).Probe(t.Context(), probe.Request{})
	if err == nil || err.Error() != "kv: more than 1024 keys" {
		t.Errorf("got %+v, %v", got, err)
	}
}
