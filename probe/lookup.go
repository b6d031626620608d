//go:build !wasm

package probe

import (
	"errors"
	"net"
)

// lookupText returns the text of the look-up that failed with err, "" if err is not of
// one. Package net keeps no more than the text of the cause.
func lookupText(err error) string {
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return e.Err
	}
	return ""
}
