// Connections that the host dials, if the grants of the operator allow it. The manifest
// requests the capability "net".

import * as host from "./host";
import { quote } from "./json";

/** Options of TLS: of Conn.startTLS, of DialOptions and of an HttpRequest, which take their json. */
export class TlsOptions {
  /** Sent, and checked in the certificate; by default the dialed host. */
  serverName: string = "";
  /** The protocols to offer; must be empty in an HttpRequest. */
  alpn: string[] = [];
  /** Accept any certificate. */
  insecure: bool = false;
  /** Root certificates in PEM, instead of the system's. */
  ca: string = "";
  /** The name of credentials in prober.yaml, such as a client certificate, which the operator must allow. */
  credentials: string = "";
  /** "TLS10", "TLS11", "TLS12" or "TLS13". */
  minVersion: string = "";
  maxVersion: string = "";

  /** The options as JSON. */
  get json(): string {
    const set: string[] = [];
    const names = ["serverName", "ca", "credentials", "minVersion", "maxVersion"];
    const values = [this.serverName, this.ca, this.credentials, this.minVersion, this.maxVersion];
    for (let i = 0; i < names.length; i++) {
      if (values[i] != "") set.push(quote(names[i]) + ":" + quote(values[i]));
    }
    if (this.insecure) set.push('"verify":"none"');
    const protocols: string[] = [];
    for (let i = 0; i < this.alpn.length; i++) protocols.push(quote(this.alpn[i]));
    if (protocols.length > 0) set.push('"alpn":[' + protocols.join(",") + "]");
    return "{" + set.join(",") + "}";
  }
}

/** Options of a dial. */
export class DialOptions {
  /** "4", "6", "4,6" or "6,4"; "" is any address. */
  ipFamily: string = "";
  /** The source address, one of the host's addresses. */
  sourceAddress: string = "";
  /** For "tls://". Its ca is not used: call startTLS for that. */
  tls: TlsOptions = new TlsOptions();

  /** Returns a URL with the options in its query. */
  addTo(url: string): string {
    const t = this.tls;
    const names = ["ipFamily", "sourceAddress", "serverName", "verify", "credentials", "minVersion", "maxVersion"];
    const values = [this.ipFamily, this.sourceAddress, t.serverName, t.insecure ? "none" : "", t.credentials, t.minVersion, t.maxVersion];
    for (let i = 0; i < t.alpn.length; i++) {
      names.push("alpn");
      values.push(t.alpn[i]);
    }
    let query = "";
    for (let i = 0; i < names.length; i++) {
      if (values[i] != "") query += (query == "" && !url.includes("?") ? "?" : "&") + names[i] + "=" + encodeURIComponent(values[i]);
    }
    return url + query;
  }
}

/** Connects to a URL as dialURL does, with options. The target is "tcp://" or "tls://". */
export function dialWith(url: string, options: DialOptions, timeoutMs: i32 = host.UNTIL_DEADLINE): Conn | null {
  return dialURL(options.addTo(url), timeoutMs);
}

/** Connects to the target; returns null if that fails. */
export function dial(): Conn | null {
  return dialURL("", host.UNTIL_DEADLINE);
}

/** Connects to "tcp://host:port", "udp://…", "tls://…" or "unix:///path". */
export function dialURL(url: string, timeoutMs: i32 = host.UNTIL_DEADLINE): Conn | null {
  const b = new host.Bytes(url);
  const handle = host.netDial(b.p, b.n, timeoutMs);
  return handle < 0 ? null : new Conn(handle);
}

/** Waits until one of the connections has data to read, and returns its index. */
export function poll(conns: Conn[], timeoutMs: i32 = host.UNTIL_DEADLINE): i32 {
  const handles = new StaticArray<i32>(conns.length);
  for (let i = 0; i < conns.length; i++) handles[i] = conns[i].handle;
  return host.netPoll(changetype<usize>(handles), conns.length, timeoutMs);
}

