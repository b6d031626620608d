package wasm

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/daeace23/prober/handlers/wasm/internal/binary"
)

// Coverage counts what one module runs, for tests of plugins: see [Config.Coverage]. The zero value is ready to
// use, and counts the calls of functions. It is safe for concurrent use, except its fields.
type Coverage struct {
	// CountBlocks reports whether to count the blocks of a function. Its body, which begins with its locals,
	// is from start to end in the module's code section. Nil counts no blocks.
	CountBlocks func(start, end int) bool

	// CountFuel counts the fuel of each function, and the calls of the host.
	CountFuel bool

	mu        sync.Mutex
	functions []*countedFunction // by their index among the functions that the module defines
	imports   int                // number of functions before them
	fuel      []uint64           // by the same index
	blocks    []BlockRuns
	host      map[string]*HostCalls // by name
	uncounted string
}

// FunctionCalls is the number of calls of a function.
type FunctionCalls struct {
	Name  string // in the module's name section, else of its export, else "function[INDEX]"
	Calls uint64
	Fuel  uint64 // of the function itself, without the functions that it calls; see [Coverage.CountFuel]
}

// BlockRuns is how often a block of a function began. Nothing branches out of a block or into it.
type BlockRuns struct {
	Start, End int // range of the block in the module's code section
	Runs       uint64
}

// HostCalls is how often guests called a function of the host.
type HostCalls struct {
	Name   string // "MODULE.FUNCTION", as guests import it
	Calls  uint64
	Waited time.Duration // on the clock of the host
}

// Functions returns the functions of the module in its order. It is empty before a module was loaded.
func (c *Coverage) Functions() (all []FunctionCalls) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, f := range c.functions {
		if f == nil {
			continue
		}
		one := FunctionCalls{Name: f.name, Calls: f.calls.Load()}
		if i < len(c.fuel) {
			one.Fuel = c.fuel[i]
			if added := i - (len(c.fuel) - len(addedFunctions)); added >= 0 {
				one.Name = addedFunctions[added]
			}
		}
		all = append(all, one)
	}
	return all
}

// addedFunctions are the names of the functions that replace instructions in a metered module.
var addedFunctions = []string{"memory.fill", "memory.copy"}

// Blocks returns the counted blocks in the order of the code. Their counts are complete when all handlers are
// closed.
func (c *Coverage) Blocks() []BlockRuns {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.blocks)
}

// HostCalls returns the functions of the host that guests called, by name.
func (c *Coverage) HostCalls() (all []HostCalls) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.host {
		all = append(all, *f)
	}
	slices.SortFunc(all, func(a, b HostCalls) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Uncounted returns why neither fuel nor blocks are counted, "" if they are.
func (c *Coverage) Uncounted() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.uncounted
}

// counting returns what modules count.
func (c *Coverage) counting() binary.Counting {
	if c == nil {
		return binary.Counting{}
	}
	return binary.Counting{Blocks: c.CountBlocks, Fuel: c.CountFuel}
}

// add adds the counters of an instance that ends.
func (c *Coverage) add(m *binary.Module, instance api.Module) {
	if c == nil || !c.CountFuel && c.CountBlocks == nil {
		return
	}
	globals, ok := instance.(experimental.InternalModule)
	c.mu.Lock()
	defer c.mu.Unlock()
	counters := &m.Counters
	if !m.Metered || !ok {
		c.uncounted = cmp.Or(m.Unmetered, "the instance hides its globals")
		return
	}
	if c.fuel == nil && c.blocks == nil {
		c.fuel = make([]uint64, counters.Fuel)
		for _, b := range counters.Blocks {
			c.blocks = append(c.blocks, BlockRuns{Start: b.Start, End: b.End})
		}
	}
	if len(c.fuel) != counters.Fuel || len(c.blocks) != len(counters.Blocks) || globals.NumGlobal() < counters.First+len(c.fuel)+len(c.blocks) {
		c.uncounted = "handlers of several modules count into one"
		return
	}
	for i := range c.fuel {
		c.fuel[i] += globals.Global(counters.First + i).Get()
	}
	for i := range c.blocks {
		c.blocks[i].Runs += globals.Global(counters.First + len(c.fuel) + i).Get()
	}
}

// called counts a call of a function of the host.
func (c *Coverage) called(name string, waited time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.host[name]
	if f == nil {
		if c.host == nil {
			c.host = make(map[string]*HostCalls)
		}
		f = &HostCalls{Name: name}
		c.host[name] = f
	}
	f.Calls++
	f.Waited += waited
}

// onCall returns the function that counts calls of the host, nil to count none.
func (c *Coverage) onCall() func(name string, waited time.Duration) {
	if c == nil || !c.CountFuel {
		return nil
	}
	return c.called
}

// countedFunction counts the calls of a function. It implements [experimental.FunctionListener].
type countedFunction struct {
	name  string
	calls atomic.Uint64
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
type factory struct {
	coverage *Coverage
	added    int // number of imports that were added to the module
}

// NewFunctionListener implements [experimental.FunctionListenerFactory]. wazero calls it for each function that the
// module defines, in their order.
func (f factory) NewFunctionListener(def api.FunctionDefinition) experimental.FunctionListener {
	c, i := f.coverage, int(def.Index())
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.functions) == 0 {
		c.imports = i
	}
	at := max(i-c.imports, 0)
	for len(c.functions) <= at {
		c.functions = append(c.functions, nil)
	}
	if c.functions[at] == nil { // else another host has loaded the module, too
		name := cmp.Or(def.Name(), strings.Join(def.ExportNames(), ", "), fmt.Sprintf("function[%d]", i-f.added))
		c.functions[at] = &countedFunction{name: name}
	}
	return c.functions[at]
}

// observed returns a context in which the compiled module m counts its calls.
func (c *Coverage) observed(ctx context.Context, m *binary.Module) context.Context {
	if c == nil {
		return ctx
	}
	f := factory{coverage: c}
	if m.Metered {
		f.added = 1
	}
	return experimental.WithFunctionListenerFactory(ctx, f)
}
