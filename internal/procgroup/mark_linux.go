package procgroup

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// killMarked kills the processes whose environment has a variable that begins with one of
// marks. It returns how many it found, and how many of them it is not permitted to kill.
func killMarked(marks []string) (found, refused int) {
	for _, pid := range processes() {
		if !isMarked(pid, marks) {
			continue
		}
		found++
		if kill(pid, func() bool { return isMarked(pid, marks) }) == unix.EPERM {
			refused++
		}
	}
	return found, refused
}

// kill kills pid if still returns true: the number may have been reused.
func kill(pid int, still func() bool) error {
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case err == unix.ENOSYS: // before Linux 5.3
		if !still() {
			return nil
		}
		return unix.Kill(pid, unix.SIGKILL)
	case err != nil:
		return err
	}
	defer unix.Close(fd)
	if !still() {
		return nil
	}
	return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
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

// maxEnviron is the most bytes that are read of an environment. exec takes no larger one, but a
// process can declare all of its memory to be its environment later.
const maxEnviron = 8 << 20

func environ(pid int) ([]byte, error) {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxEnviron))
}
