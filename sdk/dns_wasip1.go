package sdk

import (
	"context"
	"net"
	"runtime"
	"unsafe"

	"github.com/daeace23/prober/internal/abi"
)

//go:wasmimport prober_v1_dns lookup
func hostDNSLookup(req unsafe.Pointer, n uint32, timeoutMs int32) int32

//go:wasmimport prober_v1_dns read
func hostDNSRead(handle int32, buf unsafe.Pointer, size uint32, timeoutMs int32) int32

// LookupDNS queries a DNS server. It returns an error if no server answers. It needs the capability "dns".
func LookupDNS(ctx context.Context, q DNSQuery) (DNSAnswer, error) {
	if err := ctx.Err(); err != nil {
		return DNSAnswer{}, opError("lookup", "udp", q.Name, err)
	}
	doc, n := pointer(abi.Append(nil, &abi.DNSRequest{Name: q.Name, Type: q.Type, Server: q.Server}))
	handle := hostDNSLookup(doc, n, timeoutOf(ctx))
	if handle < 0 {
		return DNSAnswer{}, hostError(handle)
	}
	activity++
	attempt, buf := attempts, make([]byte, 1024)
	for park := int32(1); ; park = min(park*2, maxPark) {
		n := hostDNSRead(handle, unsafe.Pointer(&buf[0]), uint32(len(buf)), park)
		switch {
		case n >= 0 && int(n) <= len(buf):
			return abi.Decode[abi.DNSAnswer](buf[:n])
		case n >= 0:
			buf = make([]byte, n)
			continue
		case n != abi.EAGAIN.Code():
			return DNSAnswer{}, hostError(n)
		}
		if err := ctx.Err(); err != nil {
			return DNSAnswer{}, opError("lookup", "udp", q.Name, err)
		}
		if runtime.Gosched(); attempt != attempts { // the handle belongs to another look-up
			return DNSAnswer{}, opError("lookup", "udp", q.Name, net.ErrClosed)
		}
	}
}
