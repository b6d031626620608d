package execprobe_test

import (
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/builtin/execprobe"
	"github.com/daeace23/prober/handlers/builtin/internal/rig"
	"github.com/daeace23/prober/probe"
)

func TestExecHangShowsOutputAndProcessorTime(t *testing.T) {
	for command, pattern := range map[string]string{
		"sleep 9":                              `^exec sleep 9: still running for \d+ms; no output; it .* of processor time`,
		"while :; do :; done":                  `^exec sh -c "while :; do :; done": still running for \d+ms; no output; it .*: \d+(\.\d+)?m?s of processor time`,
		`echo one; printf 'wait\033'; sleep 9`: `; 9 bytes of output, the last line "wait\\x1b"; it `,
	} {
		t.Run(command, func(t *testing.T) {
			args := []string{"sh", "-c", command}
			if command == "sleep 9" {
				args = strings.Fields(command)
			}
			rig.WantWaiting(t, rig.Hang(t, handler(t, new(execprobe.HostRunner), args...)), pattern)
		})
	}
}

func TestExecTraceShowsRun(t *testing.T) {
	var events []probe.TraceEvent
	h := handler(t, new(execprobe.HostRunner), "sh", "-c", "echo no; exit 3")
	_, err := rig.Attempt(t, h, probe.Request{Trace: func(e probe.TraceEvent) { events = append(events, e) }}, time.Minute)
	const want = `sh -c "echo no; exit 3": exit code 3; 3 bytes of output, the last line "no"`
	if err != nil || len(events) != 1 || events[0].Name != "exec" || events[0].Detail != want {
		t.Errorf("events %+v, %v", events, err)
	}
}
