package process

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strconv"
)

// descendants returns the live processes below pid: its children, theirs, and so on.
func descendants(pid int) []int {
	children := make(map[int][]int)
	for _, name := range processes() {
		child, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if parent, ok := parentOf(name); ok {
			children[parent] = append(children[parent], child)
		}
	}
	found := children[pid]
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}
	return found
}

// marked returns the processes that have the variable mark in their environment.
func marked(mark string) (pids []int) {
	for _, pid := range processes() {
		if n, err := strconv.Atoi(pid); err == nil && isMarked(pid, mark) {
			pids = append(pids, n)
		}
	}
	return pids
}

// maxEnviron is the most bytes that are read of an environment. The kernel accepts no larger
// one, but a process may declare all of its memory to be its environment later.
const maxEnviron = 8 << 20

func isMarked(pid, mark string) bool {
	f, err := os.Open("/proc/" + pid + "/environ")
	if err != nil {
		return false
	}
	defer f.Close()
	env, err := io.ReadAll(io.LimitReader(f, maxEnviron))
	if err != nil {
		return false
	}
	for variable := range bytes.SplitSeq(env, []byte{0}) {
		if string(variable) == mark {
			return true
		}
	}
	return false
}

// processes returns the IDs of all processes.
func processes() (pids []string) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	return slices.DeleteFunc(names, func(name string) bool { return name[0] < '0' || name[0] > '9' })
}

// parentOf returns the parent of a process; ok is false for a zombie.
func parentOf(pid string) (parent int, ok bool) {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, false
	}
	// "PID (NAME) STATE PPID …", and NAME may contain any character.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 || fields[0][0] == 'Z' {
		return 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return parent, err == nil
}
