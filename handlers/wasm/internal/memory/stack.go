package memory

import (
	"reflect"
	"sync"
	"unsafe"

	"github.com/tetratelabs/wazero/api"
)

// The stack of a guest is Go memory that grows as the guest recurses. wazero does not report
// its size, and bounds it at stackCeiling only.
const (
	stackCeiling = 100 << 20

	// FreeStack is how many bytes of a stack are not counted. They suffice for most guests.
	FreeStack = 64 << 10
)

// StackOf returns the size in bytes of the stack of fn. It reads the private field of wazero
// that holds the stack, without synchronization. If there is no such field it returns the
// largest size that a stack may have.
//
//go:norace
func StackOf(fn api.Function) uint64 {
	engine := reflect.ValueOf(fn)
	if engine.Kind() != reflect.Pointer || engine.Elem().Kind() != reflect.Struct {
		return stackCeiling
	}
	engine = engine.Elem()
	i := stackField(engine.Type())
	if i < 0 {
		return stackCeiling
	}
	stack := engine.Field(i)
	header := (*[3]uintptr)(unsafe.Pointer(stack.UnsafeAddr())) // a pointer, the length and the capacity
	return uint64(header[1]) * uint64(stack.Type().Elem().Size())
}

var stackFields sync.Map // of reflect.Type to the index of its field "stack", or -1

// stackField returns the index of the field "stack" of an engine, or -1.
func stackField(engine reflect.Type) int {
	if i, ok := stackFields.Load(engine); ok {
		return i.(int)
	}
	i := -1
	if f, ok := engine.FieldByName("stack"); ok && len(f.Index) == 1 && f.Type.Kind() == reflect.Slice {
		i = f.Index[0]
	}
	stackFields.Store(engine, i)
	return i
}
