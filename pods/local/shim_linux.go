package local

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/daeace23/prober/internal/descriptors"
)

// ShimMain runs one container and returns the code for the program to exit with. The
// shim is told what to run, and when to end it, through a pipe from the agent; when
// that pipe closes, because the agent has died, it kills the container and everything
// that the container has started, and ends.
func ShimMain() int {
	control, report := os.NewFile(shimControl, "control"), os.NewFile(shimReport, "report")
	if control == nil || report == nil {
		return 64
	}
	// What a terminal or an init system sends to everyone is for the agent to act on.
	// The signals are caught, not ignored: a caught one is back to its default in the
	// container.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	s := &shim{commands: bufio.NewReader(control), report: json.NewEncoder(report)}
	if err := s.start(); err != nil {
		_ = s.tell(shimMessage{Error: err.Error()})
		return 1
	}
	_ = s.tell(shimMessage{PID: s.pid})
	if s.pid == os.Getpid() {
		s.guard()
		return 0
	}
	go s.obey()
	if err := s.tell(shimMessage{Exit: s.reap()}); err != nil { // the agent has died
		s.killMarked()
	}
	return 0
}

// shim is the parent of one container's processes.
type shim struct {
	commands *bufio.Reader
	report   *json.Encoder
	mark     string
	pid      int         // of the container's first process, which leads its group
	ended    atomic.Bool // that process is gone
	killing  atomic.Bool
}

// tell sends m to the agent. It fails when the agent has died.
func (s *shim) tell(m shimMessage) error { return s.report.Encode(m) }

func (s *shim) start() error {
	// The pipes to the agent, and what an agent that is part of another program has let through.
	descriptors.CloseOnExec()
	// Whatever the container leaves behind becomes a child of the shim. Pdeathsig
	// would miss grandchildren, and fires when a thread ends: golang/go#27505.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	line, err := s.commands.ReadBytes('\n')
	if err != nil {
		return err
	}
	var l launch
	if err := json.Unmarshal(line, &l); err != nil {
		return err
	}
	s.mark = l.Mark
	if l.Path == "" {
		s.pid = os.Getpid()
		return nil
	}
	s.pid, err = syscall.ForkExec(l.Path, l.Args, &syscall.ProcAttr{
		Dir: l.Dir, Env: l.Env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return &os.PathError{Op: "start", Path: l.Path, Err: err}
	}
	return nil
}

// guard waits until the agent says that it is not needed any more, or is gone.
func (s *shim) guard() {
	if _, err := s.commands.ReadByte(); err != nil {
		s.killMarked()
		return
	}
	_ = s.tell(shimMessage{Exit: &shimExit{}})
}

// obey does what the agent says until the agent is gone.
func (s *shim) obey() {
	for {
		command, err := s.commands.ReadByte()
		switch {
		case err != nil:
			go s.killMarked()
			s.kill()
		case command == shimKill:
			go s.kill()
		case command == shimTerminate && !s.ended.Load():
			_ = syscall.Kill(-s.pid, syscall.SIGTERM)
		}
		if err != nil {
			return
		}
	}
}

// reap waits until no process of the container is left and returns how the first one
// ended. When it ends, the others are killed, as they are in a container.
func (s *shim) reap() *shimExit {
	exit := &shimExit{}
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

// kill kills all descendants, and those that they start meanwhile, until none is
// left; [shim.reap] then returns.
func (s *shim) kill() {
	if !s.killing.CompareAndSwap(false, true) {
		return
	}
	for {
		for _, pid := range descendants(os.Getpid()) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(time.Millisecond)
	}
}

// killMarked kills the commands that an agent which has died was running in containers,
// and those that it was about to start.
func (s *shim) killMarked() {
	if s.mark == "" {
		return
	}
	for quiet := 0; quiet < 10; quiet++ {
		for _, pid := range marked(s.mark) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			quiet = 0
		}
		time.Sleep(10 * time.Millisecond)
	}
}
