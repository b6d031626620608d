//go:build !wasm

package probe

import (
	"errors"
	"net"
)

// lookupText returns the text of the failed look-up that caused err, "" if there is none. A [net.DNSError]
// keeps only the text of its cause.
func lookupText(err error) string {
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return e.Err
	}
	return ""
}
