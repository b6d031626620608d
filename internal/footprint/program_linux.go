package footprint

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// releaseProgram releases the resident pages of read-only mappings of the program file. Package
// initialization and configuration touch most of these pages, but a running agent needs only a third.
func releaseProgram() {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer maps.Close()
	var start, end uintptr // the present mapping; 0 if it must stay
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) < 3:
		case fields[0] == "Anonymous:" && fields[1] == "0" && start != 0:
			// Only mappings without anonymous pages: pages with relocations are anonymous, and would be lost.
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, start, end-start, syscall.MADV_DONTNEED)
		case !strings.HasSuffix(fields[0], ":"):
			start, end = 0, 0
			if len(fields) >= 6 && strings.HasPrefix(fields[1], "r-") && strings.HasSuffix(lines.Text(), " "+program) {
				start, end = addresses(fields[0])
			}
		}
	}
}

// addresses parses START-END. It returns 0, 0 for an invalid text.
func addresses(text string) (start, end uintptr) {
	first, last, _ := strings.Cut(text, "-")
	a, err := strconv.ParseUint(first, 16, strconv.IntSize)
	b, err2 := strconv.ParseUint(last, 16, strconv.IntSize)
	if err != nil || err2 != nil {
		return 0, 0
	}
	return uintptr(a), uintptr(b)
}
