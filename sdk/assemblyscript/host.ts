// The functions of the host, with their strings and buffers.

// @ts-ignore: decorator
@external("prober_v1", "request_read")
export declare function requestRead(buf: usize, cap: i32): i32;
// @ts-ignore: decorator
@external("prober_v1", "config_get")
export declare function configGet(key: usize, len: i32, buf: usize, cap: i32): i32;
// @ts-ignore: decorator
@external("prober_v1", "result_write")
export declare function resultWrite(doc: usize, len: i32): i32;
// @ts-ignore: decorator
@external("prober_v1", "message")
export declare function message(text: usize, len: i32): void;
// @ts-ignore: decorator
@external("prober_v1", "metric")
export declare function metric(name: usize, len: i32, unit: usize, unitLen: i32, value: f64): i32;
// @ts-ignore: decorator
@external("prober_v1", "log")
export declare function log(level: i32, text: usize, len: i32): void;
// @ts-ignore: decorator
@external("prober_v1", "log_enabled")
export declare function logEnabled(level: i32): i32;
// @ts-ignore: decorator
@external("prober_v1", "deadline_ms")
export declare function deadlineMs(): i64;
// @ts-ignore: decorator
@external("prober_v1", "last_error")
export declare function lastError(buf: usize, cap: i32): i32;

// @ts-ignore: decorator
@external("prober_v1_net", "dial")
export declare function netDial(url: usize, len: i32, timeoutMs: i32): i32;
// @ts-ignore: decorator
@external("prober_v1_net", "read")
export declare function netRead(handle: i32, buf: usize, cap: i32, timeoutMs: i32): i32;
// @ts-ignore: decorator
@external("prober_v1_net", "write")
export declare function netWrite(handle: i32, data: usize, len: i32, timeoutMs: i32): i32;
// @ts-ignore: decorator
@external("prober_v1_net", "close")
export declare function netClose(handle: i32): i32;
// @ts-ignore: decorator
@external("prober_v1_net", "starttls")
export declare function netStarttls(handle: i32, options: usize, len: i32): i32;
// @ts-ignore: decorator
@external("prober_v1_net", "info")
export declare function netInfo(handle: i32, buf: usize, cap: i32): i32;
// @ts-ignore: decorator
@external("prober_v1_net", "poll")
export declare function netPoll(handles: usize, len: i32, timeoutMs: i32): i32;

// @ts-ignore: decorator
@external("prober_v1_http", "do")
export declare function httpDo(req: usize, len: i32, body: usize, bodyLen: i32): i32;
// @ts-ignore: decorator
@external("prober_v1_http", "head")
export declare function httpHead(handle: i32, buf: usize, cap: i32): i32;
// @ts-ignore: decorator
@external("prober_v1_http", "read")
export declare function httpRead(handle: i32, buf: usize, cap: i32, timeoutMs: i32): i32;
// @ts-ignore: decorator
@external("prober_v1_http", "close")
export declare function httpClose(handle: i32): i32;

// @ts-ignore: decorator
@external("prober_v1_dns", "lookup")
export declare function dnsLookup(req: usize, len: i32, timeoutMs: i32): i32;
// @ts-ignore: decorator
@external("prober_v1_dns", "read")
export declare function dnsRead(handle: i32, buf: usize, cap: i32, timeoutMs: i32): i32;

// @ts-ignore: decorator
@external("prober_v1_kv", "get")
export declare function kvGet(key: usize, len: i32, buf: usize, cap: i32): i32;
// @ts-ignore: decorator
@external("prober_v1_kv", "set")
export declare function kvSet(key: usize, len: i32, value: usize, valueLen: i32): i32;
// @ts-ignore: decorator
@external("prober_v1_kv", "delete")
export declare function kvDelete(key: usize, len: i32): i32;

// @ts-ignore: decorator
@external("prober_v1_icmp", "echo")
export declare function icmpEcho(req: usize, len: i32, timeoutMs: i32): i32;
// @ts-ignore: decorator
@external("prober_v1_icmp", "read")
export declare function icmpRead(handle: i32, buf: usize, cap: i32): i32;

// @ts-ignore: decorator
@external("prober_v1_files", "stat")
export declare function filesStat(path: usize, len: i32, buf: usize, cap: i32): i32;
// @ts-ignore: decorator
@external("prober_v1_files", "statfs")
export declare function filesStatfs(path: usize, len: i32, buf: usize, cap: i32): i32;
// @ts-ignore: decorator
@external("prober_v1_files", "read")
export declare function filesRead(path: usize, len: i32, offset: i64, buf: usize, cap: i32): i32;
// @ts-ignore: decorator
@external("prober_v1_files", "list")
export declare function filesList(path: usize, len: i32, buf: usize, cap: i32): i32;

// @ts-ignore: decorator
@external("wasi_snapshot_preview1", "clock_time_get")
export declare function clockTimeGet(clock: i32, precision: i64, to: usize): i32;
// @ts-ignore: decorator
@external("wasi_snapshot_preview1", "random_get")
export declare function randomGet(buf: usize, len: i32): i32;

/** The error numbers of WASI preview 1. Host calls return their negatives. */
export enum Errno {
  EACCES = 2,
  EAGAIN = 6,
  EBADF = 8,
  ECONNREFUSED = 14,
  ECONNRESET = 15,
  EDQUOT = 19,
  EFAULT = 21,
  EHOSTUNREACH = 23,
  EINVAL = 28,
  EIO = 29,
  EMFILE = 33,
  EMSGSIZE = 35,
  ENETUNREACH = 40,
  ENOENT = 44,
  ENOTSUP = 58,
  EPERM = 63,
  EPIPE = 64,
  EPROTO = 65,
  ETIMEDOUT = 73,
}

/** Waits until the deadline. */
export const UNTIL_DEADLINE: i32 = -1;

/** A string for the host: p and n. */
export class Bytes {
  private data: ArrayBuffer;

  constructor(text: string) {
    this.data = String.UTF8.encode(text);
  }

  get p(): usize {
    return changetype<usize>(this.data);
  }

  get n(): i32 {
    return this.data.byteLength;
  }
}

/** A buffer for results of the host. A call that needs a larger one is repeated. */
export class Buffer {
  private data: ArrayBuffer;

  constructor(size: i32) {
    this.data = new ArrayBuffer(size);
  }

  get p(): usize {
    return changetype<usize>(this.data);
  }

  get cap(): i32 {
    return this.data.byteLength;
  }

  /** Reports whether n bytes fit; if not, it enlarges the buffer. */
  fits(n: i32): bool {
    if (n <= this.data.byteLength) return true;
    this.data = new ArrayBuffer(n);
    return false;
  }

  text(n: i32): string {
    return String.UTF8.decodeUnsafe(this.p, n);
  }

  bytes(n: i32): ArrayBuffer {
    return this.data.slice(0, n);
  }
}
