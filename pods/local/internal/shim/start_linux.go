package shim

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/daeace23/prober/internal/descriptors"
	"github.com/daeace23/prober/internal/marked"
)

// init runs the shim and exits, if this program was started as one. At this time, most other packages are not
// initialized: a shim needs a sixth of the memory and a quarter of the processor time that it would need if it
// ran in main. So this package and its imports must have few imports, and none from other modules.
func init() {
	if len(os.Args) == 2 && os.Args[1] == Argument {
		os.Exit(run())
	}
}

// run runs one container and returns the exit code of the program. The agent sends the [Launch] and
// commands through a pipe. When the pipe is closed, because the agent has died, run kills the container and
// everything that it has started, and returns.
func run() int {
	control, report := os.NewFile(controlFile, "control"), os.NewFile(reportFile, "report")
	if control == nil || report == nil {
		return 64
	}
	// An init system may send these signals to all processes. The shim must survive them, since the agent
	// handles them. It catches them, because the container would inherit ignored signals.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	s := &shim{commands: bufio.NewReader(control), reports: json.NewEncoder(report)}
	if err := s.start(); err != nil {
		_ = s.report(Message{Error: err.Error()})
		return 1
	}
	_ = s.report(Message{PID: s.pid})
	if s.pid == os.Getpid() {
		s.guard()
		return 0
	}
	go s.handleCommands()
	_ = s.report(Message{Exit: s.reap()}) // an error means that the agent has died
	return 0
}

// shim is the parent of one container's processes.
type shim struct {
	commands *bufio.Reader
	reports  *json.Encoder
	mark     string
	pid      int         // first process of the container and leader of its group; for a guard, the shim itself
	ended    atomic.Bool // the first process has ended
	killing  atomic.Bool
}

// report sends m to the agent. It returns an error if the agent has died.
func (s *shim) report(m Message) error { return s.reports.Encode(m) }

// prSetChildSubreaper is PR_SET_CHILD_SUBREAPER of prctl(2).
const prSetChildSubreaper = 36

// start reads the [Launch] and starts its program.
func (s *shim) start() error {
	// The pipes to the agent, and descriptors that an embedding program has leaked.
	descriptors.CloseOnExec()
	// Orphans of the container become children of the shim. Pdeathsig misses grandchildren,
	// and fires when a thread ends: golang/go#27505.
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0); errno != 0 {
		return os.NewSyscallError("prctl", errno)
	}
	line, err := s.commands.ReadBytes('\n')
	if err != nil {
		return err
	}
	var l Launch
	if err := json.Unmarshal(line, &l); err != nil {
		return err
	}
	s.mark = l.Mark
	if l.Path == "" {
		s.pid = os.Getpid()
		return nil
	}
	if l.Umask != nil {
		syscall.Umask(int(*l.Umask))
	}
	if l.User != nil { // so that the user can open /dev/stdout
		_ = syscall.Fchown(1, int(l.User.ID), int(l.User.Group))
	}
	var credential *syscall.Credential
	if l.User != nil {
		credential = &syscall.Credential{Uid: l.User.ID, Gid: l.User.Group, Groups: l.User.Groups}
	}
	s.pid, err = syscall.ForkExec(l.Path, l.Args, &syscall.ProcAttr{
		Dir: l.Dir, Env: l.Env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true, Credential: credential},
	})
	if err != nil {
		return &os.PathError{Op: "start", Path: l.Path, Err: err}
	}
	return nil
}

// guard waits for a command of the agent. If the agent dies instead, guard kills the processes that it has left.
func (s *shim) guard() {
	if _, err := s.commands.ReadByte(); err != nil {
		s.killMarked()
		return
	}
	_ = s.report(Message{Exit: &Status{}})
}

// handleCommands carries out the commands of the agent. It returns when the agent has died.
func (s *shim) handleCommands() {
	for {
		command, err := s.commands.ReadByte()
		switch {
		case err != nil:
			s.kill()
		case command == Kill:
			go s.kill()
		case command == Terminate && !s.ended.Load():
			_ = syscall.Kill(-s.pid, syscall.SIGTERM)
		}
		if err != nil {
			return
		}
	}
}

// reap waits until no process of the container is left, and returns the exit status of the first
// process. When the first process ends, reap kills the others, as a container engine does.
func (s *shim) reap() *Status {
	exit := &Status{}
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // no child is left
			return exit
		case pid == s.pid:
			s.ended.Store(true)
			exit.Code = status.ExitStatus()
			if status.Signaled() {
				exit.Code, exit.Signal = 128+int(status.Signal()), int(status.Signal())
			}
			go s.kill()
		}
	}
}

// killPause is the minimum time between two searches for descendants.
const killPause = 10 * time.Millisecond

// kill kills the group of the container, and then all descendants repeatedly, because they
// may start others meanwhile. The program ends when [shim.reap] finds no child, usually before
// the first search. A search scans every process of the host, and many shims may search at the
// same time, so kill sleeps at least four times as long as a search takes.
func (s *shim) kill() {
	if !s.killing.CompareAndSwap(false, true) {
		return
	}
	if !s.ended.Load() {
		_ = syscall.Kill(-s.pid, syscall.SIGKILL)
	}
	for pause := killPause; ; {
		time.Sleep(pause)
		began := time.Now()
		for _, pid := range descendants(os.Getpid()) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		pause = max(killPause, 4*time.Since(began))
	}
}

// killMarked kills the exec probes, hooks and plugin programs of an agent that has died. It
// scans several times: during exec, a process has no environment for a moment.
func (s *shim) killMarked() {
	if s.mark == "" { // would match every process
		return
	}
	for range 5 {
		marked.End(s.mark)
		time.Sleep(10 * time.Millisecond)
	}
}
