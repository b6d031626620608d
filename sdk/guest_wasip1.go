package sdk

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/probe"
)

//go:wasmimport prober_v1 request_read
func hostRequestRead(buf unsafe.Pointer, size uint32) int32

//go:wasmimport prober_v1 result_write
func hostResultWrite(ptr unsafe.Pointer, n uint32) int32

//go:wasmimport prober_v1 message
func hostMessage(ptr unsafe.Pointer, n uint32)

//go:wasmimport prober_v1 metric
func hostMetric(name unsafe.Pointer, n uint32, unit unsafe.Pointer, unitLen uint32, value float64) int32

//go:wasmimport prober_v1 log
func hostLog(level int32, ptr unsafe.Pointer, n uint32)

//go:wasmimport prober_v1 log_enabled
func hostLogEnabled(level int32) int32

//go:wasmimport prober_v1 deadline_ms
func hostDeadlineMs() int64

//go:wasmimport prober_v1 last_error
func hostLastError(buf unsafe.Pointer, size uint32) int32

var (
	// registered is the plugin of the guest.
	registered Plugin

	// attempts counts the calls of probe. The host closes all handles at the end of a call, and reuses
	// their numbers in the next one. A goroutine that outlives its attempt in a pooled guest must not use
	// its handles.
	attempts uint64
)

func register(p Plugin) {
	registered = p
	reserve()
}

// heapReserve is the heap size that most probes need, in bytes.
const heapReserve = 1 << 20

// reserve grows the heap before the host takes the snapshot to which it resets the guest. Otherwise each
// call would grow the heap and the memory of the guest. Then it does the work of a call. Otherwise each
// call would be the first after a garbage collection, which takes three times as long.
func reserve() {
	allocate(heapReserve)
	runtime.GC()
	touchSizes()
	warmUp()
}

// largestTouched is the largest size for touchSizes, in bytes. Larger allocations are rare.
const largestTouched = 1 << 10

// touchSizes allocates a value of each size, with and without pointers. The first allocation of a size
// class costs as much as ten others, and a guest that is reset would repeat it in every call.
func touchSizes() {
	for n := 16; n <= largestTouched; n += 16 {
		sink = make([]byte, n)
		pointers = make([]*byte, n/8)
	}
	sink, pointers = nil, nil
}

// warmUp does the work of a call, so that the allocator and the scheduler are initialized.
func warmUp() {
	doc := abi.AppendRequest(nil, &abi.Request{
		Plugin: abi.Plugin{Name: "warm"}, Pod: abi.Pod{Name: "up", Labels: map[string]string{"a": "b"}},
		Config: []byte("{}"), Host: abi.Host{Features: []string{"net"}},
	})
	for range 8 {
		q, err := abi.DecodeRequest(doc)
		c, configErr := NewConfig(q.Config)
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		sink = fmt.Appendf(nil, "%v %v %v %v", err, configErr, c, ctx.Err())
		newContext()
		cancel()
		runtime.Gosched()
	}
	sink = nil
}

//go:noinline
func allocate(n int) { sink = make([]byte, n); sink = nil }

// Values that are assigned to these variables escape to the heap.
var (
	sink     []byte
	pointers []*byte
)

func pointer[T ~string | ~[]byte](data T) (unsafe.Pointer, uint32) {
	if len(data) == 0 {
		return nil, 0
	}
	switch d := any(data).(type) {
	case string:
		return unsafe.Pointer(unsafe.StringData(d)), uint32(len(d))
	case []byte:
		return unsafe.Pointer(unsafe.SliceData(d)), uint32(len(d))
	default:
		return nil, 0
	}
}

// pull returns the result of a host call that fills a buffer. It enlarges the buffer if necessary.
func pull(size int, call func(buf unsafe.Pointer, size uint32) int32) ([]byte, error) {
	for {
		buf := make([]byte, size)
		n := call(unsafe.Pointer(&buf[0]), uint32(size))
		if n < 0 {
			return nil, abi.Errno(-n)
		}
		if int(n) <= size {
			return buf[:n], nil
		}
		size = int(n)
	}
}

//go:wasmexport probe
func exportProbe() int32 {
	attempts++
	readers = readers[:0]
	r, err := readRequest()
	if err != nil {
		return fail(err)
	}
	if registered == nil {
		return fail(errors.New("no plugin is registered: call sdk.Register in init"))
	}
	out, err := registered.Probe(r.ctx, &r.Request)
	r.ctx.end()
	if err == nil {
		err = r.Config.Err()
	}
	if err != nil {
		return fail(err)
	}
	return answer(out)
}

//go:wasmexport validate_config
func exportValidateConfig() int32 {
	r, err := readRequest()
	if err != nil {
		return fail(err)
	}
	v, ok := registered.(ConfigValidator)
	if !ok {
		return 0
	}
	if err := v.ValidateConfig(&r.config); err != nil {
		return fail(err)
	}
	if err := r.config.Err(); err != nil {
		return fail(err)
	}
	return 0
}

func fail(err error) int32 {
	hostMessage(pointer(err.Error()))
	return -1
}

