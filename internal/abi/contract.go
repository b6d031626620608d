package abi

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Imports returns every function of version 1, by module and in the order of the
// specification. All numbers are i32 unless the signature says otherwise. A negative
// result is a negated [Errno], and last_error returns its message. "-> len" means that the
// function fills the caller's buffer (buf, cap) and returns the length. If the length is above
// cap, nothing was written, and the guest calls again with a larger buffer. A timeout is
// [NonBlocking], [UntilDeadline] or a positive number of milliseconds.
//
// prober_v1, which every guest may import:
//
//	request_read(buf, cap) -> len                 the [Request]
//	config_get(key, klen, buf, cap) -> len        a string as it is, anything else as JSON; -ENOENT
//	result_write(ptr, len) -> 0                   a [Result]
//	message(ptr, len)                             one line for humans
//	metric(name, nlen, unit, ulen, value f64) -> 0
//	log(level, ptr, len)
//	log_enabled(level) -> 0 | 1
//	deadline_ms() -> i64                          the time left
//	last_error(buf, cap) -> len
//
// prober_v1_net, the capability "net":
//
//	dial(url, len, timeout) -> handle             see [DialURL]
//	read(handle, buf, cap, timeout) -> n          0 is the end; -EAGAIN; of udp one datagram
//	write(handle, ptr, len, timeout) -> n         of udp one datagram
//	close(handle) -> 0
//	starttls(handle, opts, len) -> 0              opts is a [TLSOptions] as JSON, or empty
//	info(handle, buf, cap) -> len                 the [ConnInfo] as JSON
//	poll(handles, n, timeout) -> index            of the first that has data to read; -EAGAIN
//
// prober_v1_http, the capability "http":
//
//	do(req, len, body, blen) -> handle            an [HTTPRequest] as JSON; returns when the head has come
//	head(handle, buf, cap) -> len                 the [HTTPHead] as JSON
//	read(handle, buf, cap, timeout) -> n          the body; 0 is the end; -EAGAIN
//	close(handle) -> 0
//
// prober_v1_dns, the capability "dns":
//
//	lookup(req, len, timeout) -> handle           a [DNSRequest] as JSON; returns at once
//	read(handle, buf, cap, timeout) -> len        the [DNSAnswer] as JSON; -EAGAIN; frees the handle when it fits
//
// prober_v1_kv, the capability "kv", which keeps values from attempt to attempt:
//
//	get(key, klen, buf, cap) -> len               -ENOENT
//	set(key, klen, ptr, len) -> 0                 -EDQUOT above [MaxKV] bytes of keys and values, or [MaxKVKeys] keys
//	delete(key, klen) -> 0                        0 also if there is no such key
//
// prober_v1_icmp, the capability "icmp":
//
//	echo(req, len, timeout) -> handle             an [EchoRequest] as JSON; returns when the reply has come
//	read(handle, buf, cap) -> len                 the [EchoReply] as JSON; frees the handle when it fits
//
// prober_v1_files, the capability "files", which reads files of the host:
//
//	stat(path, plen, buf, cap) -> len             the [FileInfo] as JSON
//	statfs(path, plen, buf, cap) -> len           the [FilesystemInfo] as JSON; -ENOTSUP
//	read(path, plen, offset i64, buf, cap) -> n   of a regular file; 0 is the end
//	list(path, plen, buf, cap) -> len             the [FileList] of a folder as JSON
func Imports() []Func {
	return []Func{
		{ModuleCore, "request_read", i32s(2), i32s(1)},
		{ModuleCore, "config_get", i32s(4), i32s(1)},
		{ModuleCore, "result_write", i32s(2), i32s(1)},
		{ModuleCore, "message", i32s(2), nil},
		{ModuleCore, "metric", append(i32s(4), F64), i32s(1)},
		{ModuleCore, "log", i32s(3), nil},
		{ModuleCore, "log_enabled", i32s(1), i32s(1)},
		{ModuleCore, "deadline_ms", nil, []Type{I64}},
		{ModuleCore, "last_error", i32s(2), i32s(1)},

		{ModuleNet, "dial", i32s(3), i32s(1)},
		{ModuleNet, "read", i32s(4), i32s(1)},
		{ModuleNet, "write", i32s(4), i32s(1)},
		{ModuleNet, "close", i32s(1), i32s(1)},
		{ModuleNet, "starttls", i32s(3), i32s(1)},
		{ModuleNet, "info", i32s(3), i32s(1)},
		{ModuleNet, "poll", i32s(3), i32s(1)},

		{ModuleHTTP, "do", i32s(4), i32s(1)},
		{ModuleHTTP, "head", i32s(3), i32s(1)},
		{ModuleHTTP, "read", i32s(4), i32s(1)},
		{ModuleHTTP, "close", i32s(1), i32s(1)},

		{ModuleDNS, "lookup", i32s(3), i32s(1)},
		{ModuleDNS, "read", i32s(4), i32s(1)},

		{ModuleKV, "get", i32s(4), i32s(1)},
		{ModuleKV, "set", i32s(4), i32s(1)},
		{ModuleKV, "delete", i32s(2), i32s(1)},

		{ModuleICMP, "echo", i32s(3), i32s(1)},
		{ModuleICMP, "read", i32s(3), i32s(1)},

		{ModuleFiles, "stat", i32s(4), i32s(1)},
		{ModuleFiles, "statfs", i32s(4), i32s(1)},
		{ModuleFiles, "read", append(append(i32s(2), I64), i32s(2)...), i32s(1)},
		{ModuleFiles, "list", i32s(4), i32s(1)},
	}
}

