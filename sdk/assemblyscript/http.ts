// HTTP requests by the host. The manifest requests the capability "http".

import * as host from "./host";
import { lookup, lookupRaw, quote } from "./json";

/** Gets a URL. A URL without a host ("http:///healthz") is for the target. */
export function get(url: string): HttpResponse | null {
  return new HttpRequest(url).send();
}

/** A request. */
export class HttpRequest {
  method: string = "GET";
  body: string = "";
  /** The maximum number of redirects to follow, at most the limit of the manifest. */
  redirects: i32 = 0;
  /** The timeout; 0 means until the deadline. */
  timeoutMs: i32 = 0;
  /** TLS options as JSON, such as {"verify":"none"}. */
  tls: string = "{}";
  private headers: string = "";

  constructor(readonly url: string) {}

  header(name: string, value: string): this {
    this.headers += (this.headers == "" ? "" : ",") + quote(name) + ":" + quote(value);
    return this;
  }

  /** Makes the request, and returns after the response header was received; null if it
   * fails. */
  send(): HttpResponse | null {
    const req = new host.Bytes(
      '{"method":' + quote(this.method) + ',"url":' + quote(this.url) + ',"headers":{' + this.headers +
        '},"redirects":' + this.redirects.toString() + ',"timeoutMs":' + this.timeoutMs.toString() + ',"tls":' + this.tls + "}",
    );
    const body = new host.Bytes(this.body);
    const handle = host.httpDo(req.p, req.n, body.p, body.n);
    return handle < 0 ? null : new HttpResponse(handle);
  }
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

  /** Returns the value of a header, by its name in lower case. */
  header(name: string): string | null {
    const headers = lookupRaw(this.head, "headers");
    return headers === null ? null : lookup(headers, name);
  }

  /** Reads from the body; returns the number of bytes, 0 at the end, or a negative number. */
  read(into: ArrayBuffer): i32 {
    return host.httpRead(this.handle, changetype<usize>(into), into.byteLength, host.UNTIL_DEADLINE);
  }

  /** Returns the body as a string, cut to max bytes; null if reading fails. */
  text(max: i32 = 65536): string | null {
    const buf = new ArrayBuffer(max);
    let done = 0;
    while (done < max) {
      const n = host.httpRead(this.handle, changetype<usize>(buf) + done, max - done, host.UNTIL_DEADLINE);
      if (n < 0) return null;
      if (n == 0) break;
      done += n;
    }
    return String.UTF8.decodeUnsafe(changetype<usize>(buf), done);
  }

  close(): void {
    host.httpClose(this.handle);
  }
}
