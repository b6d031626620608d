package footprint

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// releaseProgram unmaps the pages of the program file that nobody can change and nobody has changed. The
// initialization of packages and the reading of configs have touched most of them, and an agent that
// runs uses a third.
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
	var start, end uintptr // of the mapping that the lines are about; 0 for one that stays
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) < 3:
		case fields[0] == "Anonymous:" && fields[1] == "0" && start != 0:
			// A page with relocations, as position-independent programs have, is anonymous, and would be lost.
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, start, end-start, syscall.MADV_DONTNEED)
		case !strings.HasSuffix(fields[0], ":"):
			start, end = 0, 0
			if len(fields) >= 6 && strings.HasPrefix(fields[1], "r-") && strings.HasSuffix(lines.Text(), " "+program) {
				start, end = addresses(fields[0])
			}
		}
	}
}

// addresses reads START-END; both are 0 if they cannot be read.
func addresses(text string) (start, end uintptr) {
	first, last, _ := strings.Cut(text, "-")
	a, err := strconv.ParseUint(first, 16, strconv.IntSize)
	b, err2 := strconv.ParseUint(last, 16, strconv.IntSize)
	if err != nil || err2 != nil {
		return 0, 0
	}
	return uintptr(a), uintptr(b)
}
