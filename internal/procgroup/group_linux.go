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

// BoundAttr is [Attr] for a process that the kernel kills when the thread that started it ends. Start such a
// process with [Run].
func BoundAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// Run starts cmd, which has [Attr] or [BoundAttr], calls started unless it is nil, and waits
// until cmd has ended. It kills the group at the end of ctx, and the rest of the group when
// cmd has ended. It reports whether ctx ended first. cmd.Process is nil if cmd was not started.
func Run(ctx context.Context, cmd *exec.Cmd, started func()) (killed bool, err error) {
	// golang/go#27505: the kernel kills the process when the thread ends, and the runtime may end an unlocked
	// thread at any time.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return false, err
	}
	if started != nil {
		started()
	}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		Kill(cmd.Process.Pid)
	})
	// The process is reaped after the last kill. Until then its ID, which is also the group's, cannot be reused.
	awaitExit(cmd.Process.Pid)
	if !stop() {
		<-done
		killed = true
	}
	Kill(cmd.Process.Pid)
	return killed, cmd.Wait()
}

// Wait waits until cmd, which was started, has ended. It calls ended when cmd has ended, while the process ID
// and the number of its group cannot be reused.
func Wait(cmd *exec.Cmd, ended func()) error {
	awaitExit(cmd.Process.Pid)
	ended()
	return cmd.Wait()
}

// awaitExit waits until the child pid has ended, without reaping it.
func awaitExit(pid int) {
	const idTypePID = 1 // P_PID of waitid(2)
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, idTypePID, uintptr(pid), 0, syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if errno != syscall.EINTR {
			return
		}
	}
}

// Drain copies the bytes that the pipe already holds to w, at most most bytes, without waiting for more. A
// reader on a busy machine may reach its deadline before it has read them.
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

// CPUTime returns the CPU time of a process without its children; 0 if it is not known.
func CPUTime(pid int) time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name, in parentheses, may contain anything. The third field follows it. utime and
	// stime are the 14th and 15th field, in hundredths of a second.
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
