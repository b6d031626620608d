// The SDK for plugins in AssemblyScript.
//
//   import { dial, failure, lastError, Result, success } from "prober";
//
//   export function probe(): Result {
//     const conn = dial();
//     if (conn === null) return failure(lastError());
//     return success("connected");
//   }
//
// Nothing here throws: AssemblyScript cannot catch. A host call that fails returns null or a
// negative number, and lastError returns the message.

import * as host from "./host";
import { items, lookup, quote } from "./json";

export { Errno } from "./host";
export { Conn, dial, DialOptions, dialURL, dialWith, poll, TlsOptions } from "./net";
export { get, HttpRequest, HttpResponse } from "./http";
export { DnsAnswer, DnsRecord, resolve } from "./dns";
export { EchoReply, EchoRequest } from "./icmp";
export { fileList, fileRead, fileStat, fileStatfs, fileText } from "./files";
export { kvDelete, kvGet, kvGetBytes, kvSet, kvSetBytes } from "./kv";
export { items, lookup, lookupRaw, quote } from "./json";
export { basicTime, parseTime, rfc3339 } from "./time";

/** The result of a probe. Functions such as success return it. */
export enum Result {
  /** There is no verdict; the host retries. */
  Error = -1,
  Success = 0,
  /** Healthy, with a warning. */
  Warning = 1,
  Failure = 2,
  /** Unknown. It counts as a Failure and is not retried. */
  Unknown = 3,
}

function say(result: Result, text: string): Result {
  const b = new host.Bytes(text);
  host.message(b.p, b.n);
  return result;
}

export function success(text: string): Result {
  return say(Result.Success, text);
}

export function warning(text: string): Result {
  return say(Result.Warning, text);
}

export function failure(text: string): Result {
  return say(Result.Failure, text);
}

export function unknown(text: string): Result {
  return say(Result.Unknown, text);
}

/** There is no verdict: the plugin failed, and the host retries. */
export function error(text: string): Result {
  return say(Result.Error, text);
}

/** Adds a metric. The unit may be "". Returns false if the name is invalid or there are too many metrics. */
export function metric(name: string, unit: string, value: f64): bool {
  const n = new host.Bytes(name);
  const u = new host.Bytes(unit);
  return host.metric(n.p, n.n, u.p, u.n, value) >= 0;
}

/** A result with more than a message: labels of metrics, details and a reason. send returns it. */
export class Outcome {
  /** An object for programs, as JSON, or "". */
  details: string = "";
  /** The reason of a failure, such as "http_status", or "". docs/abi.md has the list. */
  reason: string = "";
  private metrics: string = "";

  constructor(readonly result: Result, readonly message: string) {}

  /** Adds a metric with a label; without one, label is "". A value that is not finite is left out. */
  metric(name: string, unit: string, value: f64, label: string = "", text: string = ""): this {
    if (!isFinite(value)) return this;
    const labels = label == "" ? "" : ',"labels":{' + quote(label) + ":" + quote(text) + "}";
    this.metrics += (this.metrics == "" ? "" : ",") + '{"name":' + quote(name) + ',"unit":' + quote(unit) +
      ',"value":' + value.toString() + labels + "}";
    return this;
  }

  /** The result as the host reads it. */
  get json(): string {
    let doc = '{"message":' + quote(this.message) + ',"metrics":[' + this.metrics + "]";
    if (this.details != "") doc += ',"details":' + this.details;
    if (this.reason != "") doc += ',"reason":' + quote(this.reason);
    return doc + "}";
  }

  /** Passes the result to the host, and returns it, or Error if the host refuses it. */
  send(): Result {
    return resultJSON(this.json) ? this.result : error(lastError());
  }
}

/** Sets the message of an attempt that reaches its deadline, such as what the probe waits for. A result replaces it. */
export function progress(text: string): void {
  const b = new host.Bytes(text);
  host.message(b.p, b.n);
}

/** Sets the whole result as JSON, with labels of metrics and details. */
export function resultJSON(doc: string): bool {
  const b = new host.Bytes(doc);
  return host.resultWrite(b.p, b.n) >= 0;
}

export enum Level {
  Debug,
  Info,
  Warn,
  Error,
}

/** Writes a line to the log of the host. */
export function log(level: Level, text: string): void {
  if (host.logEnabled(level) == 0) return;
  const b = new host.Bytes(text);
  host.log(level, b.p, b.n);
}

/** Returns the remaining milliseconds, i64.MAX_VALUE without a deadline. */
export function deadline(): i64 {
  return host.deadlineMs();
}

/** Returns the seconds since 1970. The host does not have Date.now. */
export function now(): f64 {
  return clock(0);
}

/** Returns the seconds of a monotonic clock. Use it to measure durations. */
export function ticks(): f64 {
  return clock(1);
}

function clock(id: i32): f64 {
  const ns = new ArrayBuffer(8);
  host.clockTimeGet(id, 1, changetype<usize>(ns));
  return <f64>load<i64>(changetype<usize>(ns)) / 1e9;
}

