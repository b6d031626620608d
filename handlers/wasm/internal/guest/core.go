package guest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"time"
	"unsafe"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/daeace23/prober/handlers/wasm/internal/binary"
	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// args are the parameters of a host call.
type args []uint64

func (a args) i32(i int) int32 { return int32(a[i]) }

// span returns the bytes of the guest's memory at a pointer and a length. They are not copied.
func (a args) span(mem api.Memory, i int) ([]byte, bool) {
	return mem.Read(uint32(a[i]), uint32(a[i+1]))
}

// hostFunc is one import. Its result is dropped if the import has none.
type hostFunc func(c *Call, mem api.Memory, a args) int64

// i32 returns a hostFunc for a function with a result of type i32.
func i32(f func(c *Call, mem api.Memory, a args) int32) hostFunc {
	return func(c *Call, mem api.Memory, a args) int64 { return int64(f(c, mem, a)) }
}

// hostFuncs returns the functions of an import module by name, or nil for an unknown module.
func hostFuncs(module string) map[string]hostFunc {
	switch module {
	case abi.ModuleCore:
		return coreFuncs()
	case abi.ModuleNet:
		return netFuncs()
	case abi.ModuleHTTP:
		return httpFuncs()
	case abi.ModuleDNS:
		return dnsFuncs()
	case abi.ModuleKV:
		return kvFuncs()
	case abi.ModuleICMP:
		return icmpFuncs()
	case abi.ModuleFiles:
		return filesFuncs()
	}
	return nil
}

// coreFuncs returns the functions that every guest has.
func coreFuncs() map[string]hostFunc {
	return map[string]hostFunc{
		"request_read": i32(requestRead),
		"config_get":   i32(configGet),
		"result_write": i32(resultWrite),
		"message":      i32(message),
		"metric":       i32(metric),
		"log":          i32(log),
		"log_enabled":  i32(logEnabled),
		"deadline_ms":  deadlineMs,
		"last_error":   i32(lastError),
	}
}

func valueTypes(types []abi.Type) []api.ValueType {
	var out []api.ValueType
	for _, t := range types {
		switch t {
		case abi.I32:
			out = append(out, api.ValueTypeI32)
		case abi.I64:
			out = append(out, api.ValueTypeI64)
		case abi.F64:
			out = append(out, api.ValueTypeF64)
		}
	}
	return out
}

// AddImports adds the import modules of a plugin to a runtime.
func (p *Plugin) AddImports(ctx context.Context, runtime wazero.Runtime, modules []string) error {
	for _, module := range modules {
		if module == binary.WASI {
			if err := p.Host.instantiateWASI(ctx, runtime); err != nil {
				return err
			}
		} else if err := p.addModule(ctx, runtime, module); err != nil {
			return err
		}
	}
	return nil
}

// addModule adds the functions of one import module to a runtime. The functions of an optional
// capability that was not granted return -EPERM.
func (p *Plugin) addModule(ctx context.Context, runtime wazero.Runtime, module string) error {
	builder := runtime.NewHostModuleBuilder(module)
	funcs := hostFuncs(module)
	capability, _ := plugin.CapabilityOfModule(module)
	for _, def := range abi.Imports() {
		if def.Module != module {
			continue
		}
		f := funcs[def.Name]
		if !p.Permissions.Has(capability.Name) {
			f = withheld(capability.Name)
		}
		if capability.Waits {
			f = inTime(f)
		}
		builder.NewFunctionBuilder().
			WithGoModuleFunction(p.Host.observed(module, def.Name, adapt(def.Name, f, len(def.Results) > 0)), valueTypes(def.Params), valueTypes(def.Results)).
			Export(def.Name)
	}
	_, err := builder.Instantiate(ctx)
	return err
}

// observed returns f, which calls OnCall if there is one.
func (h *Host) observed(module, name string, f api.GoModuleFunc) api.GoModuleFunc {
	if h.OnCall == nil {
		return f
	}
	name = abi.ImportName(module, name)
	return func(ctx context.Context, mod api.Module, stack []uint64) {
		start := h.Clock.Now()
		defer func() { h.OnCall(name, h.Clock.Now().Sub(start)) }() // f may unwind the guest
		f(ctx, mod, stack)
	}
}

// withheld returns a function that fails because its capability was not granted.
func withheld(capability string) hostFunc {
	return func(c *Call, _ api.Memory, _ args) int64 {
		c.plugin.Denied.Add(1)
		c.Trace(probe.TraceEvent{Type: probe.TraceDenied, Name: capability, Detail: "the capability is not granted"})
		return int64(c.fail(abi.EPERM, "the capability %q is not granted", capability))
	}
}

// adapt returns f as a wazero function. name is the name of the import.
func adapt(name string, f hostFunc, result bool) api.GoModuleFunc {
	return func(ctx context.Context, mod api.Module, stack []uint64) {
		c, ok := ctx.Value(callKey{}).(*Call)
		mem := mod.Memory()
		var r int64
		if !ok || mem == nil {
			r = int64(abi.EPERM.Code())
		} else {
			c.record.calls++
			c.record.name = name
			r = f(c, mem, stack)
			c.unwindIfEnded()
			if c.fuel != nil && c.record.calls%ownCalls == 0 {
				c.unwindIfOver()
			}
		}
		if result {
			stack[0] = uint64(r)
		}
	}
}

// put writes data to the buffer whose pointer and length are the parameters i and i+1, if it fits. It
// returns the length of data.
func (c *Call) put(mem api.Memory, a args, i int, data []byte) int32 {
	if len(data) > int(uint32(a[i+1])) {
		return int32(len(data))
	}
	if !mem.Write(uint32(a[i]), data) {
		return c.badPointer()
	}
	return int32(len(data))
}

