package abi

// Imports returns every function of version 1, by module and in the order of the
// specification. All numbers are i32 unless the signature says otherwise. A negative
// result is the negative of an [Errno], whose text last_error has. "-> len" fills the
// caller's buffer (buf, cap) and answers the length; where the length is above cap
// nothing was written, and the guest calls again with a larger buffer. A time-out in
// milliseconds is [NonBlocking], [UntilDeadline] or a number above 0.
//
// prober_v1, which every guest has:
//
//	request_read(buf, cap) -> len                 the [Request]
//	config_get(key, klen, buf, cap) -> len        a scalar as text, anything else as JSON; -ENOENT
//	result_write(ptr, len) -> 0                   a [Result]
//	message(ptr, len)                             one line for people
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
//	poll(handles, n, timeout) -> index            of the first that has something to read; -EAGAIN
//
// prober_v1_http, the capability "http":
//
//	do(req, len, body, blen) -> handle            an [HTTPRequest] as JSON; returns with the head there
//	head(handle, buf, cap) -> len                 the [HTTPHead] as JSON
//	read(handle, buf, cap, timeout) -> n          the body; 0 is the end; -EAGAIN
//	close(handle) -> 0
//
// prober_v1_dns, the capability "dns":
//
//	lookup(req, len, timeout) -> handle           a [DNSRequest] as JSON; returns at once
//	read(handle, buf, cap, timeout) -> len        the [DNSAnswer] as JSON; -EAGAIN; frees the handle when it fits
//
// prober_v1_kv, the capability "kv", what a probe keeps from attempt to attempt:
//
//	get(key, klen, buf, cap) -> len               -ENOENT
//	set(key, klen, ptr, len) -> 0                 -EDQUOT above [MaxKV] bytes of keys and values, or [MaxKVKeys] keys
//	delete(key, klen) -> 0                        a key that is not there is none the less gone
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
	}
}

func i32s(n int) []Type {
	types := make([]Type, n)
	for i := range types {
		types[i] = I32
	}
	return types
}
