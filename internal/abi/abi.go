// Package abi is the wire contract between prober and its WebAssembly guests, version 1: the
// functions that a guest may import, the error numbers that they return, and the JSON
// documents that both sides exchange. handlers/wasm implements it and sdk uses it; v1.json
// freezes it.
//
// Start at contract.go, the imports and exports. request.go and result.go have the two
// documents of every attempt, documents.go and conninfo.go those of the host functions.
// document.go writes and reads all of them, with the scanner in json.go: encoding/json would
// cost a guest more than the rest of a call. ordered.go is a faster way to read requests.
package abi

// Version is the number of the contract. It is part of every import module's name.
const Version = 1

// The import modules. A guest's imports tell the host its version and the capabilities that
// it needs, before any of its code runs.
const (
	ModuleCore = "prober_v1"
	ModuleNet  = "prober_v1_net"
	ModuleHTTP = "prober_v1_http"
	ModuleDNS  = "prober_v1_dns"
	ModuleKV   = "prober_v1_kv"
	ModuleICMP = "prober_v1_icmp"
)

// The exports of a guest.
const (
	ExportMemory         = "memory"
	ExportInitialize     = "_initialize"
	ExportProbe          = "probe"
	ExportValidateConfig = "validate_config"
	ExportStart          = "_start"
)

// Limits that the host and its guests know.
const (
	MaxMessage    = 10 << 10 // bytes of the message
	MaxResult     = 64 << 10 // bytes of a result document
	MaxMetrics    = 64       // metrics of an attempt
	MaxMetricName = 128      // bytes of a metric's name
	MaxUnit       = 32       // bytes of a metric's unit
	MaxKV         = 64 << 10 // bytes of the keys and values of a probe
	MaxKVKeys     = 1024     // of a probe: each costs the host more than its bytes
	MaxRedirects  = 10       // hops that an HTTP request may ask for
	MaxEcho       = 65_507   // bytes of the payload of an echo request
)

// The levels of the log function.
const (
	LevelDebug int32 = iota
	LevelInfo
	LevelWarn
	LevelError
)

// Special timeouts of read, write and poll.
const (
	NonBlocking   int32 = 0
	UntilDeadline int32 = -1
)

// Type is the type of a parameter or result of an imported function.
type Type string

// The types in use.
const (
	I32 Type = "i32"
	I64 Type = "i64"
	F64 Type = "f64"
)

// Func is one function that a guest may import. Functions are only ever added, and
// a signature never changes.
type Func struct {
	Module  string `json:"module"`
	Name    string `json:"name"`
	Params  []Type `json:"params"`
	Results []Type `json:"results"`
}

// ValidMetricName reports whether a metric may have the name: it matches [a-z_][a-z0-9_]* and
// has at most [MaxMetricName] bytes.
func ValidMetricName(name string) bool {
	if name == "" || len(name) > MaxMetricName {
		return false
	}
	for i := range len(name) {
		c := name[i]
		letter := c == '_' || 'a' <= c && c <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return true
}
