// DNS lookups by the host. The manifest requests the capability "dns".

import * as host from "./host";
import { items, lookup, quote } from "./json";

/** One record; data is as in a zone file. */
export class DnsRecord {
  constructor(readonly name: string, readonly type: string, readonly ttl: i32, readonly data: string) {}
}

/** The answer to a lookup. */
export class DnsAnswer {
  /** "NOERROR", "NXDOMAIN", "SERVFAIL", …. */
  readonly rcode: string;
  /** The address that answered. */
  readonly server: string;
  /** How long the lookup took. */
  readonly seconds: f64;
  readonly records: DnsRecord[] = [];

  constructor(readonly json: string) {
    this.rcode = field(json, "rcode");
    this.server = field(json, "server");
    this.seconds = F64.parseFloat(field(json, "seconds"));
    const answers = items(json, "answers");
    for (let i = 0; i < answers.length; i++) {
      const r = answers[i];
      const ttl = field(r, "ttl");
      this.records.push(new DnsRecord(field(r, "name"), field(r, "type"), ttl == "" ? 0 : I32.parseInt(ttl), field(r, "data")));
    }
  }
}

function field(doc: string, name: string): string {
  const value = lookup(doc, name);
  return value === null ? "" : value;
}

/** Looks up a name; returns null if that fails. type is "A", "AAAA", "TXT" and so on; server is
 * "" for the system's, "target" or "host:port". */
export function resolve(name: string, type: string, server: string = "", timeoutMs: i32 = host.UNTIL_DEADLINE): DnsAnswer | null {
  let doc = '{"name":' + quote(name) + ',"type":' + quote(type);
  if (server != "") doc += ',"server":' + quote(server);
  const req = new host.Bytes(doc + "}");
  const handle = host.dnsLookup(req.p, req.n, timeoutMs);
  if (handle < 0) return null;
  const b = new host.Buffer(1024);
  let n = host.dnsRead(handle, b.p, b.cap, timeoutMs);
  if (!b.fits(n)) n = host.dnsRead(handle, b.p, b.cap, timeoutMs);
  return n < 0 ? null : new DnsAnswer(b.text(n));
}