/** The maximum length of a line for readLine. */
export const MAX_LINE = 8192;

/** A connection. The host closes it when the probe returns. */
export class Conn {
  private rest: string = ""; // read ahead, from index at
  private at: i32 = 0;
  private buf: ArrayBuffer | null = null; // reused for all lines, because nothing is freed

  constructor(readonly handle: i32) {}

  /** Reads into a buffer; returns the number of bytes, 0 at the end, or a negative number. */
  read(into: ArrayBuffer, timeoutMs: i32 = host.UNTIL_DEADLINE): i32 {
    return host.netRead(this.handle, changetype<usize>(into), into.byteLength, timeoutMs);
  }

  /** Writes all bytes; returns 0 or a negative number. */
  write(data: ArrayBuffer, timeoutMs: i32 = host.UNTIL_DEADLINE): i32 {
    for (let done = 0; done < data.byteLength; ) {
      const n = host.netWrite(this.handle, changetype<usize>(data) + done, data.byteLength - done, timeoutMs);
      if (n < 0) return n;
      done += n;
    }
    return 0;
  }

  /** Writes a string; returns 0 or a negative number. */
  writeText(text: string): i32 {
    return this.write(String.UTF8.encode(text));
  }

  /** Reads a line that ends in LF or CRLF, and returns it without its end. Returns null if the
   * connection ends or fails first, or the line has more than MAX_LINE characters. Do not mix
   * it with read. */
  readLine(): string | null {
    let end = this.rest.indexOf("\n", this.at);
    while (end < 0) {
      this.overlong = this.rest.length - this.at > MAX_LINE;
      if (this.overlong || !this.readAhead()) return null;
      end = this.rest.indexOf("\n", this.at);
    }
    const from = this.at;
    this.at = end + 1;
    return this.rest.substring(from, end > from && this.rest.charCodeAt(end - 1) == 0x0d ? end - 1 : end);
  }

  /** Reads more of a line; returns false at the end and on errors. It joins small reads before it
   * decodes them, because the text of each call is not freed. */
  private readAhead(): bool {
    let buf = this.buf;
    if (buf === null) {
      buf = new ArrayBuffer(1024);
      this.buf = buf;
    }
    const p = changetype<usize>(buf);
    const most = MAX_LINE + 1 - (this.rest.length - this.at);
    let done = 0;
    for (let line = false; !line && done < buf.byteLength && done < most; ) {
      const n = host.netRead(this.handle, p + done, buf.byteLength - done, host.UNTIL_DEADLINE);
      this.ended = n == 0 && done == 0;
      if (n <= 0) break;
      for (let i = done; i < done + n; i++) line = line || load<u8>(p + i) == 0x0a;
      done += n;
    }
    if (done == 0) return false;
    this.rest = this.ahead + String.UTF8.decodeUnsafe(p, done);
    this.at = 0;
    return true;
  }

  /** Reports whether the last readLine reached the end of the connection. */
  ended: bool = false;

  /** Reports whether the line of the last readLine was too long. */
  overlong: bool = false;

  /** The text that readLine has read and not returned yet. */
  get ahead(): string {
    return this.rest.substring(this.at);
  }

  /** Starts TLS, by the host. options are the json of TlsOptions, JSON such as
   * {"serverName":"db","verify":"none"}, or "". Returns false if that fails. */
  startTLS(options: string = ""): bool {
    const b = new host.Bytes(options);
    return host.netStarttls(this.handle, b.p, b.n) >= 0;
  }

  /** Returns a description of the connection as JSON: addresses, timings, certificates. */
  info(): string {
    const b = new host.Buffer(1024);
    let n = host.netInfo(this.handle, b.p, b.cap);
    if (!b.fits(n)) n = host.netInfo(this.handle, b.p, b.cap);
    return n < 0 ? "{}" : b.text(n);
  }

  close(): void {
    host.netClose(this.handle);
  }
}
