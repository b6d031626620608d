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

// progress tracks the answer to a call of a process.
type progress struct {
	sent     time.Time
	accepted time.Duration // from sent to the headers of the answer; 0 before they arrive
	cpu      time.Duration // processor time of the process when sent; only for a debugged attempt
	lines    int           // number of log lines since then, including dropped ones
	last     time.Time     // time of the last line
	line     string        // the last line
}

// begin records that the request is sent to the process.
func (p *progress) begin(in *instance, debug bool) {
	p.sent = time.Now()
	if debug {
		p.cpu = procgroup.CPUTime(in.child.cmd.Process.Pid)
	}
}

// note records a log line.
func (p *progress) note(line string) { p.lines, p.last, p.line = p.lines+1, time.Now(), line }

// traceStart traces how long the attempt waited for the process to start.
func (c *call) traceStart(in *instance, waited time.Duration) {
	if waited >= time.Millisecond {
		c.req.Trace.Emit(probe.TraceEvent{Type: probe.TracePhase, Name: "start", Detail: in.name(), Duration: waited})
	}
}

// name returns the name of the process in traces and details.
func (in *instance) name() string { return "process " + in.child.ID() }

// traceCall traces the answer of the process.
func (c *call) traceCall(in *instance, v *pluginpb.Verdict, err error) {
	s, isStatus := status.FromError(err)
	if c.req.Trace == nil || isStatus && s.Code() == codes.DeadlineExceeded { // see explain
		return
	}
	e := probe.TraceEvent{Type: probe.TraceCall, Name: "probe", Duration: time.Since(c.progress.sent)}
	if err == nil && !c.req.Debug && v.GetCode() == 0 {
		c.req.Trace(e)
		return
	}
	detail := in.name() + ": "
	switch {
	case err == nil:
		detail += fmt.Sprintf("answered %d", v.GetCode())
	case isStatus:
		detail += fmt.Sprintf("%s: %s", s.Code(), firstLine(s.Message()))
	default:
		detail += err.Error()
	}
	e.Detail = detail
	c.req.Trace(e)
}

// explain traces what the attempt waited for at its deadline. If out is not nil, it adds this to out.
func (c *call) explain(in *instance, out *probe.Outcome) {
	w := c.wait(in)
	c.req.Trace.Emit(w.Event())
	if out != nil && out.Reason == probe.ReasonDeadline {
		w.Describe(out)
	}
}

// wait returns what the attempt waits for.
func (c *call) wait(in *instance) *explain.Wait {
	p, now := &c.progress, time.Now()
	w := &explain.Wait{Call: "probe", Where: in.name(), For: now.Sub(p.sent)}
	if p.accepted > 0 {
		w.Saw = []string{"it runs, accepted the request after " + explain.Round(p.accepted).String() + " and has not answered"}
	} else {
		w.Saw = []string{"it runs, and has not accepted the request"}
	}
	if p.lines == 0 {
		w.Saw = append(w.Saw, "no log lines")
	} else {
		text := explain.Excerpt(c.req.Redacted(p.line), maxWords)
		w.Saw = append(w.Saw, fmt.Sprintf(`log lines: %d, the last %v ago: "%s"`, p.lines, explain.Round(now.Sub(p.last)), text))
	}
	if c.req.Debug {
		if cpu := procgroup.CPUTime(in.child.cmd.Process.Pid); cpu > 0 {
			w.Own = append(w.Own, explain.CPU(cpu-p.cpu, w.For))
		}
	}
	return w
}

// output describes the output of a run.
func (r *result) output(req *probe.Request) []string {
	parts := []string{explain.Output(req.Redacted(r.stdout))}
	if r.stderr != "" {
		parts = append(parts, "on stderr "+explain.Output(req.Redacted(r.stderr)))
	}
	return parts
}

// traceRun traces how a run of a command has ended.
func traceRun(req *probe.Request, args []string, r *result, took time.Duration) {
	if req.Trace == nil {
		return
	}
	if r.code == 0 && !req.Debug {
		req.Trace(probe.TraceEvent{Type: probe.TraceCall, Name: filepath.Base(args[0]), Duration: took})
		return
	}
	parts := append([]string{explain.Command(args) + ": " + r.state}, r.output(req)...)
	req.Trace.Emit(probe.TraceEvent{
		Type: probe.TraceCall, Name: filepath.Base(args[0]), Detail: strings.Join(parts, "; "), Duration: took,
	})
}

// explainRun traces that a command was killed at the deadline, and adds this to out.
func explainRun(req *probe.Request, args []string, r *result, took time.Duration, out *probe.Outcome) {
	w := &explain.Wait{Call: filepath.Base(args[0]), Where: explain.Command(args), Doing: "still running", For: took, Saw: r.output(req)}
	if r.cpu > 0 {
		w.Own = append(w.Own, explain.CPU(r.cpu, took))
	}
	req.Trace.Emit(w.Event())
	if out.Reason == probe.ReasonDeadline {
		w.Describe(out)
	}
}
