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

// resultGuest returns a guest whose result is doc.
func resultGuest(t *testing.T, doc string) []byte {
	t.Helper()
	return assemble(t, fmt.Sprintf(`(module
  (import "prober_v1" "result_write" (func $result (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "%s")
  (func (export "probe") (result i32) i32.const 0 i32.const %d call $result drop i32.const 0))`, strings.ReplaceAll(doc, `"`, `\22`), len(doc)))
}

func TestDetails(t *testing.T) {
	p, err := host.Load(t.Context(), plugin.Found{Module: resultGuest(t, `{"message":"m","details":{"master":"10.0.0.1"}}`), Manifest: plugin.Minimal("details")})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	want := probe.Outcome{Result: probe.Success, Output: "m", Details: `{"master":"10.0.0.1"}`}
	got, err := attempt(t, p, probe.Request{}, 5*time.Second)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, (-want +got)\n%s", err, diff)
	}
	long, err := host.Load(t.Context(), plugin.Found{Module: resultGuest(t, `{"message":"m","details":{"master":"10.0.0.1"}}`), Manifest: limited(plugin.Limits{Message: 20})})
	if err != nil {
		t.Fatal(err)
	}
	defer long.Close()
	if got, err := attempt(t, long, probe.Request{}, 5*time.Second); err != nil || got.Output != "m" || got.Details != "" {
		t.Errorf("details above the limit: got %+v, %v", got, err)
	}
	wantHits(t, long, map[plugin.LimitName]uint64{"message": 1})
	got, err = attempt(t, bind(t, goGuest(t), `{"do":"details"}`, probe.Target{}), probe.Request{}, 5*time.Second)
	if err != nil || got.Output != "detailed" || got.Details != `{"db":{"slots":3}}` {
		t.Errorf("a guest of Go: got %+v, %v", got, err)
	}
	got, err = attempt(t, bind(t, goGuest(t), `{"do":"details","long":70000}`, probe.Target{}), probe.Request{}, 5*time.Second)
	if err != nil || got.Result != probe.Success || got.Output != strings.Repeat("x", probe.MaxOutput) || got.Details != "" {
		t.Errorf("a guest of Go that has too much to say: %v, %d bytes, details of %d bytes, %v", got.Result, len(got.Output), len(got.Details), err)
	}
}
