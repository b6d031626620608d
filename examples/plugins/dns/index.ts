// Dns looks up a name, at the target or at the servers of the host, and compares the records
// with the expected ones.

import {
  configMillis, configNumber, configString, configText, DnsAnswer, DnsRecord, failure, lastError, lookup, metric, resolve,
  Result, success, warning,
} from "../../../sdk/assemblyscript/index";

const MAX_NAME = 253;
const MAX_LABEL = 63;
const MAX_SHOWN = 8; // records in a message

/** Returns the strings of a list in the config. */
function list(path: string): string[] {
  const items: string[] = [];
  for (let i = 0; ; i++) {
    const item = configText(path + "." + i.toString());
    if (item === null) break;
    items.push(item);
  }
  return items;
}

/** Returns why a name cannot be looked up, or "". */
function badName(name: string): string {
  const labels = plain(name).split(".");
  for (let i = 0; i < labels.length; i++) {
    const n = String.UTF8.byteLength(labels[i]);
    if (n == 0 && name != ".") return "an empty label";
    if (n > MAX_LABEL) return "a label of more than " + MAX_LABEL.toString() + " bytes";
  }
  return String.UTF8.byteLength(plain(name)) > MAX_NAME ? "more than " + MAX_NAME.toString() + " bytes" : "";
}

/** Checks what the schema of the config cannot express. */
export function validate_config(): i32 {
  const name = configString("name", "");
  const bad = badName(name);
  if (bad != "") return failure("config.name: " + name.substring(0, 80) + ": " + bad);
  if (configString("rcode", "NOERROR") != "NOERROR") {
    if (configText("expect") !== null) return failure("config.expect: an answer with another rcode than NOERROR has no records");
    if (configNumber("minAnswers", 1) > 1) return failure("config.minAnswers: an answer with another rcode than NOERROR has no records");
  }
  if (configMillis("warnAfter", 1) <= 0) return failure("config.warnAfter: must be above 0");
  return 0;
}

/** Returns a name without the dot at its end. */
function plain(name: string): string {
  return name.endsWith(".") ? name.substring(0, name.length - 1) : name;
}

/** Returns the name of the question. For PTR an IPv4 address becomes its name. */
function question(name: string, type: string): string {
  const parts = plain(name).split(".");
  if (type != "PTR" || parts.length != 4) return name;
  for (let i = 0; i < 4; i++) {
    if (parts[i].length == 0 || parts[i].length > 3) return name;
    for (let j = 0; j < parts[i].length; j++) {
      const c = parts[i].charCodeAt(j);
      if (c < 0x30 || c > 0x39) return name;
    }
  }
  return parts.reverse().join(".") + ".in-addr.arpa";
}

/** Returns a value for comparison: only TXT is case-sensitive. */
function canonical(value: string, type: string): string {
  return type == "TXT" ? value : plain(value).toLowerCase();
}

/** Reports whether a value matches a pattern, in which * stands for anything. */
function matches(value: string, pattern: string): bool {
  const parts = pattern.split("*");
  const last = parts.length - 1;
  if (last == 0) return value == pattern;
  if (!value.startsWith(parts[0])) return false;
  let at = parts[0].length;
  for (let i = 1; i < last; i++) {
    const found = value.indexOf(parts[i], at);
    if (found < 0) return false;
    at = found + parts[i].length;
  }
  return value.length - at >= parts[last].length && value.endsWith(parts[last]);
}

/** Reports whether any of the values matches the pattern. */
function some(values: string[], pattern: string): bool {
  for (let i = 0; i < values.length; i++) {
    if (matches(values[i], pattern)) return true;
  }
  return false;
}

