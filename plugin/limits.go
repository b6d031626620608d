package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/daeace23/prober/internal/abi"
)

// Limits are the resource limits of a plugin. A zero field is not set.
//
// Each limit has a default. The manifest may set a lower value, or a higher one up to a maximum. The
// operator's value, in prober.yaml, applies if the manifest has none, or if it is lower than the
// manifest's. See [Resolve].
type Limits struct {
	Module       int           // bytes of the module
	Memory       int           // bytes of linear memory of an instance
	TableEntries int           // entries of all tables of an instance
	Message      int           // bytes of the message of a run; a longer one is cut
	Result       int           // bytes of a result document
	LogLines     int           // log lines of a run
	LogBytes     int           // bytes of the log lines of a run
	Stdio        int           // bytes on stdout and stderr of a run, together
	NetRead      int           // bytes read from all connections of a run
	NetWrite     int           // bytes written to all connections, and of HTTP bodies, of a run
	Handles      int           // open handles
	Dials        int           // burst of dials, and dials per second after it
	HTTPBody     int           // bytes of all HTTP responses of a run
	Redirects    int           // redirects of an HTTP request
	Lookups      int           // DNS look-ups of a run
	KV           int           // bytes of the keys and values of a probe
	FileRead     int           // bytes read from files of a run
	FileEntries  int           // entries of all listed folders of a run
	FileCalls    int           // calls for files of a run
	Series       int           // current metrics of a probe
	Instances    int           // concurrent instances, if memory allows
	Calls        int           // calls of an instance, before it is replaced
	Idle         time.Duration // how long an instance without calls is kept
}

// LimitName is a limit's name in files, in metrics and in traces.
type LimitName string

// LimitNames are the names of all limits, in display order. The last one is not a field of [Limits]: it
// is a limit of the host for all plugins together.
var LimitNames = [...]LimitName{
	"module", "memory", "tableEntries", "message", "result", "logLines", "logBytes", "stdio", "netRead", "netWrite",
	"handles", "dials", "httpBody", "redirects", "lookups", "kv", "fileRead", "fileEntries", "fileCalls", "series", "instances", "calls", "idle",
	"totalMemory",
}

// The indices of [LimitNames].
const (
	LimitModule = iota
	LimitMemory
	LimitTableEntries
	LimitMessage
	LimitResult
	LimitLogLines
	LimitLogBytes
	LimitStdio
	LimitNetRead
	LimitNetWrite
	LimitHandles
	LimitDials
	LimitHTTPBody
	LimitRedirects
	LimitLookups
	LimitKV
	LimitFileRead
	LimitFileEntries
	LimitFileCalls
	LimitSeries
	LimitInstances
	LimitCalls
	LimitIdle
	LimitTotalMemory // the last: LimitNames[:LimitTotalMemory] are the limits of one plugin
)

// DefaultTotalMemory is the default limit of the memory of all plugins' instances together, in bytes.
const DefaultTotalMemory = 256 << 20

// MaxMemory is the maximum limit of the linear memory of an instance, in bytes.
const MaxMemory = 256 << 20

// limitField describes one field of Limits.
type limitField struct {
	index    int
	number   func(*Limits) *int
	bytes    bool // a size in bytes; false for a count
	standard int  // the default
	top      int
}

// limitFields returns all fields except Idle. The limits that the guest ABI fixes cannot be raised.
func limitFields() []limitField {
	return []limitField{
		{LimitModule, func(l *Limits) *int { return &l.Module }, true, MaxModule, MaxModule},
		{LimitMemory, func(l *Limits) *int { return &l.Memory }, true, 32 << 20, MaxMemory},
		{LimitTableEntries, func(l *Limits) *int { return &l.TableEntries }, false, 65_536, 1 << 20},
		{LimitMessage, func(l *Limits) *int { return &l.Message }, true, 10 << 10, 10 << 10},
		{LimitResult, func(l *Limits) *int { return &l.Result }, true, 64 << 10, 64 << 10},
		{LimitLogLines, func(l *Limits) *int { return &l.LogLines }, false, 100, 10_000},
		{LimitLogBytes, func(l *Limits) *int { return &l.LogBytes }, true, 16 << 10, 1 << 20},
		{LimitStdio, func(l *Limits) *int { return &l.Stdio }, true, 64 << 10, 1 << 20},
		{LimitNetRead, func(l *Limits) *int { return &l.NetRead }, true, 1 << 20, 64 << 20},
		{LimitNetWrite, func(l *Limits) *int { return &l.NetWrite }, true, 256 << 10, 16 << 20},
		{LimitHandles, func(l *Limits) *int { return &l.Handles }, false, 8, 64},
		{LimitDials, func(l *Limits) *int { return &l.Dials }, false, 8, 64},
		{LimitHTTPBody, func(l *Limits) *int { return &l.HTTPBody }, true, 1 << 20, 64 << 20},
		{LimitRedirects, func(l *Limits) *int { return &l.Redirects }, false, 3, abi.MaxRedirects},
		{LimitLookups, func(l *Limits) *int { return &l.Lookups }, false, 8, 64},
		{LimitKV, func(l *Limits) *int { return &l.KV }, true, 64 << 10, 64 << 10},
		{LimitFileRead, func(l *Limits) *int { return &l.FileRead }, true, 1 << 20, 64 << 20},
		{LimitFileEntries, func(l *Limits) *int { return &l.FileEntries }, false, 16_384, 262_144},
		{LimitFileCalls, func(l *Limits) *int { return &l.FileCalls }, false, 16_384, 262_144},
		{LimitSeries, func(l *Limits) *int { return &l.Series }, false, 64, 64},
		{LimitInstances, func(l *Limits) *int { return &l.Instances }, false, 2000, 100_000},
		{LimitCalls, func(l *Limits) *int { return &l.Calls }, false, 10_000, 1_000_000},
	}
}

