package wasm_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

func TestKVIsKeptPerProbe(t *testing.T) {
	p := loadAs(t, host, "kv", asking("kv", plugin.Request{Capability: "kv"}), grants(t, "kv")...)
	say := func(h probe.Handler) string {
		got, err := attempt(t, h, probe.Request{}, 5*time.Second)
		if err != nil {
			return string(probe.ReasonOf(err))
		}
		return got.Output
	}
	// The next call of the same probe finds the values of a call with any verdict, but not the values of
	// a call that ended in an error. Calls of other probes do not find them.
	var got []string
	for _, code := range []int{0, 1, 2, 3} {
		b := bind(t, p, fmt.Sprintf(`{"add":"x","code":%d}`, code), probe.Target{})
		for range 3 {
			got = append(got, say(b))
		}
	}
	for _, code := range []int{7, 8, 9} {
		b := bind(t, p, fmt.Sprintf(`{"add":"x","code":%d}`, code), probe.Target{})
		for range 2 {
			got = append(got, say(b))
		}
	}
	want := []string{"", "x", "xx", "", "x", "xx", "", "x", "xx", "", "x", "xx", "protocol", "protocol", "guest", "guest", "trap", "trap"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	forget := bind(t, p, `{"add":"x","code":0,"forget":1}`, probe.Target{})
	if first, second := say(forget), say(forget); first != "" || second != "" {
		t.Errorf("got %q and %q, want what was deleted to be gone", first, second)
	}
	if big := say(bind(t, p, `{"add":"x","code":0,"big":1}`, probe.Target{})); big != "kv: more than 65536 bytes" {
		t.Errorf("got %q, want the limit", big)
	}
}

func TestErrorsDiscardKV(t *testing.T) {
	p := loadAs(t, host, "kv", asking("kv", plugin.Request{Capability: "kv"}), grants(t, "kv")...)
	b := bind(t, p, `{"add":"x","code":8}`, probe.Target{})
	for range 3 {
		if _, err := attempt(t, b, probe.Request{}, 5*time.Second); err == nil || !strings.HasSuffix(err.Error(), "returned -1") {
			t.Errorf("got %v, want the guest's error, with nothing kept", err)
		}
	}
}

func TestCapabilitiesMustBeGranted(t *testing.T) {
	code := guestFile(t, "kv")
	for _, c := range []struct {
		requests []plugin.Request
		grants   []string
		want     string
	}{
		{nil, nil, `it imports prober_v1_kv, and its manifest does not ask for the capability "kv"`},
		{nil, []string{"kv"}, `it imports prober_v1_kv, and its manifest does not ask for the capability "kv"`},
		{[]plugin.Request{{Capability: "kv"}}, nil, `the capability "kv" is not granted`},
		{[]plugin.Request{{Capability: "kv"}}, []string{"!kv", "tcp://*:*"}, `the capability "kv" is not granted`},
	} {
		_, err := host.Load(t.Context(), plugin.Found{Module: code, Manifest: asking("kv", c.requests...), Grants: grants(t, c.grants...)})
		if probe.ReasonOf(err) != probe.ReasonDenied || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%v, %v: got %v, want %q", c.requests, c.grants, err, c.want)
		}
	}
	// An optional capability that is not granted returns -EPERM, and is counted and traced.
	p := loadAs(t, host, "kv", asking("kv", plugin.Request{Capability: "kv", Optional: true}))
	denied := 0
	got, err := attempt(t, bind(t, p, `{"add":"x","code":0,"big":1}`, probe.Target{}), probe.Request{Debug: true, Trace: func(e probe.TraceEvent) {
		if e.Type == probe.TraceDenied {
			denied++
		}
	}}, 5*time.Second)
	if err != nil || got.Output != `the capability "kv" is not granted` || denied != 3 || p.Stats().Denied != 3 {
		t.Errorf("got %+v, %v, %d denials, %d counted", got, err, denied, p.Stats().Denied)
	}
}

// TestKVKeysAreBounded checks the limit of the number of keys. A key takes more memory than its bytes.
func TestKVKeysAreBounded(t *testing.T) {
	p, err := host.Load(t.Context(), plugin.Found{Module: assemble(t, `(module
  (import "prober_v1_kv" "set" (func $set (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "probe") (result i32) (local i32)
    loop
      i32.const 0 local.get 0 i32.store
      i32.const 0 i32.const 4 i32.const 0 i32.const 0 call $set
      if local.get 0 i32.const 1024 i32.ne return end
      local.get 0 i32.const 1 i32.add local.set 0
      br 0
    end
    i32.const 2))`), Manifest: asking("kv", plugin.Request{Capability: "kv"}), Grants: grants(t, "kv")})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	b := bind(t, p, "{}", probe.Target{})
	if got, err := attempt(t, b, probe.Request{}, 5*time.Second); err != nil || got.Result != probe.Success {
		t.Errorf("got %+v, %v, want 1024 keys to be taken", got, err)
	}
	if got, err := attempt(t, b, probe.Request{}, 5*time.Second); err != nil || got.Result != probe.Success { // same attempt again
		t.Errorf("got %+v, %v, want the same keys to be taken", got, err)
	}
	wantHits(t, p, map[plugin.LimitName]uint64{"kv": 2})
}
