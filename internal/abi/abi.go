// Package abi has version 1 of the contract between prober and its WebAssembly guests: the functions that
// a guest may import, their error numbers, and the JSON documents that both sides exchange. handlers/wasm
// implements it, sdk uses it, and v1.json freezes it.
//
// Read contract.go first: the imports and exports. request.go and result.go have the two documents of
// every attempt, documents.go and conninfo.go the documents of host functions. document.go writes and
// reads all of them with the scanner in json.go, because encoding/json would cost a guest more than the
// rest of a call. ordered.go has a faster decoder for requests.
package abi

// Version is the number of the contract. It is part of every import module's name.
const Version = 1

// The import modules. From a guest's imports, the host knows the version and the capabilities that the
// guest needs before any of its code runs.
const (
	ModuleCore  = "prober_v1"
	ModuleNet   = "prober_v1_net"
	ModuleHTTP  = "prober_v1_http"
	ModuleDNS   = "prober_v1_dns"
	ModuleKV    = "prober_v1_kv"
	ModuleICMP  = "prober_v1_icmp"
	ModuleFiles = "prober_v1_files"
)

// The exports of a guest.
const (
	ExportMemory         = "memory"
	ExportInitialize     = "_initialize"
	ExportProbe          = "probe"
	ExportValidateConfig = "validate_config"
	ExportStart          = "_start"
)

// Limits for both the host and its guests.
const (
	MaxMessage    = 10 << 10 // bytes of the message
	MaxResult     = 64 << 10 // bytes of a result document
	MaxMetrics    = 64       // metrics of an attempt
	MaxMetricName = 128      // bytes of a metric's name
	MaxUnit       = 32       // bytes of a metric's unit
	MaxKV         = 64 << 10 // bytes of the keys and values of a probe
	MaxKVKeys     = 1024     // keys of a probe, because a key costs the host more than its bytes
	MaxRedirects  = 10       // maximum value of HTTPRequest.Redirects
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

// Func is one function that a guest may import. Functions may be added, but signatures never change.
type Func struct {
	Module  string `json:"module"`
	Name    string `json:"name"`
	Params  []Type `json:"params"`
	Results []Type `json:"results"`
}

// ValidMetricName reports whether name is a valid metric name: it matches [a-z_][a-z0-9_]* and has at most
// [MaxMetricName] bytes.
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