const (
	memoryPage  = 64 << 10 // size of a WebAssembly page in bytes
	defaultIdle = 5 * time.Minute
	maxIdle     = time.Hour
)

// Resolve returns the effective limits. Each is the manifest's value, or else the operator's, or else
// the default. It is never above the operator's value or the maximum.
func Resolve(manifest, operator Limits) Limits {
	var l Limits
	for _, f := range limitFields() {
		asked, allowed := *f.number(&manifest), *f.number(&operator)
		*f.number(&l) = lower(cmp.Or(asked, allowed, f.standard), allowed, f.top)
	}
	l.Idle = lower(cmp.Or(manifest.Idle, operator.Idle, defaultIdle), operator.Idle, maxIdle)
	return l
}

// lower returns the minimum of value, top and operator. It ignores operator if it is 0.
func lower[T int | time.Duration](value, operator, top T) T {
	if operator > 0 {
		value = min(value, operator)
	}
	return min(value, top)
}

// Limit is one effective limit, formatted.
type Limit struct {
	Name  LimitName `json:"name"`
	Value string    `json:"value"`         // "32Mi", "100" or "5m0s"
	From  string    `json:"from"`          // "default", "manifest" or "operator"
	Top   string    `json:"top,omitempty"` // maximum in a manifest; "" if a manifest cannot set it
}

// ExplainLimits returns the effective limits and their origins, in the order of [LimitNames].
func ExplainLimits(manifest, operator Limits) []Limit {
	effective := Resolve(manifest, operator)
	var all []Limit
	for _, f := range limitFields() {
		value := *f.number(&effective)
		all = append(all, Limit{
			Name: LimitNames[f.index], Value: f.text(value), Top: f.text(f.top),
			From: origin(value, *f.number(&manifest), *f.number(&operator)),
		})
	}
	return append(all, Limit{
		Name: LimitNames[LimitIdle], Value: effective.Idle.String(), Top: maxIdle.String(),
		From: origin(effective.Idle, manifest.Idle, operator.Idle),
	})
}

func origin[T int | time.Duration](value, manifest, operator T) string {
	switch {
	case manifest > 0 && value == manifest:
		return "manifest"
	case operator > 0 && value == operator:
		return "operator"
	default:
		return "default"
	}
}

func (f *limitField) text(value int) string {
	if f.bytes {
		return FormatSize(value)
	}
	return strconv.Itoa(value)
}

// FormatSize returns a size in the form that [ParseSize] parses.
func FormatSize(n int) string {
	for _, unit := range []struct {
		suffix string
		size   int
	}{{"Gi", 1 << 30}, {"Mi", 1 << 20}, {"Ki", 1 << 10}} {
		if n >= unit.size && n%unit.size == 0 {
			return strconv.Itoa(n/unit.size) + unit.suffix
		}
	}
	return strconv.Itoa(n)
}

// Set sets the limit called name from text: "16Mi" for bytes, "30s" for a duration, "4" for a count.
func (l *Limits) Set(name LimitName, text string) error {
	if name == LimitNames[LimitIdle] {
		return l.setIdle(text)
	}
	for _, f := range limitFields() {
		if LimitNames[f.index] == name {
			return f.set(f.number(l), text)
		}
	}
	return fmt.Errorf("unknown limit %q", name)
}

// set parses a value and checks it against the maximum.
func (f *limitField) set(to *int, text string) error {
	var value uint64
	var err error
	if f.bytes {
		value, err = ParseSize(text)
	} else if value, err = strconv.ParseUint(text, 10, 64); err != nil || value < 1 {
		err = errors.New("must be an integer of at least 1")
	}
	if err != nil {
		return err
	}
	if f.index == LimitMemory && value < memoryPage {
		return fmt.Errorf("%s is below %s, a page of memory", text, f.text(memoryPage))
	}
	if value > uint64(f.top) {
		return fmt.Errorf("%s is above %s, the most that is allowed", text, f.text(f.top))
	}
	*to = int(value)
	return nil
}

func (l *Limits) setIdle(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return fmt.Errorf("%.40q is not a duration above 0, such as 30s or 5m", text)
	}
	if d > maxIdle {
		return fmt.Errorf("%s is above %s, the most that is allowed", text, maxIdle)
	}
	l.Idle = d
	return nil
}
