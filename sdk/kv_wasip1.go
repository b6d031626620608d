package sdk

import (
	"unsafe"

	"github.com/daeace23/prober/internal/abi"
)

//go:wasmimport prober_v1_kv get
func hostKVGet(key unsafe.Pointer, n uint32, buf unsafe.Pointer, size uint32) int32

//go:wasmimport prober_v1_kv set
func hostKVSet(key unsafe.Pointer, n uint32, value unsafe.Pointer, valueLen uint32) int32

//go:wasmimport prober_v1_kv delete
func hostKVDelete(key unsafe.Pointer, n uint32) int32

// draft is empty, because the host has the values.
type draft struct{}

// Get returns the value of key, nil if there is none.
func (*KV) Get(key string) ([]byte, error) {
	ptr, n := pointer(key)
	value, err := pull(256, func(buf unsafe.Pointer, size uint32) int32 { return hostKVGet(ptr, n, buf, size) })
	switch e, _ := err.(abi.Errno); {
	case err == nil:
		return value, nil
	case e == abi.ENOENT:
		return nil, nil
	default:
		return nil, hostError(e.Code())
	}
}

// Set stores value under key, which must have 1 to 256 bytes. It returns an error, and changes nothing, if
// a limit would be exceeded.
func (*KV) Set(key string, value []byte) error {
	ptr, n := pointer(key)
	data, size := pointer(value)
	if code := hostKVSet(ptr, n, data, size); code < 0 {
		return hostError(code)
	}
	return nil
}

// Delete removes key, if it exists.
func (*KV) Delete(key string) error {
	if code := hostKVDelete(pointer(key)); code < 0 {
		return hostError(code)
	}
	return nil
}
