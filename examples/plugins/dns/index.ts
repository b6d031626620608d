// Dns looks a name up, at the server that is probed or at the host's own, and holds the
// records against what is expected.

import {
  configMillis, configNumber, configString, configText, DnsAnswer, DnsRecord, failure, lastError, lookup, metric, resolve,
  Result, success, warning,
} from "../../../sdk/assemblyscript/index";

const MAX_NAME = 253;
const MAX_LABEL = 63;
const MAX_SHOWN = 8; // records in a message

/** The texts of a list in the config. */
function list(path: string): string[] {
  const items: string[] = [];
  for (let i = 0; ; i++) {
    const item = configText(path + "." + i.toString());
    if (item === null) break;
    items.push(item);
  }
  return items;
}

/** Why the host would not ask for a name, "" where it would. */
function badName(name: string): string {
  const labels = plain(name).split(".");
  for (let i = 0; i < labels.length; i++) {
    const n = String.UTF8.byteLength(labels[i]);
    if (n == 0 && name != ".") return "an empty label";
    if (n > MAX_LABEL) return "a label of more than " + MAX_LABEL.toString() + " bytes";
  }
  return String.UTF8.byteLength(plain(name)) > MAX_NAME ? "more than " + MAX_NAME.toString() + " bytes" : "";
}

/** What the schema can not say of the config. */
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

/** A name without the dot at its end. */
function plain(name: string): string {
  return name.endsWith(".") ? name.substring(0, name.length - 1) : name;
}

/** What to ask for: an IPv4 address of PTR is turned into its name. */
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

/** How values are compared: only the text of TXT has capitals that matter. */
function canonical(value: string, type: string): string {
  return type == "TXT" ? value : plain(value).toLowerCase();
}

/** Whether a value is as a pattern says, in which * stands for anything. */
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

/** Whether any of the values is as the pattern says. */
function some(values: string[], pattern: string): bool {
  for (let i = 0; i < values.length; i++) {
    if (matches(values[i], pattern)) return true;
  }
  return false;
}

/** What is wrong with the values, "" where nothing is. */
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

/** The values for people. */
function shown(values: string[]): string {
  let text = values.slice(0, MAX_SHOWN).join(", ");
  if (text.length > 500) text = text.substring(0, 500) + "…";
  return values.length > MAX_SHOWN ? text + " and " + (values.length - MAX_SHOWN).toString() + " more" : text;
}

/** One attempt's answer and what is asked of it. */
class Check {
  readonly asked: string;
  readonly server: string;
  readonly seconds: f64;
  readonly values: string[] = [];
  /** The least of the records, in seconds; -1 without any. */
  ttl: f64 = -1;

  constructor(readonly answer: DnsAnswer, name: string, readonly type: string) {
    this.asked = type + " " + name;
    const server = lookup(answer.json, "server");
    this.server = server === null ? "" : " from " + server;
    const seconds = lookup(answer.json, "seconds");
    this.seconds = seconds === null ? 0 : F64.parseFloat(seconds);
    for (let i = 0; i < answer.records.length; i++) this.take(answer.records[i]);
  }

  /** Takes a record of the type that was asked for: a CNAME on the way to it does not count. */
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

  /** Why the answer is a Failure, "" where it is none. */
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
