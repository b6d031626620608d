//go:build unix

package local

import (
	"cmp"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// signalName returns "SIGKILL" for 9, and "" for 0.
func signalName(number int32) string {
	if number == 0 {
		return ""
	}
	return cmp.Or(unix.SignalName(syscall.Signal(number)), fmt.Sprintf("signal %d", number))
}
