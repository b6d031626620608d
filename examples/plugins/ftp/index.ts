// Ftp reads the greeting of an FTP server. Optionally it starts TLS with AUTH TLS, logs in, and checks the
// features that the server lists.

import {
  configBool, configString, configText, Conn, deadline, dial, failure, lastError, metric, progress, Result, success, TlsOptions,
} from "../../../sdk/assemblyscript/index";

/** A reply of one line or several: its code, and the text of its lines. */
class Reply {
  code: string = "";
  lines: string[] = [];

  constructor(readonly to: string) {}

  /** Why there is no reply, or "". */
  broken: string = "";

  is(code: string): bool {
    return this.broken == "" && this.code == code;
  }

  /** Returns a Failure with what the server says instead of the expected reply. */
  refused(): Result {
    if (this.broken != "") return failure(this.to + ": " + this.broken);
    return failure(this.to + ": the server says " + this.code + " " + this.lines[0].substring(0, 200));
  }
}

const MAX_LINES = 200;

/** Reads a reply. Its last line has the code of the first one and a space; lines between may be any text. */
function read(conn: Conn, to: string): Reply {
  const r = new Reply(to);
  for (let i = 0; i < MAX_LINES; i++) {
    const line = conn.readLine();
    if (line === null) {
      r.broken = conn.overlong ? "a line that does not end" : conn.ended ? "the server hung up" : lastError();
      return r;
    }
    if (i == 0 && !isStart(line)) {
      r.broken = "not FTP: the server sent " + line.substring(0, 80);
      return r;
    }
    if (i == 0) r.code = line.substring(0, 3);
    const coded = line.startsWith(r.code) && (line.length == 3 || line.charAt(3) == " " || line.charAt(3) == "-");
    r.lines.push(coded ? line.substring(4) : line);
    if (coded && line.charAt(3) != "-") return r;
  }
  r.broken = "a reply of more than " + MAX_LINES.toString() + " lines";
  return r;
}

function isStart(line: string): bool {
  for (let i = 0; i < 3; i++) {
    if (line.length <= i || line.charCodeAt(i) < 0x30 || line.charCodeAt(i) > 0x39) return false;
  }
  return line.length == 3 || line.charAt(3) == " " || line.charAt(3) == "-";
}

/** Sends a command. name is its name in messages, which never have the password. */
function ask(conn: Conn, command: string, name: string): Reply {
  progress("no answer to " + name);
  if (conn.writeText(command + "\r\n") >= 0) return read(conn, name);
  const r = new Reply(name);
  r.broken = lastError();
  return r;
}

/** Checks what the schema of the config cannot express. */
export function validate_config(): i32 {
  if (configText("password") !== null && configText("username") === null) return failure("config.password: needs a username");
  return 0;
}

export function probe(): Result {
  const begun = deadline();
  const conn = dial();
  if (conn === null) return failure(lastError());
  progress("no greeting of the server");
  let greeting = read(conn, "greeting");
  if (greeting.is("120")) greeting = read(conn, "greeting"); // ready in some minutes, which may be now
  if (!greeting.is("220")) return greeting.refused();
  metric("greeting_seconds", "s", <f64>(begun - deadline()) / 1000);

  let result = configBool("startTLS", false) ? secure(conn) : Result.Success;
  if (result == Result.Success && configText("username") !== null) result = logIn(conn);
  if (result == Result.Success) result = checkFeatures(conn);
  if (result != Result.Success) return result;
  ask(conn, "QUIT", "QUIT"); // servers may close the connection at once
  return success(greeting.lines[0]);
}

function secure(conn: Conn): Result {
  const ready = ask(conn, "AUTH TLS", "AUTH TLS");
  if (!ready.is("234")) return ready.refused();
  // What came before the handshake was not protected by it.
  if (conn.ahead != "") return failure("the server continues in clear text after AUTH TLS");
  const options = new TlsOptions();
  options.serverName = configString("serverName", "");
  options.ca = configString("ca", "");
  return conn.startTLS(options.json) ? Result.Success : failure(lastError());
}

function logIn(conn: Conn): Result {
  const user = ask(conn, "USER " + configString("username", ""), "USER");
  if (user.is("230")) return Result.Success; // needs no password
  const password = configText("password");
  if (!user.is("331") || password === null) return user.refused();
  const login = ask(conn, "PASS " + password, "PASS");
  return login.is("230") ? Result.Success : login.refused();
}

/** Compares the list of FEAT, whose lines begin with a space, with the features of the config. */
function checkFeatures(conn: Conn): Result {
  if (configText("features.0") === null) return Result.Success;
  const list = ask(conn, "FEAT", "FEAT");
  if (!list.is("211")) return list.refused();
  const offered = new Set<string>();
  for (let i = 1; i < list.lines.length - 1; i++) offered.add(list.lines[i].trim().toUpperCase());
  for (let i = 0, want = configText("features.0"); want !== null; want = configText("features." + (++i).toString())) {
    if (!offered.has(want.toUpperCase())) return failure("the server does not offer " + want);
  }
  return Result.Success;
}
