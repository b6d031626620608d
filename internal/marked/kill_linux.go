package marked

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strconv"
	"syscall"
)

// kill kills the processes whose environment has a variable that begins with one of
// marks. It returns how many it found, and how many of them it was not permitted to kill.
func kill(marks []string) (found, refused int) {
	for _, pid := range processes() {
		if !isMarked(pid, marks) {
			continue
		}
		found++
		if end(pid, func() bool { return isMarked(pid, marks) }) == syscall.EPERM {
			refused++
		}
	}
	return found, refused
}

// Numbers of system calls that are not in package syscall. They are the same on
// every processor except MIPS, where they are unused; see end.
const (
	sysPidfdSendSignal = 424
	sysPidfdOpen       = 434
)

// end kills pid if still returns true. The check is needed because the process ID may have been reused.
func end(pid int, still func() bool) error {
	fd, _, errno := syscall.Syscall(sysPidfdOpen, uintptr(pid), 0, 0)
	switch {
	case errno == syscall.ENOSYS: // before Linux 5.3
		if !still() {
			return nil
		}
		return syscall.Kill(pid, syscall.SIGKILL)
	case errno != 0:
		return errno
	}
	defer syscall.Close(int(fd))
	if !still() {
		return nil
	}
	if _, _, errno := syscall.Syscall6(sysPidfdSendSignal, fd, uintptr(syscall.SIGKILL), 0, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// processes returns the process IDs of all processes.
func processes() (pids []int) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// isMarked reports whether the environment of pid has a variable that begins with one of marks.
// The environment of another user's process, or of one that has ended, cannot be read.
func isMarked(pid int, marks []string) bool {
	env, err := environ(pid)
	return err == nil && slices.ContainsFunc(marks, func(mark string) bool {
		return bytes.HasPrefix(env, []byte(mark)) || bytes.Contains(env, []byte("\x00"+mark))
	})
}

// maxEnviron is the maximum number of bytes that are read of an environment. exec accepts no larger environment, but
// a process can later declare all of its memory as its environment.
const maxEnviron = 8 << 20

func environ(pid int) ([]byte, error) {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxEnviron))
}
