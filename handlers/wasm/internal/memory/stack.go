package memory

import (
	"reflect"
	"sync"
	"unsafe"

	"github.com/tetratelabs/wazero/api"
)

// The stack of a guest is memory of this process, which grows as the guest recurses. wazero
// neither reports it nor bounds it below stackCeiling.
const (
	stackCeiling = 100 << 20 // twice that from which on wazero grows it no more

	// FreeStack is how many bytes are not counted: a guest that recurses little needs no more.
	FreeStack = 64 << 10
)

// StackOf returns how large the stack of the call of fn is. wazero keeps the stack in a field of
// its own; where there is none by this name, the stack may be as large as it gets. While the
// guest computes, the length that is read may be that of a moment ago.
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

var stackFields sync.Map // of reflect.Type to the index of its field; -1 where it has none

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