/** Returns n random bytes. The host does not have Math.random. */
export function random(n: i32): ArrayBuffer {
  const bytes = new ArrayBuffer(n);
  host.randomGet(changetype<usize>(bytes), n);
  return bytes;
}

/** Returns the message of the last host call that failed. */
export function lastError(): string {
  const b = new host.Buffer(512);
  const n = host.lastError(b.p, b.cap);
  return n > 0 && n <= b.cap ? b.text(n) : "host call failed";
}

/** The request of one attempt. */
export class Request {
  /** The request as JSON. */
  readonly json: string;

  constructor() {
    const b = new host.Buffer(2048);
    let n = host.requestRead(b.p, b.cap);
    if (!b.fits(n)) n = host.requestRead(b.p, b.cap);
    this.json = n < 0 ? "{}" : b.text(n);
  }

  /** Returns the value at a dotted path such as "pod.labels.app", or "". */
  text(path: string): string {
    const value = lookup(this.json, path);
    return value === null ? "" : value;
  }

  private number(path: string): i64 {
    const value = this.text(path);
    return value == "" ? 0 : I64.parseInt(value);
  }

  /** "liveness", "readiness" or "startup". */
  get kind(): string {
    return this.text("probe.kind");
  }

  get attempt(): i32 {
    return <i32>this.number("probe.attempt");
  }

  get timeoutMs(): i64 {
    return this.number("probe.timeoutMs");
  }

  get periodMs(): i64 {
    return this.number("probe.periodMs");
  }

  /** The path of the target's unix socket, "" if there is none. */
  get unix(): string {
    return this.text("target.unix");
  }

  /** Reports whether the plugin has a capability, such as "kv". Ask it before using one that is optional in the
   * manifest. */
  has(feature: string): bool {
    const features = items(this.json, "host.features");
    return features.includes(quote(feature));
  }

  /** The host of the target, a name or an address. */
  get host(): string {
    return this.text("target.host");
  }

  get port(): i32 {
    return <i32>this.number("target.port");
  }
}

/** Returns the value of the config at a dotted path: a string without its quotes, anything
 * else as JSON, or null. The host has validated the config with the schema of the manifest. */
export function configText(path: string): string | null {
  const key = new host.Bytes(path);
  const b = new host.Buffer(128);
  let n = host.configGet(key.p, key.n, b.p, b.cap);
  if (!b.fits(n)) n = host.configGet(key.p, key.n, b.p, b.cap);
  return n < 0 ? null : b.text(n);
}

/** Returns the string at path. */
export function configString(path: string, fallback: string): string {
  const text = configText(path);
  return text === null ? fallback : text;
}

/** Returns the number at path; NaN if the value is not a number. */
export function configNumber(path: string, fallback: f64): f64 {
  const text = configText(path);
  return text === null ? fallback : F64.parseFloat(text);
}

/** Returns the bool at path. */
export function configBool(path: string, fallback: bool): bool {
  const text = configText(path);
  return text === null ? fallback : text == "true";
}

/** Returns the list of strings at path; empty without one. */
export function configStrings(path: string): string[] {
  const list: string[] = [];
  const text = configText(path);
  if (text === null) return list;
  const values = items('{"x":' + text + "}", "x");
  for (let i = 0; i < values.length; i++) {
    const value = lookup('{"x":' + values[i] + "}", "x");
    list.push(value === null ? "" : value);
  }
  return list;
}

/** Returns the milliseconds of the duration at path, a string such as "1m30s"; NaN for another
 * string. */
export function configMillis(path: string, fallback: f64): f64 {
  const text = configText(path);
  return text === null ? fallback : parseMillis(text);
}

function parseMillis(text: string): f64 {
  let sum: f64 = 0;
  let from = 0;
  for (let i = 0; i < text.length; ) {
    while (i < text.length && !isLetter(text.charCodeAt(i))) i++;
    const number = text.substring(from, i);
    from = i;
    while (i < text.length && isLetter(text.charCodeAt(i))) i++;
    sum += F64.parseFloat(number) * unitMillis(text.substring(from, i));
    from = i;
  }
  return text.length == 0 ? NaN : sum;
}

function isLetter(c: i32): bool {
  return c >= 0x61 && c <= 0x7a;
}

function unitMillis(unit: string): f64 {
  if (unit == "us") return 1e-3;
  if (unit == "ms") return 1;
  if (unit == "s") return 1e3;
  if (unit == "m") return 60e3;
  return unit == "h" ? 3600e3 : NaN;
}

/** Logs the location of a failed assertion, an index out of range and other errors. Compile with
 * --use abort=…/index/abort. */
export function abort(text: string | null, file: string | null, line: u32, column: u32): void {
  const where = (file === null ? "?" : file) + ":" + line.toString() + ":" + column.toString();
  const said = String.UTF8.encode((text === null ? "abort" : text) + " at " + where);
  host.log(Level.Error, changetype<usize>(said), said.byteLength);
  unreachable();
}
