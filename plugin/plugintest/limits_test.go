package plugintest_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/plugin/plugintest"
)

// doubled returns an expression of n bytes, a power of two of at least 256.
func doubled(n int) string {
	text := `"` + strings.Repeat("x", 256) + `"`
	for size := 256; size < n; size *= 2 {
		text = "hex(" + text + ")"
	}
	return text
}

// scripted returns a file whose plugin waits for the end of a script, in flow style.
func scripted(t *testing.T, steps ...string) *plugintest.File {
	t.Helper()
	return load(t, "- {name: a, request: {target: {host: a, port: 1}, config: {do: talk}}, want: {result: success}, host: {net: [{dial: 'tcp://a:1', script: ["+strings.Join(steps, ", ")+"]}]}}")
}

// TestLoadKeepsNoLargeConstants loads a file of 40 KiB whose expressions have 320 MiB.
func TestLoadKeepsNoLargeConstants(t *testing.T) {
	var steps []string
	for range 40 {
		steps = append(steps, "{send: {text: '${"+doubled(8<<20)+"}'}}")
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f := scripted(t, steps...)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 64<<20 {
		t.Errorf("%d MiB in memory", grown>>20)
	}
	runtime.KeepAlive(f)
}

func TestScriptBoundsBytes(t *testing.T) {
	t.Parallel()
	var values, names, sends []string
	for i := range 9 {
		names = append(names, fmt.Sprintf("v%d", i))
		values = append(values, fmt.Sprintf("{let: {v%d: '%s'}}", i, doubled(4<<20)))
		sends = append(sends, "{send: {text: '${"+doubled(4<<20)+"}'}}")
	}
	values = append(values, "{send: {text: '${u32(size(concat("+strings.Join(names, ", ")+")))}'}}")
	slow := "{send: {text: '${" + doubled(32<<10) + "}', every: 1us}}"
	for _, c := range []struct {
		name  string
		steps []string
		want  string // in the failures
	}{
		{"values", values, "tcp://a:1: v8: the values and the data of one connection have more than 33554432 bytes"},
		{"sends", sends, "tcp://a:1: the values and the data of one connection have more than 33554432 bytes"},
		{"every", []string{slow, slow, slow}, "tcp://a:1: every: one connection sends more than 65536 bytes byte by byte"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := run(t, scripted(t, c.steps...), plugintest.Config{CasesOnly: true}).Results[0]
			if got := strings.Join(r.Failures, "\n"); !strings.Contains(got, c.want) {
				t.Errorf("got %s\n%s, want %q", got, r.Diff, c.want)
			}
		})
	}
}

// TestScriptEndsWithAttempt has a script that would compute for a minute.
func TestScriptEndsWithAttempt(t *testing.T) {
	t.Parallel()
	steps := []string{"{recv: any}"}
	for range 500 {
		steps = append(steps, `{send: {hex: '${pbkdf2_sha256("a", "b", 250000)}'}}`)
	}
	r := run(t, scripted(t, steps...), plugintest.Config{CasesOnly: true, Stuck: 200 * time.Millisecond}).Results[0]
	if got := strings.Join(r.Failures, "\n"); r.Real > 25*time.Second || !strings.Contains(got, "without an end") {
		t.Errorf("took %v, %s", r.Real, got)
	}
}
