//go:build unix

package process

import (
	"cmp"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// SignalName returns "SIGKILL" for 9, and "" for 0.
func SignalName(number int32) string {
	if number == 0 {
		return ""
	}
	return cmp.Or(unix.SignalName(syscall.Signal(number)), fmt.Sprintf("signal %d", number))
}
