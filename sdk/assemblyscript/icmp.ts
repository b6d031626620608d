// ICMP echo requests by the host: ping. The manifest requests the capability "icmp".

import * as host from "./host";
import { lookup, quote } from "./json";

/** An echo request. By default it addresses the target. */
export class EchoRequest {
  /** A name or an address, instead of the target. */
  host: string = "";
  /** "4", "6", "4,6" or "6,4"; "" is any address. */
  ipFamily: string = "";
  /** The source address, one of the host's addresses. */
  sourceAddress: string = "";
  /** The bytes after the ICMP header. */
  payload: i32 = 56;
  /** The TTL of IPv4; 0 means the system's default. */
  hopLimit: i32 = 0;
  /** Do not fragment the request. */
  dontFragment: bool = false;

  /** Sends the request, and waits for its reply; returns null if there is none. */
  send(timeoutMs: i32 = host.UNTIL_DEADLINE): EchoReply | null {
    let doc = '{"payload":' + this.payload.toString() + ',"hopLimit":' + this.hopLimit.toString();
    if (this.host != "") doc += ',"host":' + quote(this.host);
    if (this.ipFamily != "") doc += ',"ipFamily":' + quote(this.ipFamily);
    if (this.sourceAddress != "") doc += ',"sourceAddress":' + quote(this.sourceAddress);
    if (this.dontFragment) doc += ',"dontFragment":true';
    const req = new host.Bytes(doc + "}");
    const handle = host.icmpEcho(req.p, req.n, timeoutMs);
    if (handle < 0) return null;
    const b = new host.Buffer(512);
    let n = host.icmpRead(handle, b.p, b.cap);
    if (!b.fits(n)) n = host.icmpRead(handle, b.p, b.cap);
    return n < 0 ? null : new EchoReply(b.text(n));
  }
}

/** The reply to an echo request. */
export class EchoReply {
  readonly local: string;
  readonly remote: string;
  /** The bytes after the ICMP header. */
  readonly payload: i32;
  /** The remaining hop limit of the reply; 0 if it is unknown. */
  readonly hopLimit: i32;
  /** Seconds: of the name look-up, of opening a socket, and from the request to the reply. */
  readonly dns: f64;
  readonly setup: f64;
  readonly rtt: f64;

  constructor(readonly json: string) {
    this.local = field(json, "local");
    this.remote = field(json, "remote");
    this.payload = number(json, "payload");
    this.hopLimit = number(json, "hopLimit");
    this.dns = F64.parseFloat(field(json, "timings.dns"));
    this.setup = F64.parseFloat(field(json, "timings.setup"));
    this.rtt = F64.parseFloat(field(json, "timings.rtt"));
  }
}

function number(doc: string, path: string): i32 {
  const value = field(doc, path);
  return value == "" ? 0 : I32.parseInt(value);
}

function field(doc: string, path: string): string {
  const value = lookup(doc, path);
  return value === null ? "" : value;
}
