package pushcmd

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/internal/pace"
	"github.com/daeace23/prober/internal/procgroup"
)

// Exit codes of a command that was not started, as shells have them.
const (
	exitCannotRun = 126
	exitNotFound  = 127
)

const (
	// startedTimeout is the time limit of the report that a run has begun.
	startedTimeout = 10 * time.Second
	// startedGrace is how long that report may go on after the end of the command.
	startedGrace = time.Second
)

// job is a command that runs.
type job struct {
	cmd      *exec.Cmd
	streams  []*stream // stdout and stderr, or one for both
	ownGroup bool      // the command leads a process group of its own
	began    time.Time

	mu       sync.Mutex
	ended    bool // the process ID may be another process's
	timedOut bool
}

// runCommand runs the command and reports its end. Its error has the exit code of the command.
func (p *push) runCommand(ctx context.Context, send sender) error {
	signals, stop := p.env.Notify(watched()...)
	defer stop()
	j, err := startJob(p.env, p.argv, p.timeout > 0)
	if err != nil {
		return p.notStarted(ctx, send, err)
	}
	begun := reportStart(ctx, send)
	ctx, stopSending := context.WithCancel(ctx)
	defer stopSending()
	patience, stopRetrying := context.WithCancel(ctx)
	over := make(chan struct{})
	var forwarding sync.WaitGroup
	defer forwarding.Wait()
	defer close(over)
	forwarding.Go(func() { j.forward(signals, over, stopRetrying, stopSending) })

	took := j.wait(p.timeout)
	begun()
	report := j.report(p.nagios, p.timeout, took)
	p.reportEnd(ctx, patience, send, report)
	for _, s := range j.streams { // a slow reader gets all of the output
		<-s.done
		if s.err != nil && !errors.Is(s.err, syscall.EPIPE) {
			p.env.Warn("output of the command was lost: %v", s.err)
		}
	}
	if code := procgroup.ExitStatus(j.cmd.ProcessState); code != 0 {
		return &command.Exit{Code: code}
	}
	return nil
}

// notStarted reports a command that cannot be started.
func (p *push) notStarted(ctx context.Context, send sender, err error) error {
	e := &command.Exit{Code: exitCannotRun, Err: err}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		e.Code = exitNotFound
	}
	ctx, stop := p.env.Interruptible(ctx)
	defer stop()
	p.reportEnd(ctx, ctx, send, client.PushReport{Result: failure, Message: "cannot be started: " + clean([]byte(err.Error()))})
	return e
}

// reportEnd delivers the report of the end, or warns on one line.
func (p *push) reportEnd(ctx, patience context.Context, send sender, r client.PushReport) {
	if err := deliver(ctx, patience, p.retry, func(ctx context.Context) error { return send(ctx, r) }); err != nil {
		p.env.Warn("the report was not delivered: %s", explain.OneLine(err.Error()))
	}
}

// reportStart reports that a run has begun, beside the command. The returned function ends that: a later
// report must not arrive earlier. An error is not shown, since the report of the end meets the same.
func reportStart(ctx context.Context, send sender) (end func()) {
	ctx, cancel := context.WithTimeout(ctx, startedTimeout)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = send(ctx, client.PushReport{Started: true})
	}()
	return func() {
		pace.Wait(ctx, done, startedGrace)
		cancel()
		<-done
	}
}

// watched returns the signals to receive, without those that prober was started to ignore, as under nohup.
// SIGPIPE would end prober before its report.
func watched() (signals []os.Signal) {
	for _, s := range []os.Signal{syscall.SIGTERM, os.Interrupt, syscall.SIGHUP, syscall.SIGPIPE} {
		if !signal.Ignored(s) {
			signals = append(signals, s)
		}
	}
	return signals
}

// startJob starts a command.
func startJob(env *command.Env, argv []string, ownGroup bool) (*job, error) {
	j := &job{cmd: exec.Command(argv[0], argv[1:]...), ownGroup: ownGroup}
	if ownGroup {
		j.cmd.SysProcAttr = procgroup.Attr()
	}
	j.cmd.Stdin = env.Stdin
	out, end, err := pipe(env.Stdout)
	if err != nil {
		return nil, err
	}
	defer end.Close()
	j.streams, j.cmd.Stdout, j.cmd.Stderr = []*stream{out}, end, end
	if !sameFile(env.Stdout, env.Stderr) { // else one pipe keeps the order
		errs, end, err := pipe(env.Stderr)
		if err != nil {
			out.from.Close()
			return nil, err
		}
		defer end.Close()
		j.streams, j.cmd.Stderr = append(j.streams, errs), end
	}
	j.began = time.Now()
	if err := j.cmd.Start(); err != nil {
		for _, s := range j.streams {
			s.from.Close()
		}
		return nil, err
	}
	for _, s := range j.streams {
		go s.pass()
	}
	return j, nil
}

// wait waits for the end of the command, and returns how long it ran. A process that the command has left
// behind, or a slow reader of the output, delays it for a moment only.
func (j *job) wait(timeout time.Duration) (took time.Duration) {
	if timeout > 0 {
		defer time.AfterFunc(timeout, j.kill).Stop()
	}
	_ = procgroup.Wait(j.cmd, func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.ended = true
	})
	took = time.Since(j.began)
	patience := time.After(2 * procgroup.OutputGrace)
	for _, s := range j.streams {
		s.stop()
	}
	for _, s := range j.streams {
		select {
		case <-s.done:
		case <-patience:
			return took
		}
	}
	return took
}

// kill kills the group of the command.
func (j *job) kill() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.ended {
		j.timedOut = true
		procgroup.Kill(j.cmd.Process.Pid)
	}
}

// forward passes signals to the command until over is closed. After the end of the command, the first signal
// calls stopRetrying, and further ones stopSending: the signal that has ended the command may arrive late.
func (j *job) forward(signals <-chan os.Signal, over <-chan struct{}, stopRetrying, stopSending func()) {
	stop := stopRetrying
	for {
		select {
		case s := <-signals:
			if s == syscall.SIGPIPE || j.signal(s) {
				continue
			}
			stop()
			stop = stopSending
		case <-over:
			return
		}
	}
}

// signal sends a signal to the command. It reports false if the command has ended.
func (j *job) signal(s os.Signal) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ended {
		return false
	}
	switch number, ok := s.(syscall.Signal); {
	case j.ownGroup && ok:
		procgroup.Signal(j.cmd.Process.Pid, number)
	case s == os.Interrupt && foreground(): // the terminal has sent it to the command too
	default:
		_ = j.cmd.Process.Signal(s)
	}
	return true
}
