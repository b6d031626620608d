package main

import (
	"strconv"
	"unsafe"
)

//go:wasmimport prober_v1_kv get
func kvGet(key unsafe.Pointer, n uint32, buf unsafe.Pointer, size uint32) int32

//go:wasmimport prober_v1_kv set
func kvSet(key unsafe.Pointer, n uint32, value unsafe.Pointer, size uint32) int32

// count increments a number in the key-value store, and returns it.
func count() (int, int32) {
	key, buf := []byte("count"), make([]byte, 20)
	n := kvGet(unsafe.Pointer(&key[0]), uint32(len(key)), unsafe.Pointer(&buf[0]), uint32(len(buf)))
	before, _ := strconv.Atoi(string(buf[:max(n, 0)]))
	value := []byte(strconv.Itoa(before + 1))
	code := kvSet(unsafe.Pointer(&key[0]), uint32(len(key)), unsafe.Pointer(&value[0]), uint32(len(value)))
	return before + 1, code
}
