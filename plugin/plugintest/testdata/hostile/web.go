package main

import (
	"strings"
	"unsafe"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
)

//go:wasmimport prober_v1_http do
func httpDo(req unsafe.Pointer, n uint32, body unsafe.Pointer, size uint32) int32

//go:wasmimport prober_v1_http head
func httpHead(h int32, buf unsafe.Pointer, size uint32) int32

//go:wasmimport prober_v1_http read
func httpRead(h int32, buf unsafe.Pointer, size uint32, timeout int32) int32

func pointer(data []byte) (unsafe.Pointer, uint32) {
	return unsafe.Pointer(unsafe.SliceData(data)), uint32(len(data))
}

// web reads a state over HTTP. It compares the status only if it is good.
func web(good bool) (probe.Outcome, error) {
	request, n := pointer([]byte(`{"url":"http:///health"}`))
	h := httpDo(request, n, nil, 0)
	if h < 0 {
		return sdk.Failuref("no answer"), nil
	}
	buf := make([]byte, 10_000)
	at, size := pointer(buf)
	head := httpHead(h, at, size)
	if head < 0 || head > int32(size) || good && !strings.Contains(string(buf[:head]), `"status":200`) {
		return sdk.Failuref("unexpected status"), nil
	}
	var text string
	for {
		n := httpRead(h, at, size, -1)
		if n < 0 {
			return sdk.Failuref("no answer"), nil
		}
		if n == 0 {
			break
		}
		text += string(buf[:n])
	}
	if state, ok := sdk.Lookup([]byte(text), "state"); !ok || state != "ok" {
		return sdk.Failuref("state %q", state), nil
	}
	return sdk.Successf("ok"), nil
}
