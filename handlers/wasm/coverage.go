package wasm

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// Coverage counts the calls of the functions of one module, for tests of plugins: see [Config.Coverage]. The
// zero value is ready to use. It is safe for concurrent use.
type Coverage struct {
	mu        sync.Mutex
	functions []*countedFunction // by their index among the functions that the module defines
}

// FunctionCalls is the number of calls of a function.
type FunctionCalls struct {
	Name  string // in the module's name section, else of its export, else "function[INDEX]"
	Calls uint64
}

// Functions returns the functions of the module in its order. It is empty before a module was loaded.
func (c *Coverage) Functions() (all []FunctionCalls) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, f := range c.functions {
		if f != nil {
			all = append(all, FunctionCalls{f.nameAt(i), f.calls.Load()})
		}
	}
	return all
}

// countedFunction counts the calls of a function. It implements [experimental.FunctionListener].
type countedFunction struct {
	name  string
	calls atomic.Uint64
}

func (f *countedFunction) nameAt(index int) string {
	if f.name == "" {
		return fmt.Sprintf("function[%d]", index)
	}
	return f.name
}

// Before implements [experimental.FunctionListener].
func (f *countedFunction) Before(context.Context, api.Module, api.FunctionDefinition, []uint64, experimental.StackIterator) {
	f.calls.Add(1)
}

// After implements [experimental.FunctionListener].
func (*countedFunction) After(context.Context, api.Module, api.FunctionDefinition, []uint64) {}

// Abort implements [experimental.FunctionListener].
func (*countedFunction) Abort(context.Context, api.Module, api.FunctionDefinition, error) {}

// factory implements [experimental.FunctionListenerFactory].
type factory struct{ coverage *Coverage }

// NewFunctionListener implements [experimental.FunctionListenerFactory].
func (f factory) NewFunctionListener(def api.FunctionDefinition) experimental.FunctionListener {
	c, i := f.coverage, int(def.Index())
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.functions) <= i {
		c.functions = append(c.functions, nil)
	}
	if c.functions[i] == nil { // else another host has loaded the module, too
		c.functions[i] = &countedFunction{name: cmp.Or(def.Name(), strings.Join(def.ExportNames(), ", "))}
	}
	return c.functions[i]
}

// observed returns a context in which compiled modules count their calls.
func (c *Coverage) observed(ctx context.Context) context.Context {
	if c == nil {
		return ctx
	}
	return experimental.WithFunctionListenerFactory(ctx, factory{c})
}