/** Returns how the values differ from the expected ones, or "". */
function unexpected(values: string[], expected: string[], how: string): string {
  let missing = 0;
  let first = "";
  for (let i = 0; i < expected.length; i++) {
    if (some(values, expected[i])) continue;
    if (missing++ == 0) first = expected[i];
  }
  if (how == "any") return missing < expected.length ? "" : "none of what is expected";
  if (missing > 0) return first + " is missing";
  if (how != "exact") return "";
  for (let i = 0; i < values.length; i++) {
    let known = false;
    for (let j = 0; j < expected.length && !known; j++) known = matches(values[i], expected[j]);
    if (!known) return values[i] + " is not expected";
  }
  return "";
}

function millis(seconds: f64): string {
  return (<i64>Math.round(seconds * 1000)).toString() + "ms";
}

/** Returns the values for a message. */
function shown(values: string[]): string {
  let text = values.slice(0, MAX_SHOWN).join(", ");
  if (text.length > 500) text = text.substring(0, 500) + "…";
  return values.length > MAX_SHOWN ? text + " and " + (values.length - MAX_SHOWN).toString() + " more" : text;
}

/** The answer of one attempt, with its requirements. */
class Check {
  readonly asked: string;
  readonly server: string;
  readonly seconds: f64;
  readonly values: string[] = [];
  /** The lowest TTL of the records, in seconds; -1 without records. */
  ttl: f64 = -1;

  constructor(readonly answer: DnsAnswer, name: string, readonly type: string) {
    this.asked = type + " " + name;
    const server = lookup(answer.json, "server");
    this.server = server === null ? "" : " from " + server;
    const seconds = lookup(answer.json, "seconds");
    this.seconds = seconds === null ? 0 : F64.parseFloat(seconds);
    for (let i = 0; i < answer.records.length; i++) this.take(answer.records[i]);
  }

  /** Adds a record, if it has the type of the question. */
  private take(r: DnsRecord): void {
    if (r.type != this.type) return;
    this.values.push(canonical(r.data, this.type));
    const ttl = <f64>(<u32>r.ttl);
    if (this.ttl < 0 || ttl < this.ttl) this.ttl = ttl;
  }

  measure(): void {
    metric("lookup_seconds", "s", this.seconds);
    metric("answers", "", <f64>this.values.length);
    if (this.ttl >= 0) metric("ttl_seconds", "s", this.ttl);
  }

  /** Returns why the answer is a Failure, or "". */
  fault(): string {
    const want = configString("rcode", "NOERROR");
    if (this.answer.rcode != want) return this.answer.rcode + this.server + (want == "NOERROR" ? "" : ", not " + want);
    if (want != "NOERROR") return "";
    const least = configNumber("minAnswers", 1);
    if (<f64>this.values.length < least) {
      return this.values.length.toString() + " records" + this.server + ", fewer than " + (<i64>least).toString();
    }
    const expected = list("expect");
    for (let i = 0; i < expected.length; i++) expected[i] = canonical(expected[i], this.type);
    const wrong = expected.length == 0 ? "" : unexpected(this.values, expected, configString("match", "contains"));
    return wrong == "" ? "" : shown(this.values) + this.server + ": " + wrong;
  }

  verdict(): Result {
    const fault = this.fault();
    if (fault != "") return failure(this.asked + ": " + fault);
    const found = this.values.length > 0 ? shown(this.values) : this.answer.rcode;
    const text = this.asked + ": " + found + this.server + " after " + millis(this.seconds);
    const late = configMillis("warnAfter", 0);
    if (late > 0 && this.seconds * 1000 > late) return warning(text + ", more than " + configString("warnAfter", ""));
    const short = configMillis("warnTTL", 0) / 1000;
    if (this.ttl >= 0 && this.ttl < short) {
      return warning(text + ", a TTL of " + (<i64>this.ttl).toString() + "s, below " + configString("warnTTL", ""));
    }
    return success(text);
  }
}

export function probe(): Result {
  const type = configString("type", "A");
  const name = question(configString("name", ""), type);
  const server = configString("server", "target") == "system" ? "" : "target";
  const answer = resolve(name, type, server);
  if (answer === null) return failure(lastError());
  const check = new Check(answer, name, type);
  check.measure();
  return check.verdict();
}
