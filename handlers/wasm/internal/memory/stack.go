package memory

import (
	"reflect"
	"sync"
	"unsafe"

	"github.com/tetratelabs/wazero/api"
)

// The stack of a guest is Go memory that grows as the guest recurses. wazero does not report its
// size, and limits it to stackCeiling only.
const (
	stackCeiling = 100 << 20

	// FreeStack is how many bytes of a stack are not counted. Most guests need no more.
	FreeStack = 64 << 10
)

// Stack is the stack of a function of a guest.
type Stack struct {
	header  *[3]uintptr // slice header: pointer, length and capacity; nil if the stack was not found
	element uint64      // size of an element in bytes
}

// StackOf returns the stack of fn. It finds the stack in an unexported field of wazero by reflection.
func StackOf(fn api.Function) Stack {
	engine := reflect.ValueOf(fn)
	if engine.Kind() != reflect.Pointer || engine.Elem().Kind() != reflect.Struct {
		return Stack{}
	}
	engine = engine.Elem()
	i := stackField(engine.Type())
	if i < 0 {
		return Stack{}
	}
	stack := engine.Field(i)
	return Stack{(*[3]uintptr)(unsafe.Pointer(stack.UnsafeAddr())), uint64(stack.Type().Elem().Size())}
}

// Size returns the size of the stack in bytes, without synchronization. If the stack was not found, it
// returns the largest possible size.
//
//go:norace
func (s Stack) Size() uint64 {
	if s.header == nil {
		return stackCeiling
	}
	return uint64(s.header[1]) * s.element
}

var stackFields sync.Map // maps a reflect.Type to the index of its field "stack", or -1

// stackField returns the index of the field "stack" in an engine's type, or -1.
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
