package main

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
)

//go:wasmimport prober_v1 last_error
func lastError(buf unsafe.Pointer, size uint32) int32

//go:wasmimport prober_v1_http do
func httpDo(req unsafe.Pointer, n uint32, body unsafe.Pointer, size uint32) int32

//go:wasmimport prober_v1_http head
func httpHead(h int32, buf unsafe.Pointer, size uint32) int32

//go:wasmimport prober_v1_http read
func httpRead(h int32, buf unsafe.Pointer, size uint32, timeout int32) int32

//go:wasmimport prober_v1_dns lookup
func dnsLookup(req unsafe.Pointer, n uint32, timeout int32) int32

//go:wasmimport prober_v1_dns read
func dnsRead(h int32, buf unsafe.Pointer, size uint32, timeout int32) int32

func pointer(data []byte) (unsafe.Pointer, uint32) {
	return unsafe.Pointer(unsafe.SliceData(data)), uint32(len(data))
}

// failed is a failure with the text of the last host call.
func failed() probe.Outcome {
	buf := make([]byte, 1000)
	at, size := pointer(buf)
	return sdk.Failuref("%s", buf[:lastError(at, size)])
}

// ask sends the request of the config, and repeats the head or the body of the answer.
func ask(c *sdk.Config) probe.Outcome {
	doc, n := pointer([]byte(c.String("request", "")))
	body, size := pointer([]byte(c.String("body", "")))
	h := httpDo(doc, n, body, size)
	if h < 0 {
		return failed()
	}
	buf := make([]byte, 10_000)
	at, room := pointer(buf)
	if c.Bool("head", false) {
		return sdk.Successf("%s", buf[:httpHead(h, at, room)])
	}
	var text []byte
	for {
		switch n := httpRead(h, at, room, -1); {
		case n < 0:
			return failed()
		case n == 0:
			return sdk.Successf("%s", text)
		default:
			text = append(text, buf[:n]...)
		}
	}
}

// lookUp repeats the answer to the question of the config, once for each time.
func lookUp(c *sdk.Config) probe.Outcome {
	text := ""
	for range c.Int("times", 1) {
		doc, n := pointer([]byte(c.String("request", "")))
		h := dnsLookup(doc, n, 0)
		if h < 0 {
			return failed()
		}
		buf := make([]byte, 10_000)
		at, room := pointer(buf)
		size := dnsRead(h, at, room, -1)
		if size < 0 {
			return failed()
		}
		text += fmt.Sprintf("%s\n", buf[:size])
	}
	return sdk.Successf("%s", text)
}

// ping sends as many echo requests as the config says, and returns their replies.
func ping(ctx context.Context, c *sdk.Config) probe.Outcome {
	text := ""
	for range c.Int("times", 1) {
		reply, err := sdk.Echo(ctx, sdk.EchoRequest{Host: c.String("addr", ""), HopLimit: 9})
		if err != nil {
			return sdk.Failuref("%s%v", text, err)
		}
		text += fmt.Sprintf("%s to %s, hop limit %d, %v; ", reply.Remote, reply.Local, reply.HopLimit, reply.RTT)
	}
	return sdk.Successf("%s", text)
}
