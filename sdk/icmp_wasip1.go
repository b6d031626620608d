package sdk

import (
	"context"
	"unsafe"

	"github.com/daeace23/prober/internal/abi"
)

//go:wasmimport prober_v1_icmp echo
func hostEcho(req unsafe.Pointer, n uint32, timeoutMs int32) int32

//go:wasmimport prober_v1_icmp read
func hostEchoRead(handle int32, buf unsafe.Pointer, size uint32) int32

// Echo sends an ICMP echo request and waits for its reply. It returns an error if there is none. It needs
// the capability "icmp". It blocks all goroutines of the guest.
func Echo(ctx context.Context, q EchoRequest) (EchoReply, error) {
	if err := ctx.Err(); err != nil {
		return EchoReply{}, opError("echo", "icmp", q.Host, err)
	}
	doc, n := pointer(abi.Append(nil, &abi.EchoRequest{
		Host: q.Host, Route: abi.Route{IPFamily: q.IPFamily, SourceAddress: q.SourceAddress},
		Payload: q.Payload, HopLimit: q.HopLimit, DontFragment: q.DontFragment,
	}))
	handle := hostEcho(doc, n, timeoutOf(ctx))
	if handle < 0 {
		return EchoReply{}, hostError(handle)
	}
	activity++
	for buf := make([]byte, 512); ; {
		switch n := hostEchoRead(handle, unsafe.Pointer(&buf[0]), uint32(len(buf))); {
		case n < 0:
			return EchoReply{}, hostError(n)
		case int(n) <= len(buf):
			return abi.Decode[abi.EchoReply](buf[:n])
		default:
			buf = make([]byte, n)
		}
	}
}
