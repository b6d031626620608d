//go:build !unix

package local

import "fmt"

// signalName returns "signal 9" for 9, and "" for 0.
func signalName(number int32) string {
	if number == 0 {
		return ""
	}
	return fmt.Sprintf("signal %d", number)
}
