// Options sets every option of every host function, and reads what their results repeat.

import {
  basicTime, configStrings, configText, dialURL, dialWith, DialOptions, EchoRequest, error, HttpRequest, kvGetBytes, kvSetBytes, lastError, Outcome, parseTime,
  progress, Request, resolve, Result, rfc3339, TlsOptions,
} from "prober";

/** Writes the time of the config, and reports whether it is read again. */
function written(text: string): Result {
  const at = I64.parseInt(text);
  progress(basicTime(at) + " " + rfc3339(at) + " " + (parseTime(rfc3339(at)) == at).toString());
  return error("a time");
}

export function probe(): Result {
  const at = configText("at");
  if (at !== null) return written(at);
  progress("working");
  const tls = new TlsOptions();
  tls.serverName = "d b";
  tls.insecure = true;
  tls.ca = "PEM\n";
  tls.credentials = "own";
  tls.minVersion = "TLS12";
  tls.maxVersion = "TLS13";
  const req = new HttpRequest("https://db.internal/x").header("X-Asked", 'a "b"').proxyHeader("X-Team", "shop");
  req.method = "PUT";
  req.bodyBytes = bytes([0, 0xff, 0x61]);
  req.redirects = 2;
  req.timeoutMs = 250;
  req.tls = tls.json;
  req.http2 = true;
  req.decompress = "gzip";
  req.ipFamily = "4,6";
  req.sourceAddress = "10.0.0.1";
  req.proxy = "http://proxy:3128";
  const answer = req.send();
  if (answer === null) return error(lastError());
  tls.alpn = ["h2", "http/1.1"];
  const conn = dialURL("tcp://db.internal:5432");
  if (conn === null || !conn.startTLS(tls.json)) return error(lastError());
  const options = new DialOptions();
  options.ipFamily = "6";
  options.sourceAddress = "fd00::1";
  options.tls = tls;
  if (dialWith("tls://db.internal:5432", options) === null || resolve("db.internal", "SRV", "target") === null) return error(lastError());
  const ping = new EchoRequest();
  ping.host = "db.internal";
  ping.ipFamily = "6,4";
  ping.sourceAddress = "10.0.0.1";
  ping.payload = 9;
  ping.hopLimit = 7;
  ping.dontFragment = true;
  if (ping.send() === null || kvSetBytes("key", bytes([0, 0xff])) < 0) return error(lastError());
  const kept = kvGetBytes("key");
  const same = kept !== null && kept.byteLength == 2 && Uint8Array.wrap(kept)[1] == 0xff;
  const r = new Request();
  if (!r.has("kv") || r.has("dns") || configStrings("none").length > 0) return error("the features differ");
  const read = parseTime("2006-01-02T17:04:05.5+02:00") == 1136214245 && parseTime("2006-02-29T17:04:05Z") == i64.MIN_VALUE &&
    parseTime("2006-01-02T17:04:05-23:59") == 1136307785 && parseTime("2006-01-02T17:04:05+24:00") == i64.MIN_VALUE &&
    parseTime("2006-01-02T17:04:05+00:60") == i64.MIN_VALUE && options.addTo("tls://db?a=b").startsWith("tls://db?a=b&ipFamily=6&");
  const text = answer.headers("set-cookie").join("|") + " " + answer.headers("x-one").join("|") + " " + basicTime(1136214245) + " " +
    rfc3339(1136214245) + " " + read.toString() + " " + same.toString();
  const out = new Outcome(Result.Failure, text).metric("seconds", "s", 0.5, "role", "main").metric("nan", "", NaN);
  out.details = '{"a":1}';
  out.reason = "body";
  return out.send();
}

function bytes(values: u8[]): ArrayBuffer {
  const b = new Uint8Array(values.length);
  for (let i = 0; i < values.length; i++) b[i] = values[i];
  return b.buffer;
}