func i32s(n int) []Type {
	types := make([]Type, n)
	for i := range types {
		types[i] = I32
	}
	return types
}

// ModuleWASI is the import module of WASI preview 1, which is not part of the contract.
const ModuleWASI = "wasi_snapshot_preview1"

// Signature is the type of a function.
type Signature struct{ Params, Results []Type }

// Guest has the imports and exports of a module.
type Guest struct {
	Imports []Func               // in the order of the module
	Exports map[string]Signature // exported functions
	Memory  bool                 // a memory is exported as [ExportMemory]
}

// Command reports whether the guest runs as a program. It does if asked is set, by its manifest, or if
// it has no other entry point.
func (g *Guest) Command(asked bool) bool {
	_, probes := g.Exports[ExportProbe]
	_, starts := g.Exports[ExportStart]
	return asked || starts && !probes
}

// Check returns the violations of the contract: unknown imports, missing exports and wrong
// signatures. command is the result of [Guest.Command].
func (g *Guest) Check(command bool) (errs []error) {
	known := Imports()
	for _, f := range g.Imports {
		if f.Module != ModuleWASI {
			errs = appendError(errs, checkImport(known, f))
		}
	}
	if !g.Memory {
		errs = append(errs, fmt.Errorf("the module exports no %q", ExportMemory))
	}
	if command {
		return appendError(errs, g.checkExport(ExportStart, nil, true))
	}
	verdict := []Type{I32}
	errs = appendError(errs, g.checkExport(ExportProbe, verdict, true))
	errs = appendError(errs, g.checkExport(ExportValidateConfig, verdict, false))
	return appendError(errs, g.checkExport(ExportInitialize, nil, false))
}

func appendError(errs []error, err error) []error {
	if err != nil {
		errs = append(errs, err)
	}
	return errs
}

func checkImport(known []Func, f Func) error {
	at := slices.IndexFunc(known, func(k Func) bool { return k.Module == f.Module && k.Name == f.Name })
	if at < 0 {
		return fmt.Errorf("unknown import %s: this prober does not have it", ImportName(f.Module, f.Name))
	}
	got, want := Signature{f.Params, f.Results}, Signature{known[at].Params, known[at].Results}
	return differ("import "+ImportName(f.Module, f.Name), got, want)
}

// ImportName returns MODULE.NAME for messages. It quotes and cuts names that are long or not printable.
func ImportName(module, name string) string {
	const most = 80 // bytes of a name
	whole := module + "." + name
	if len(module) <= most && len(name) <= most && strconv.Quote(whole) == `"`+whole+`"` {
		return whole
	}
	return fmt.Sprintf("%.*q.%.*q", most, module, most, name)
}

// checkExport checks an exported function. It must have no parameters and the given results.
func (g *Guest) checkExport(name string, results []Type, required bool) error {
	got, ok := g.Exports[name]
	switch {
	case ok:
		return differ(fmt.Sprintf("the export %q", name), got, Signature{Results: results})
	case required && name == ExportProbe:
		return fmt.Errorf("the module exports no function %q: export it, or build a program, which exports %q", name, ExportStart)
	case required:
		return fmt.Errorf("the module exports no function %q", name)
	default:
		return nil
	}
}

// differ returns an error if the signature of a function differs from the contract.
func differ(what string, got, want Signature) error {
	if slices.Equal(got.Params, want.Params) && slices.Equal(got.Results, want.Results) {
		return nil
	}
	return fmt.Errorf("%s has another signature than version %d of the contract: got %s, want %s", what, Version, got, want)
}

// String returns "(i32, i32) -> (i64)".
func (s Signature) String() string {
	return typeList(s.Params) + " -> " + typeList(s.Results)
}

func typeList(types []Type) string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = string(t)
	}
	return "(" + strings.Join(names, ", ") + ")"
}