// answer passes out to the host with message and metric, or with result_write if out has other fields.
func answer(out probe.Outcome) int32 {
	more := out.Details != "" || out.Reason != ""
	for _, m := range out.Metrics {
		more = more || len(m.Labels) > 0
	}
	if more {
		doc := abi.AppendOutcome(nil, out)
		if n := hostResultWrite(pointer(doc)); n < 0 {
			return fail(fmt.Errorf("result: %w", hostError(n)))
		}
		return int32(out.Result.ExitCode())
	}
	hostMessage(pointer(out.Output))
	for _, m := range out.Metrics {
		name, n := pointer(m.Name)
		unit, unitLen := pointer(m.Unit)
		if code := hostMetric(name, n, unit, unitLen, m.Value); code < 0 {
			return fail(fmt.Errorf("metric %q: %w", m.Name, hostError(code)))
		}
	}
	return int32(out.Result.ExitCode())
}

// requestBuffer receives the request if it is small enough. [sameBytes] reads beyond its end.
var requestBuffer [4096 + 8]byte

const maxBuffered = len(requestBuffer) - 8 // maximum size of a request in bytes

// features receives the features of the host.
var features [8]string

// call has the request of a call, in one allocation.
type call struct {
	Request
	config Config
	ctx    *callContext
}

// last has the request of the last call. Most attempts of a probe have the same request as the previous
// one, and comparing takes a tenth of the time of decoding. copy restores fields that the plugin has
// modified.
var last struct {
	doc  []byte // nil if the document did not fit into requestBuffer
	call *call
	copy Request
}

// readRequest reads the request of this call. The result is valid until the next call.
func readRequest() (*call, error) {
	n := int(hostRequestRead(unsafe.Pointer(&requestBuffer[0]), uint32(maxBuffered)))
	if n > 0 && n == len(last.doc) && sameBytes(&requestBuffer[0], &last.doc[0], n) {
		last.call.Request = last.copy
		last.call.config.err = nil
		found.config = &last.call.config
	} else if err := decodeRequest(n); err != nil {
		last.doc = nil
		return nil, fmt.Errorf("read the request: %w", err)
	}
	last.call.ctx = newContext()
	return last.call, nil
}

// decodeRequest decodes the request of n bytes in requestBuffer into last.
func decodeRequest(n int) error {
	doc, err := requestDoc(n)
	if err != nil {
		return err
	}
	q := abi.Request{Host: abi.Host{Features: features[:0]}}
	if err := q.Decode(doc); err != nil {
		return err
	}
	if len(q.Config) == 0 {
		return errors.New("it has no config")
	}
	r := &call{config: Config{doc: slices.Clip(q.Config)}} // an object: the request was decoded
	r.Request = Request{
		Kind:             q.Probe.Kind,
		Attempt:          q.Probe.Attempt,
		Period:           time.Duration(q.Probe.PeriodMs) * time.Millisecond,
		Timeout:          time.Duration(q.Probe.TimeoutMs) * time.Millisecond,
		FailureThreshold: q.Probe.FailureThreshold,
		LastResult:       q.Probe.LastResult,
		Target:           probe.Target{Host: q.Target.Host, Port: q.Target.Port, Unix: q.Target.Unix},
		Pod:              probe.Pod{Namespace: q.Pod.Namespace, Name: q.Pod.Name, UID: q.Pod.UID, Labels: q.Pod.Labels},
		Container:        probe.Container{Name: q.Container.Name, Ports: q.Container.Ports},
		ContainerID:      q.Container.ID,
		Config:           &r.config,
		Self:             q.Plugin,
		HostVersion:      q.Host.Version,
		Features:         slices.Clip(q.Host.Features),
	}
	last.doc, last.call, last.copy = nil, r, r.Request
	found.config, found.values = nil, nil
	if len(doc) <= maxBuffered {
		last.doc = doc
	}
	return nil
}

// requestDoc returns a copy of the request of n bytes in requestBuffer, with a spare capacity of
// [abi.Room].
func requestDoc(n int) ([]byte, error) {
	if n < 0 || n > maxBuffered {
		return pull(max(n, 1), hostRequestRead)
	}
	doc := make([]byte, n, n+abi.Room)
	copy(doc, requestBuffer[:n])
	return doc, nil
}

// sameBytes reports whether the n bytes at a and b are equal. It reads up to eight bytes more, which must
// exist. In a guest, Go's own comparison reads one byte at a time.
func sameBytes(a, b *byte, n int) bool {
	x, y, i := unsafe.Pointer(a), unsafe.Pointer(b), 0
	for ; i+32 <= n; i += 32 {
		v, w := (*[4]uint64)(unsafe.Add(x, i)), (*[4]uint64)(unsafe.Add(y, i))
		if v[0]^w[0]|v[1]^w[1]|v[2]^w[2]|v[3]^w[3] != 0 {
			return false
		}
	}
	for ; i+8 <= n; i += 8 {
		if *(*uint64)(unsafe.Add(x, i)) != *(*uint64)(unsafe.Add(y, i)) {
			return false
		}
	}
	unused := uint(8-(n-i)) * 8
	return (*(*uint64)(unsafe.Add(x, i))^*(*uint64)(unsafe.Add(y, i)))<<unused == 0
}

// Progressf sets the message of an attempt that reaches its deadline, such as what the plugin waits for. An
// outcome replaces it.
func (r *Request) Progressf(format string, args ...any) {
	hostMessage(pointer(sprintf(format, args)))
}

// Logf writes a line to the log of the host.
func (r *Request) Logf(level Level, format string, args ...any) {
	if hostLogEnabled(int32(level)) == 0 {
		return
	}
	ptr, n := pointer(fmt.Sprintf(format, args...))
	hostLog(int32(level), ptr, n)
}
