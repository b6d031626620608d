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

func TestProbesKeep(t *testing.T) {
	p := loadAs(t, host, "kv", asking("kv", plugin.Request{Capability: "kv"}), grants(t, "kv")...)
	say := func(h probe.Handler) string {
		got, err := attempt(t, h, probe.Request{}, 5*time.Second)
		if err != nil {
			return string(probe.ReasonOf(err))
		}
		return got.Output
	}
	// What one call keeps, the next one of the same probe finds, whatever its verdict;
	// the others do not, nor does a call after one that ended in an error.
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

// What a call that failed has kept is as if it had not been.
func TestErrorsKeepNothing(t *testing.T) {
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
		_, err := host.LoadGranted(t.Context(), code, asking("kv", c.requests...), grants(t, c.grants...))
		if probe.ReasonOf(err) != probe.ReasonDenied || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%v, %v: got %v, want %q", c.requests, c.grants, err, c.want)
		}
	}
	// What a plugin can do without answers -EPERM, and is counted and traced.
	p := loadAs(t, host, "kv", asking("kv", plugin.Request{Capability: "kv", Optional: true}))
	denied := 0
	got, err := attempt(t, bind(t, p, `{"add":"x","code":0,"big":1}`, probe.Target{}), probe.Request{Trace: func(e probe.TraceEvent) {
		if e.Type == probe.TraceDenied {
			denied++
		}
	}}, 5*time.Second)
	if err != nil || got.Output != `the capability "kv" is not granted` || denied != 3 || p.Stats().Denied != 3 {
		t.Errorf("got %+v, %v, %d denials, %d counted", got, err, denied, p.Stats().Denied)
	}
}
