package pushcmd

import (
	"cmp"
	"fmt"
	"time"

	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/internal/procgroup"
)

// report describes the end of the command.
func (j *job) report(nagios bool, timeout, took time.Duration) client.PushReport {
	j.mu.Lock()
	timedOut := j.timedOut
	j.mu.Unlock()
	state := j.cmd.ProcessState
	code := procgroup.ExitStatus(state)
	first, last := j.lines(code == 0)
	switch {
	case timedOut:
		return client.PushReport{Result: failure, Message: withLine(fmt.Sprintf("killed after the timeout of %v", timeout), last)}
	case nagios && code >= 0 && code < len(nagiosResults):
		return client.PushReport{Result: nagiosResults[code], Message: cmp.Or(first, "after "+round(took)+", without output")}
	case nagios:
		last = first
	case code == 0:
		return client.PushReport{Result: success, Message: withLine("after "+round(took), last)}
	}
	return client.PushReport{Result: failure, Message: withLine(state.String()+" after "+round(took), last)}
}

// nagiosResults are the results of the exit codes of a plugin of Nagios.
var nagiosResults = [...]string{success, warning, failure, unknown}

// lines returns the first line of stdout, else of stderr, and the last line. After a failure, the last line
// of stderr comes first.
func (j *job) lines(succeeded bool) (first, last string) {
	var firsts, lasts [2]string
	for i, s := range j.streams {
		firsts[i], lasts[i] = s.lines.kept()
	}
	if !succeeded {
		lasts[0], lasts[1] = lasts[1], lasts[0]
	}
	return cmp.Or(firsts[:]...), cmp.Or(lasts[:]...)
}

// withLine appends a line of output, if there is one.
func withLine(text, line string) string {
	if line == "" {
		return text
	}
	return clip.Text(text+": "+line, maxMessage)
}

// round formats how long a command ran.
func round(took time.Duration) string {
	if took >= time.Second {
		return took.Round(100 * time.Millisecond).String()
	}
	return explain.Round(took).String()
}
