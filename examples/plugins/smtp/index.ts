// Smtp reads the greeting of a mail server and sends EHLO. Optionally it starts TLS with
// STARTTLS and checks when the certificate expires.

import {
  configBool, configNumber, configString, Conn, deadline, dial, failure, lastError, Level, log, lookup, metric, now, quote, Result,
  success, warning,
} from "../../../sdk/assemblyscript/index";

/** A reply of one line or several: its code, and the text of its lines. */
class Reply {
  code: string = "";
  lines: string[] = [];

  /** Why there is no reply, or "". */
  broken: string = "";

  is(code: string): bool {
    return this.broken == "" && this.code == code;
  }

  /** Returns the message for an unexpected reply. */
  explain(to: string): string {
    if (this.broken != "") return to + ": " + this.broken;
    return to + ": the server says " + this.code + " " + this.lines[0].substring(0, 200);
  }

  offers(extension: string): bool {
    for (let i = 1; i < this.lines.length; i++) {
      if (this.lines[i].split(" ")[0].toUpperCase() == extension) return true;
    }
    return false;
  }
}

const MAX_LINES = 100;

function read(conn: Conn): Reply {
  const r = new Reply();
  for (let i = 0; i < MAX_LINES; i++) {
    const line = conn.readLine();
    if (line === null) {
      r.broken = conn.overlong ? "a line that does not end" : conn.ended ? "the server hung up" : lastError();
      return r;
    }
    const dash = line.length > 3 && line.charAt(3) == "-";
    if (!isCode(line) || (i > 0 && line.substring(0, 3) != r.code)) {
      r.broken = "no reply of SMTP: " + line.substring(0, 80);
      return r;
    }
    r.code = line.substring(0, 3);
    r.lines.push(line.substring(4));
    if (!dash) return r;
  }
  r.broken = "a reply of more than " + MAX_LINES.toString() + " lines";
  return r;
}

function isCode(line: string): bool {
  for (let i = 0; i < 3; i++) {
    if (line.length <= i || line.charCodeAt(i) < 0x30 || line.charCodeAt(i) > 0x39) return false;
  }
  return line.length == 3 || line.charAt(3) == " " || line.charAt(3) == "-";
}

function ask(conn: Conn, command: string): Reply {
  if (conn.writeText(command + "\r\n") < 0) {
    const r = new Reply();
    r.broken = lastError();
    return r;
  }
  return read(conn);
}

export function probe(): Result {
  const begun = deadline();
  const conn = dial();
  if (conn === null) return failure(lastError());
  const greeting = read(conn);
  if (!greeting.is("220")) return failure(greeting.explain("greeting"));
  metric("greeting_seconds", "s", <f64>(begun - deadline()) / 1000);

  const ehlo = "EHLO " + configString("name", "prober.invalid");
  const hello = ask(conn, ehlo);
  if (!hello.is("250")) return failure(hello.explain("EHLO"));
  const result = configBool("startTLS", false) ? secure(conn, ehlo, hello) : success(greeting.lines[0]);
  if (result != Result.Failure && !ask(conn, "QUIT").is("221")) log(Level.Debug, "the server does not answer QUIT");
  return result;
}

function secure(conn: Conn, ehlo: string, hello: Reply): Result {
  if (!hello.offers("STARTTLS")) return failure("the server does not offer STARTTLS");
  const ready = ask(conn, "STARTTLS");
  if (!ready.is("220")) return failure(ready.explain("STARTTLS"));
  // What came before the handshake was not protected by it, and must not be taken for an
  // answer that was.
  if (conn.ahead != "") return failure("the server continues in clear text after STARTTLS");
  if (!conn.startTLS(options())) return failure(lastError());
  const again = ask(conn, ehlo);
  if (!again.is("250")) return failure(again.explain("EHLO after STARTTLS"));
  return certificate(conn.info());
}

function options(): string {
  const name = configString("serverName", "");
  const verify = '{"verify":' + quote(configString("verify", "full"));
  return verify + (name == "" ? "" : ',"serverName":' + quote(name)) + "}";
}

function certificate(info: string): Result {
  const version = lookup(info, "tls.version");
  const end = lookup(info, "tls.peer.0.notAfter");
  const secured = "secured with " + (version === null ? "TLS" : version);
  if (end === null) return success(secured);
  const left = F64.parseFloat(end) - now();
  metric("certificate_seconds", "s", left);
  const days = Math.floor(left / 86400);
  const text = secured + ", the certificate ends in " + (<i64>days).toString() + " days";
  if (left < 0) return failure(secured + ", the certificate has ended");
  return days < configNumber("warnDays", 14) ? warning(text) : success(text);
}
