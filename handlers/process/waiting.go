package process

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/internal/pluginpb"
	"github.com/daeace23/prober/internal/procgroup"
	"github.com/daeace23/prober/probe"
)

// question is a call to a process, and what is known about its answer.
type question struct {
	put   time.Time
	taken time.Duration // after which the process began to answer; 0: it did not
	cpu   time.Duration // of the process, before; known only where somebody looks
	lines int           // of its log since, those that were dropped included
	last  time.Time     // when the last of them came
	line  string        // the last of them
}

// begin notes that the question is put to the process.
func (q *question) begin(in *instance, traced bool) {
	q.put = time.Now()
	if traced {
		q.cpu = procgroup.CPUTime(in.child.cmd.Process.Pid)
	}
}

// note takes in a line of the log.
func (q *question) note(line string) { q.lines, q.last, q.line = q.lines+1, time.Now(), line }

// traceStart tells the tracer that the attempt waited for the process to start.
func (c *call) traceStart(in *instance, waited time.Duration) {
	if waited >= time.Millisecond {
		c.req.Trace.Emit(probe.TraceEvent{Type: probe.TracePhase, Name: "start", Detail: in.name(), Duration: waited})
	}
}

// name names the process.
func (in *instance) name() string { return "process " + in.child.ID() }

// traceCall tells the tracer what the process answered.
func (c *call) traceCall(in *instance, v *pluginpb.Verdict, err error) {
	s, isStatus := status.FromError(err)
	if c.req.Trace == nil || isStatus && s.Code() == codes.DeadlineExceeded { // see explain
		return
	}
	detail := in.name() + ": "
	switch {
	case err == nil:
		detail += fmt.Sprintf("answered %d", v.GetCode())
	case isStatus:
		detail += fmt.Sprintf("%s: %s", s.Code(), oneLine(s.Message()))
	default:
		detail += err.Error()
	}
	c.req.Trace.Emit(probe.TraceEvent{Type: probe.TraceCall, Name: "probe", Detail: detail, Duration: time.Since(c.question.put)})
}

// explain tells the tracer, and adds to out where it is there, what the process was doing
// when the attempt's time was over.
func (c *call) explain(in *instance, out *probe.Outcome) {
	w := c.wait(in)
	c.req.Trace.Emit(w.Event())
	if out != nil && out.Reason == probe.ReasonDeadline {
		out.Details = explain.Details{Waiting: w.String()}.String()
	}
}

// wait is what the attempt waits for.
func (c *call) wait(in *instance) *explain.Wait {
	q, now := &c.question, time.Now()
	w := &explain.Wait{Call: "probe", Where: in.name(), For: now.Sub(q.put)}
	if q.taken > 0 {
		w.Saw = []string{"it lives, took the question after " + explain.Round(q.taken).String() + " and has not answered"}
	} else {
		w.Saw = []string{"it lives, and has not taken the question"}
	}
	switch text := explain.Excerpt(c.req.Redacted(q.line), maxWords); {
	case q.lines == 0:
		w.Saw = append(w.Saw, "no line of log")
	default:
		ago := explain.Round(now.Sub(q.last))
		w.Saw = append(w.Saw, fmt.Sprintf(`lines of log: %d, the last %v ago: "%s"`, q.lines, ago, text))
	}
	if c.req.Trace != nil {
		if cpu := procgroup.CPUTime(in.child.cmd.Process.Pid); cpu > 0 {
			w.Saw = append(w.Saw, explain.CPU(cpu-q.cpu, w.For))
		}
	}
	return w
}

// commandLine is a command as a shell reads it.
func commandLine(args []string) string {
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = explain.Word(a)
	}
	return strings.Join(words, " ")
}

// output describes what a run has written.
func (r *result) output(req *probe.Request) []string {
	parts := []string{explain.Output(req.Redacted(r.stdout))}
	if r.stderr != "" {
		parts = append(parts, "on stderr "+explain.Output(req.Redacted(r.stderr)))
	}
	return parts
}

// traceRun tells the tracer how a run of a command has ended.
func traceRun(req *probe.Request, args []string, r *result, took time.Duration) {
	if req.Trace == nil {
		return
	}
	parts := append([]string{commandLine(args) + ": " + r.state}, r.output(req)...)
	req.Trace.Emit(probe.TraceEvent{
		Type: probe.TraceCall, Name: filepath.Base(args[0]), Detail: strings.Join(parts, "; "), Duration: took,
	})
}

// explainRun tells the tracer, and adds to out, that a command had to be killed.
func explainRun(req *probe.Request, args []string, r *result, took time.Duration, out *probe.Outcome) {
	w := &explain.Wait{Call: filepath.Base(args[0]), Where: commandLine(args), Doing: "still running", For: took, Saw: r.output(req)}
	if r.cpu > 0 {
		w.Saw = append(w.Saw, explain.CPU(r.cpu, took))
	}
	req.Trace.Emit(w.Event())
	if out.Reason == probe.ReasonDeadline {
		out.Details = explain.Details{Waiting: w.String()}.String()
	}
}
