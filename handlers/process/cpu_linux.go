package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// cpuTime is the processor time of a process, without its children; 0 where it cannot be
// had.
func cpuTime(pid int) time.Duration {
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
