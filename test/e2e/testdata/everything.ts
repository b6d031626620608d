// Everything uses all of the SDK but DNS and ICMP. The config's "do" selects the functions that an attempt calls.

import {
  configBool, configMillis, configNumber, configString, deadline, dialURL, error, failure, HttpRequest, kvDelete, kvGet, kvSet,
  lastError, Level, log, lookup, metric, poll, Request, Result, resultJSON, success, unknown, warning,
} from "prober";

export function validate_config(): i32 {
  return configString("do", "") == "evil" ? error("do no evil") : 0;
}

export function probe(): Result {
  const what = configString("do", "");
  if (what == "request") return request();
  if (what == "config") return config();
  if (what == "net") return net();
  if (what == "http") return http();
  if (what == "kv") return kv();
  if (what == "json") {
    const doc = '{"message":"in full","metrics":[{"name":"n","value":1,"labels":{"a":"b"}}]}';
    return resultJSON(doc) ? Result.Success : error(lastError());
  }
  if (what == "panic") assert(false, "at the disco");
  metric("never", "", 0);
  return error("nothing to do after " + deadline().toString() + " ms");
}

function request(): Result {
  const r = new Request();
  return warning("kind " + r.kind + ", port " + r.port.toString() + ", text " + r.text("config.text"));
}

function config(): Result {
  log(Level.Info, "the config is read");
  const hundredths = <i64>Math.round(configNumber("number", 0) * 100);
  return unknown(
    "text " + configString("text", "none") + ", number " + (hundredths / 100).toString() + "." + (hundredths % 100).toString().padStart(2, "0") +
      ", whole " + (<i64>configNumber("list.1", 0)).toString() + ", truth " + configBool("truth", false).toString() +
      ", millis " + (<i64>configMillis("time", 0)).toString(),
  );
}

function net(): Result {
  const conn = dialURL("", 1000);
  if (conn === null) return failure(lastError());
  const said = new ArrayBuffer(4);
  if (poll([conn]) != 0 || conn.read(said) != 4 || conn.writeText("QUIT\r\n") < 0) return failure("read: " + lastError());
  const network = lookup(conn.info(), "network");
  const tls = conn.startTLS("{}") ? "works" : "fails";
  conn.close();
  return success((network === null ? "" : network) + " says " + String.UTF8.decode(said) + "; starttls " + tls);
}

function http(): Result {
  const req = new HttpRequest(configString("url", "")).header("X-Asked", "yes");
  req.method = "POST";
  req.body = "ping";
  const answer = req.send();
  if (answer === null) return failure(lastError());
  const kind = answer.header("x-answer");
  const body = answer.text();
  answer.close();
  return success(answer.status.toString() + " " + (kind === null ? "" : kind) + " " + (body === null ? lastError() : body));
}

function kv(): Result {
  if (kvSet("key", "value") < 0 || kvSet("gone", "x") < 0 || kvDelete("gone") < 0) return failure(lastError());
  const value = kvGet("key");
  return success((value === null ? "" : value) + ", " + (kvGet("gone") === null ? "gone" : "there"));
}
