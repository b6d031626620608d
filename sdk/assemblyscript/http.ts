// HTTP requests by the host. The manifest requests the capability "http".

import * as host from "./host";
import { items, lookup, lookupRaw, quote } from "./json";

/** Gets a URL. A URL without a host ("http:///healthz") is for the target. */
export function get(url: string): HttpResponse | null {
  return new HttpRequest(url).send();
}

/** A request. */
export class HttpRequest {
  method: string = "GET";
  body: string = "";
  /** The body as bytes, instead of body. */
  bodyBytes: ArrayBuffer | null = null;
  /** The maximum number of redirects to follow, at most the limit of the manifest. */
  redirects: i32 = 0;
  /** The timeout; 0 means until the deadline. */
  timeoutMs: i32 = 0;
  /** TLS options as JSON: {"verify":"none"}, or the json of TlsOptions. */
  tls: string = "{}";
  /** Offer HTTP/2 over TLS. */
  http2: bool = false;
  /** The encoding of the body that the host decodes: "gzip", "deflate" or "". Send Accept-Encoding too. */
  decompress: string = "";
  /** "4", "6", "4,6" or "6,4"; "" is any address. */
  ipFamily: string = "";
  /** The source address, one of the host's addresses. */
  sourceAddress: string = "";
  /** "http://HOST:PORT", perhaps with a user and password. It must be granted too. */
  proxy: string = "";
  private headers: string = "";
  private proxyHeaders: string = "";

  constructor(readonly url: string) {}

  header(name: string, value: string): this {
    this.headers += (this.headers == "" ? "" : ",") + quote(name) + ":" + quote(value);
    return this;
  }

  /** Adds a header of the CONNECT request to the proxy. */
  proxyHeader(name: string, value: string): this {
    this.proxyHeaders += (this.proxyHeaders == "" ? "" : ",") + quote(name) + ":" + quote(value);
    return this;
  }

  /** Makes the request, and returns after the response header was received; null if it
   * fails. */
  send(): HttpResponse | null {
    const req = new host.Bytes(this.json);
    const bytes = this.bodyBytes;
    const body = bytes === null ? String.UTF8.encode(this.body) : bytes;
    const handle = host.httpDo(req.p, req.n, changetype<usize>(body), body.byteLength);
    return handle < 0 ? null : new HttpResponse(handle);
  }

  /** The request as the host reads it. */
  get json(): string {
    return '{"method":' + quote(this.method) + ',"url":' + quote(this.url) + ',"headers":{' + this.headers +
      '},"redirects":' + this.redirects.toString() + ',"timeoutMs":' + this.timeoutMs.toString() + ',"tls":' + this.tls +
      ',"http2":' + this.http2.toString() + field("decompress", this.decompress) + field("ipFamily", this.ipFamily) +
      field("sourceAddress", this.sourceAddress) + field("proxy", this.proxy) + ',"proxyHeaders":{' + this.proxyHeaders + "}}";
  }
}

/** Returns a field after another one, "" if it has no value. */
function field(name: string, value: string): string {
  return value == "" ? "" : "," + quote(name) + ":" + quote(value);
}

/** A response. */
export class HttpResponse {
  /** The head as JSON: status, headers, timings, certificates. */
  readonly head: string;

  constructor(private handle: i32) {
    const b = new host.Buffer(1024);
    let n = host.httpHead(handle, b.p, b.cap);
    if (!b.fits(n)) n = host.httpHead(handle, b.p, b.cap);
    this.head = n < 0 ? "{}" : b.text(n);
  }

  get status(): i32 {
    const text = lookup(this.head, "status");
    return text === null ? 0 : I32.parseInt(text);
  }

  /** Returns the value of a header, by its name in lower case. Several lines are joined by ", ". */
  header(name: string): string | null {
    const headers = lookupRaw(this.head, "headers");
    return headers === null ? null : lookup(headers, name);
  }

  /** Returns the lines of a header, by its name in lower case, such as of "set-cookie". */
  headers(name: string): string[] {
    const lines: string[] = [];
    const repeated = items(this.head, "repeated");
    for (let i = 0; i < repeated.length; i++) {
      const value = lookup(repeated[i], "value");
      if (lookup(repeated[i], "name") == name) lines.push(value === null ? "" : value);
    }
    const single = this.header(name);
    if (lines.length == 0 && single !== null) lines.push(single);
    return lines;
  }

  /** Reads from the body; returns the number of bytes, 0 at the end, or a negative number. */
  read(into: ArrayBuffer): i32 {
    return host.httpRead(this.handle, changetype<usize>(into), into.byteLength, host.UNTIL_DEADLINE);
  }

  /** Returns the body as a string, cut to max bytes; null if reading fails. */
  text(max: i32 = 65536): string | null {
    const body = this.bytes(max);
    return body === null ? null : String.UTF8.decode(body);
  }

  /** Returns the body, cut to max bytes; null if reading fails. */
  bytes(max: i32 = 65536): ArrayBuffer | null {
    const buf = new ArrayBuffer(max);
    let done = 0;
    while (done < max) {
      const n = host.httpRead(this.handle, changetype<usize>(buf) + done, max - done, host.UNTIL_DEADLINE);
      if (n < 0) return null;
      if (n == 0) break;
      done += n;
    }
    return buf.slice(0, done);
  }

  close(): void {
    host.httpClose(this.handle);
  }
}
