package sdk

import (
	"context"
	"io"
	"net"
	"runtime"
	"unsafe"

	"github.com/daeace23/prober/internal/abi"
)

//go:wasmimport prober_v1_http do
func hostHTTPDo(req unsafe.Pointer, n uint32, body unsafe.Pointer, bodyLen uint32) int32

//go:wasmimport prober_v1_http head
func hostHTTPHead(handle int32, buf unsafe.Pointer, size uint32) int32

//go:wasmimport prober_v1_http read
func hostHTTPRead(handle int32, buf unsafe.Pointer, size uint32, timeoutMs int32) int32

//go:wasmimport prober_v1_http close
func hostHTTPClose(handle int32) int32

// HTTP makes a request with the HTTP client of the host, and returns after the response header was
// received. A status such as 500 is not an error. URLs of hosts other than the target need a grant. HTTP
// takes a fraction of the size of net/http, for which there is sdk/sdkhttp.
func HTTP(ctx context.Context, r HTTPRequest) (*HTTPResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, opError("http", "tcp", r.URL, err)
	}
	doc, n := pointer(abi.Append(nil, r.abi(ctx)))
	body, bodyLen := pointer(r.Body)
	handle := hostHTTPDo(doc, n, body, bodyLen)
	if handle < 0 {
		return nil, hostError(handle)
	}
	activity++
	text, err := pull(1024, func(buf unsafe.Pointer, size uint32) int32 { return hostHTTPHead(handle, buf, size) })
	var head abi.HTTPHead
	if err == nil {
		head, err = abi.Decode[abi.HTTPHead](text)
	}
	if err != nil {
		hostHTTPClose(handle)
		return nil, err
	}
	return newHTTPResponse(head, &httpBody{handle, attempts}), nil
}

// abi returns r as a document for the host.
func (r *HTTPRequest) abi(ctx context.Context) *abi.HTTPRequest {
	q := &abi.HTTPRequest{
		Method: r.Method, URL: r.URL, Headers: r.Header, Redirects: r.Redirects, TLS: *r.TLS.abi(),
		HTTP2: r.HTTP2, Decompress: r.Decompress, Route: abi.Route{IPFamily: r.IPFamily, SourceAddress: r.SourceAddress},
		Proxy: r.Proxy, ProxyHeaders: r.ProxyHeader,
	}
	if r.Timeout > 0 {
		q.TimeoutMs = max(1, r.Timeout.Milliseconds())
	}
	if timeout := int64(timeoutOf(ctx)); timeout > 0 && (q.TimeoutMs == 0 || timeout < q.TimeoutMs) {
		q.TimeoutMs = timeout
	}
	return q
}

// httpBody is a response body of the host. After Close its handle is 0.
type httpBody struct {
	handle  int32
	attempt uint64 // the attempt that the handle belongs to
}

var _ io.ReadCloser = (*httpBody)(nil)

// Read implements [io.Reader].
func (b *httpBody) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for park := abi.NonBlocking; ; park = min(max(1, park*2), maxPark) {
		if b.handle == 0 || b.attempt != attempts {
			return 0, net.ErrClosed
		}
		n := hostHTTPRead(b.handle, unsafe.Pointer(&p[0]), uint32(len(p)), park)
		switch {
		case n > 0:
			activity++
			return int(n), nil
		case n == 0:
			return 0, io.EOF
		case n != abi.EAGAIN.Code():
			return 0, hostError(n)
		}
		runtime.Gosched()
	}
}

// Close implements [io.Closer].
func (b *httpBody) Close() error {
	if b.handle != 0 && b.attempt == attempts {
		hostHTTPClose(b.handle)
	}
	b.handle = 0
	return nil
}
