// What the author of a plugin in AssemblyScript imports.
//
//   import { dial, failure, lastError, Result, success } from "prober";
//
//   export function probe(): Result {
//     const conn = dial();
//     if (conn === null) return failure(lastError());
//     return success("connected");
//   }
//
// Nothing here throws: AssemblyScript cannot catch. What a host call could not do is a
// null or a negative number, and lastError has the words.

import * as host from "./host";
import { lookup } from "./json";

export { Errno } from "./host";
export { Conn, dial, dialURL, poll } from "./net";
export { get, HttpRequest, HttpResponse } from "./http";
export { DnsAnswer, DnsRecord, resolve } from "./dns";
export { kvDelete, kvGet, kvSet } from "./kv";
export { items, lookup, lookupRaw, quote } from "./json";

/** What a probe returns. Make one with success and the like. */
export enum Result {
  /** No verdict could be reached; it is tried again. */
  Error = -1,
  Success = 0,
  /** Well, with something to tell. */
  Warning = 1,
  Failure = 2,
  /** Nothing can be said. It counts as a Failure, and is not tried again. */
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

/** No verdict: the probe itself is at fault, and is tried again. */
export function error(text: string): Result {
  return say(Result.Error, text);
}

/** Measures something. The unit may be "". False for a bad name, or one too many. */
export function metric(name: string, unit: string, value: f64): bool {
  const n = new host.Bytes(name);
  const u = new host.Bytes(unit);
  return host.metric(n.p, n.n, u.p, u.n, value) >= 0;
}

/** Gives the whole result as JSON: labels of metrics, and details. */
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

/** Hands a line to the host's log. */
export function log(level: Level, text: string): void {
  if (host.logEnabled(level) == 0) return;
  const b = new host.Bytes(text);
  host.log(level, b.p, b.n);
}

/** The milliseconds that are left; i64.MAX_VALUE when there is no end. */
export function deadline(): i64 {
  return host.deadlineMs();
}

/** The seconds since 1970. Date.now is no function of this host's. */
export function now(): f64 {
  const ns = new ArrayBuffer(8);
  host.clockTimeGet(0, 1, changetype<usize>(ns));
  return <f64>load<i64>(changetype<usize>(ns)) / 1e9;
}

/** What went wrong in the last host call that failed. */
export function lastError(): string {
  const b = new host.Buffer(512);
  const n = host.lastError(b.p, b.cap);
  return n > 0 && n <= b.cap ? b.text(n) : "host call failed";
}

/** One attempt's question. */
export class Request {
  /** The request as JSON. */
  readonly json: string;

  constructor() {
    const b = new host.Buffer(2048);
    let n = host.requestRead(b.p, b.cap);
    if (!b.fits(n)) n = host.requestRead(b.p, b.cap);
    this.json = n < 0 ? "{}" : b.text(n);
  }

  /** The value at a dotted path such as "pod.labels.app"; "" where there is none. */
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

  /** The host of the target, a name or an address. */
  get host(): string {
    return this.text("target.host");
  }

  get port(): i32 {
    return <i32>this.number("target.port");
  }
}

/** The value of the config at a dotted path: a text without its quotes, anything else as
 * JSON; null where there is none. The host has held it against the manifest's schema. */
export function configText(path: string): string | null {
  const key = new host.Bytes(path);
  const b = new host.Buffer(128);
  let n = host.configGet(key.p, key.n, b.p, b.cap);
  if (!b.fits(n)) n = host.configGet(key.p, key.n, b.p, b.cap);
  return n < 0 ? null : b.text(n);
}

/** The text at path. */
export function configString(path: string, fallback: string): string {
  const text = configText(path);
  return text === null ? fallback : text;
}

/** The number at path; not a number where something else is there. */
export function configNumber(path: string, fallback: f64): f64 {
  const text = configText(path);
  return text === null ? fallback : F64.parseFloat(text);
}

/** The truth value at path. */
export function configBool(path: string, fallback: bool): bool {
  const text = configText(path);
  return text === null ? fallback : text == "true";
}

/** The milliseconds of the duration at path, written as "1m30s"; not a number for a text
 * that is none. */
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

/** What a failed assertion, an index out of range and the like end in: compile with
 * --use abort=…/index/abort, and the log says where. */
export function abort(text: string | null, file: string | null, line: u32, column: u32): void {
  const where = (file === null ? "?" : file) + ":" + line.toString() + ":" + column.toString();
  const said = String.UTF8.encode((text === null ? "abort" : text) + " at " + where);
  host.log(Level.Error, changetype<usize>(said), said.byteLength);
  unreachable();
}
