//go:build !linux

package guest

import "net"

// strays is the type of Linux. Elsewhere there are none.
type strays struct{}

func listenStrays(net.Conn) *strays { return nil }
func (*strays) sender() string      { return "" }
func (*strays) close()              {}
