package measure

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// CPU returns the user and system time of this process.
func CPU() (time.Duration, error) { return usage(syscall.RUSAGE_SELF) }

// ChildrenCPU returns the user and system time of all children that have ended and were waited for.
func ChildrenCPU() (time.Duration, error) { return usage(syscall.RUSAGE_CHILDREN) }

func usage(who int) (time.Duration, error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(who, &r); err != nil {
		return 0, os.NewSyscallError("getrusage", err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()), nil
}

// hertz is USER_HZ, which is 100 on every Linux system.
const hertz = 100

// ProcessCPU returns the user and system time of another process, in steps of 10 ms.
func ProcessCPU(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStat(string(text))
}

// parseStat parses /proc/PID/stat. The name of the process, in parentheses, may contain any bytes.
func parseStat(text string) (time.Duration, error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0, errors.New("stat: too few fields")
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("stat: %w", err)
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("stat: %w", err)
	}
	return time.Duration(user+system) * time.Second / hertz, nil
}

// BusyCPU returns the processor time of the whole machine that was not idle.
func BusyCPU() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, errors.New("/proc/stat: no line of all processors")
	}
	var busy int64
	for i, f := range fields[1:9] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		if i != 3 && i != 4 { // idle, iowait
			busy += n
		}
	}
	return time.Duration(busy) * time.Second / hertz, nil
}

// Resident returns the memory of a process in bytes, Rss in smaps_rollup; pid 0 is this process.
func Resident(pid int) (int64, error) { return kilobytes(procFile(pid, "smaps_rollup"), "Rss:") }

// Anonymous returns the memory of a process that is not backed by a file, in bytes.
func Anonymous(pid int) (int64, error) { return kilobytes(procFile(pid, "status"), "RssAnon:") }

// Peak returns the highest resident memory of a process since its program was started, in bytes.
func Peak(pid int) (int64, error) { return kilobytes(procFile(pid, "status"), "VmHWM:") }

// PeakResident returns the highest resident memory of this process since [ResetPeak], in bytes.
func PeakResident() (int64, error) { return kilobytes(procFile(0, "status"), "VmHWM:") }

// ResetPeak resets the peak of this process to its current resident memory.
func ResetPeak() error { return os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

func procFile(pid int, name string) string {
	if pid == 0 {
		return "/proc/self/" + name
	}
	return fmt.Sprintf("/proc/%d/%s", pid, name)
}

// kilobytes returns the value of a key in a file of /proc, converted from kB to bytes.
func kilobytes(file, key string) (int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 2 && fields[0] == key {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("%s has no %s", file, key)
}
