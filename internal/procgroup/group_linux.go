package procgroup

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// Attr makes a process the leader of a new group.
func Attr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// BoundAttr is [Attr] for a process that the kernel kills when the thread ends that started
// it. Such a process is started by [Start] or [Run].
func BoundAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// Start starts cmd, which has [BoundAttr], and calls started. When the process has ended, what
// is left of its group is killed, and ended is called with a function that reaps it.
//
// The thread that starts the process stays until it has ended (golang/go#27505: the process
// would be killed with the thread, which the runtime may end at any time).
func Start(cmd *exec.Cmd, started func(), ended func(wait func() error)) error {
	begun := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			started()
		}
		begun <- err
		if err != nil {
			return
		}
		awaitExit(cmd.Process.Pid)
		Kill(cmd.Process.Pid)
		ended(cmd.Wait)
	}()
	return <-begun
}

// Run starts cmd, which may have [BoundAttr], calls started and then [Wait].
func Run(ctx context.Context, cmd *exec.Cmd, started func()) (killed bool, err error) {
	runtime.LockOSThread() // see Start
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return false, err
	}
	started()
	return Wait(ctx, cmd)
}

// Wait waits until cmd has ended, kills its group at the end of ctx, and in any case what is
// left of it then. It reports whether ctx ended first.
func Wait(ctx context.Context, cmd *exec.Cmd) (killed bool, err error) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		Kill(cmd.Process.Pid)
	})
	// The process is reaped after the last kill: until then its number, which is the group's,
	// cannot be given to another.
	awaitExit(cmd.Process.Pid)
	if !stop() {
		<-done
		killed = true
	}
	Kill(cmd.Process.Pid)
	return killed, cmd.Wait()
}

// awaitExit waits until the child pid has ended, and leaves it to be reaped.
func awaitExit(pid int) {
	const idTypePID = 1 // P_PID of waitid(2)
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, idTypePID, uintptr(pid), 0, syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if errno != syscall.EINTR {
			return
		}
	}
}

// ExitStatus returns the code of a process as a shell does: 128 + signal for one that a signal
// has ended.
func ExitStatus(s *os.ProcessState) int {
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return s.ExitCode()
}

// Drain moves what is in a pipe already to w, at most so many bytes, and waits for nothing
// more: a reader on a busy machine may have come to it too late.
func Drain(pipe *os.File, w io.Writer, most int) {
	_ = pipe.SetReadDeadline(time.Time{})
	raw, err := pipe.SyscallConn()
	if err != nil {
		return
	}
	part := make([]byte, 4<<10)
	for most > 0 {
		n := 0
		err := raw.Read(func(fd uintptr) bool {
			n, _ = syscall.Read(int(fd), part[:min(len(part), most)]) // the pipe does not block
			return true
		})
		if err != nil || n <= 0 {
			return
		}
		_, _ = w.Write(part[:n])
		most -= n
	}
}

// CPUTime returns the processor time of a process, without its children; 0 if it cannot be
// read.
func CPUTime(pid int) time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name, in parentheses, may have anything in it. utime and stime are the 14th and
	// 15th field, in hundredths of a second; the third follows the name.
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	var ticks int64
	for i := 11; i <= 12 && i < len(fields); i++ {
		n, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil {
			return 0
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
