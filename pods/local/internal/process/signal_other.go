//go:build !unix

package process

import "fmt"

// SignalName returns "signal 9" for 9, and "" for 0.
func SignalName(number int32) string {
	if number == 0 {
		return ""
	}
	return fmt.Sprintf("signal %d", number)
}
