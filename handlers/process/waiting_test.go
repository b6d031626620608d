package process_test

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/probe"
)

// traced makes an attempt with a tracer.
func traced(t *testing.T, h probe.Handler, timeout time.Duration) (out probe.Outcome, events []probe.TraceEvent, err error) {
	t.Helper()
	req := probe.Request{
		Attempt: 1, Debug: true, Trace: func(e probe.TraceEvent) { events = append(events, e) },
		Redact: strings.NewReplacer("waiting", "[redacted]").Replace,
	}
	out, err = attemptOf(t, h, req, timeout)
	return out, events, err
}

// wantWait makes an attempt that must hang, and compares its details with a pattern.
func wantWait(t *testing.T, h probe.Handler, pattern string) {
	t.Helper()
	out, events, err := traced(t, h, time.Second)
	if err != nil || out.Reason != probe.ReasonDeadline || out.Output != "timed out after 1s" {
		t.Fatalf("got %+v, %v", out, err)
	}
	var details struct{ Waiting string }
	if err := json.Unmarshal([]byte(out.Details), &details); err != nil {
		t.Fatalf("details %q: %v", out.Details, err)
	}
	if !regexp.MustCompile(pattern).MatchString(details.Waiting) {
		t.Errorf("%q does not match %s", details.Waiting, pattern)
	}
	if last := events[len(events)-1]; last.Type != probe.TraceWait || !strings.HasPrefix(details.Waiting, last.Name+" ") || last.Duration < time.Second/2 {
		t.Errorf("the last event is %+v, the details say %s", last, details.Waiting)
	}
}

func TestProcessHangIsExplained(t *testing.T) {
	t.Parallel()
	h := load(t, process.Config{})
	const took = `^probe process \d+: waiting for [0-9.]+m?s; it runs, accepted the request after .*s and has not answered; `
	cpu := `; it .*: [0-9.]+m?s of processor time, without its children$`
	if runtime.GOOS != "linux" {
		cpu = `$`
	}
	wantWait(t, bind(t, h, "hang"), took+`log lines: 1, the last [0-9.]+m?s ago: "\[redacted\]"`)
	wantWait(t, bind(t, h, "spin"), took+`no log lines`+cpu)
	out, err := attempt(t, bind(t, h, "hang"), time.Second)
	if err != nil || !strings.Contains(out.Details, `{"waiting":"probe process `) {
		t.Errorf("without a tracer: %+v, %v", out, err)
	}
}

func TestProcessCallIsTraced(t *testing.T) {
	h := load(t, process.Config{})
	for mode, pattern := range map[string]string{
		"ok": `^process \d+: answered 0$`, "failure": `^process \d+: answered 2$`, "error": `^process \d+: answered -1$`,
	} {
		_, events, _ := traced(t, bind(t, h, mode), patience)
		if len(events) == 0 {
			t.Errorf("%s: no events", mode)
			continue
		}
		last := events[len(events)-1]
		if last.Type != probe.TraceCall || last.Name != "probe" || !regexp.MustCompile(pattern).MatchString(last.Detail) || last.Duration <= 0 {
			t.Errorf("%s: %+v", mode, last)
		}
	}
}

func TestCheckRunIsTraced(t *testing.T) {
	dir := checkFolder(t)
	c := loadCheck(t, `[check_it, "{{config.mode}}", "a b"]`, dir)
	line := filepath.Join(dir, "check_it")
	for mode, want := range map[string]string{
		"critical": line + ` critical "a b": exit status 2; `,
		"killed":   line + ` killed "a b": signal: killed; no output`,
		"quiet":    line + ` quiet "a b": exit status 2; no output; on stderr 10 bytes of output, the last line "only here"`,
	} {
		_, events, _ := traced(t, prepareCheck(t, c, `{"mode":"`+mode+`"}`), patience)
		if len(events) != 1 || events[0].Name != "check_it" || !strings.HasPrefix(events[0].Detail, want) {
			t.Errorf("%s: got %+v, want %s", mode, events, want)
		}
	}
}

func TestCheckHangIsExplained(t *testing.T) {
	dir := checkFolder(t)
	c := loadCheck(t, `[check_it, "{{config.mode}}", /dev/null]`, dir)
	wantWait(t, prepareCheck(t, c, `{"mode":"hang"}`),
		`^check_it .*/check_it hang /dev/null: still running for [0-9.]+m?s; no output; it .*: .*s of processor time, without its children$`)
}