func (c *Call) badPointer() int32 { return c.fail(abi.EFAULT, "the buffer is outside of memory") }

func requestRead(c *Call, mem api.Memory, a args) int32 {
	if c.inInitialize {
		return c.fail(abi.EPERM, "there is no request during _initialize")
	}
	return c.put(mem, a, 0, c.requestDoc())
}

const maxKey = 1 << 10 // bytes of a config path

func configGet(c *Call, mem api.Memory, a args) int32 {
	if c.inInitialize {
		return c.fail(abi.EPERM, "there is no config during _initialize")
	}
	if uint32(a[1]) > maxKey {
		return c.fail(abi.EINVAL, "config: a path of %d bytes; at most %d are allowed", uint32(a[1]), maxKey)
	}
	key, ok := a.span(mem, 0)
	if !ok {
		return c.badPointer()
	}
	value, ok := abi.Lookup(c.config, unsafe.String(unsafe.SliceData(key), len(key))) // safe: the guest does not run meanwhile
	if !ok {
		return c.missing("config has no %.100q", key)
	}
	return c.put(mem, a, 2, []byte(abi.Text(value)))
}

func resultWrite(c *Call, mem api.Memory, a args) int32 {
	if most := uint32(c.plugin.Limits.Result); uint32(a[1]) > most {
		c.Hit(plugin.LimitResult)
		return c.violate(abi.EMSGSIZE, fmt.Errorf("result of %d bytes; at most %d are allowed", uint32(a[1]), most))
	}
	doc, ok := a.span(mem, 0)
	if !ok {
		return c.badPointer()
	}
	decode := abi.DecodeResult
	if c.host.Strict {
		decode = abi.DecodeStrictResult
	}
	r, err := decode(doc)
	if err != nil {
		return c.violate(abi.EINVAL, fmt.Errorf("result: %w", err))
	}
	c.result = &r
	return 0
}

// beforeRedaction is how many bytes beyond the limit are read if a text may contain secrets. So a
// secret at the limit is redacted before the text is cut.
const beforeRedaction = 16 << 10

// message sets the message, cut to the limit.
func message(c *Call, mem api.Memory, a args) int32 {
	most := uint32(c.plugin.Limits.Message)
	if uint32(a[1]) > most {
		c.Hit(plugin.LimitMessage)
	}
	if c.hasSecrets() {
		most += beforeRedaction
	}
	text, ok := mem.Read(uint32(a[0]), min(uint32(a[1]), most))
	if !ok {
		return c.badPointer()
	}
	c.message = strings.ToValidUTF8(string(text), "\uFFFD")
	return 0
}

func metric(c *Call, mem api.Memory, a args) int32 {
	name, ok := mem.Read(uint32(a[0]), min(uint32(a[1]), abi.MaxMetricName+1))
	unit, okUnit := mem.Read(uint32(a[2]), min(uint32(a[3]), abi.MaxUnit+1))
	if !ok || !okUnit {
		return c.badPointer()
	}
	m := probe.Metric{Name: string(name), Unit: strings.ToValidUTF8(string(unit), "\uFFFD"), Value: math.Float64frombits(a[4])}
	if err := abi.CheckMetric(m); err != nil {
		c.Trace(probe.TraceEvent{Type: probe.TraceLog, Name: "host", Detail: err.Error()}) // guests ignore this error
		return c.fail(abi.EINVAL, "%v", err)
	}
	if len(c.metrics) >= c.plugin.Limits.Series {
		c.Hit(plugin.LimitSeries)
		return c.fail(abi.EDQUOT, "more than %d metrics", len(c.metrics))
	}
	c.metrics = append(c.metrics, m)
	return 0
}

var levelNames = map[int32]string{
	abi.LevelDebug: "debug", abi.LevelInfo: "info", abi.LevelWarn: "warn", abi.LevelError: "error",
}

// levelName returns the name of a level. A number that the contract does not know is an error.
func levelName(level int32) string { return cmp.Or(levelNames[level], "error") }

func log(c *Call, mem api.Memory, a args) int32 {
	name := levelName(a.i32(0))
	most := uint32(c.plugin.Limits.LogBytes)
	if c.hasSecrets() {
		most += beforeRedaction
	}
	text, ok := mem.Read(uint32(a[1]), min(uint32(a[2]), most))
	if !ok {
		return c.badPointer()
	}
	if name == "error" {
		c.errorLine = string(text)
	}
	if !c.keepsLine(name) || c.logFull() {
		return 0
	}
	c.logLine(name, string(text))
	return 0
}

// logEnabled is log_enabled. Errors are always enabled, since the last one is the message of a trap.
func logEnabled(c *Call, _ api.Memory, a args) int32 {
	if levelName(a.i32(0)) == "error" || c.logEnabled() && !c.logFull() {
		return 1
	}
	return 0
}

// deadlineMs rounds up, so that a guest with a timer of its own does not give up before the
// deadline.
func deadlineMs(c *Call, _ api.Memory, _ args) int64 {
	deadline, ok := c.ctx.Deadline()
	if !ok {
		return math.MaxInt64
	}
	return max(0, (deadline.Sub(c.host.Clock.Now()) + time.Millisecond - 1).Milliseconds())
}

func lastError(c *Call, mem api.Memory, a args) int32 {
	return c.put(mem, a, 0, []byte(c.lastError.String()))
}
