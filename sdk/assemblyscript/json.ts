// Minimal JSON for probes: finding a value by its path, and writing strings.
//
// With --runtime stub nothing is freed, so functions allocate little except their results.

/**
 * Returns the value at a dotted path ("tls.peer.0.notAfter"): a string without its quotes
 * and escapes, anything else unchanged. A number is an index into an array. Returns null if
 * there is no value or it is null.
 */
export function lookup(doc: string, path: string): string | null {
  const at = find(doc, path);
  return at < 0 ? null : text(doc, at, end);
}

/** Returns the value at a dotted path as JSON. */
export function lookupRaw(doc: string, path: string): string | null {
  const at = find(doc, path);
  return at < 0 ? null : doc.substring(at, end);
}

/** Returns the values of the array at a dotted path as JSON, or []. */
export function items(doc: string, path: string): string[] {
  const values: string[] = [];
  let at = find(doc, path);
  const last = end;
  if (at < 0 || doc.charCodeAt(at) != 0x5b) return values;
  at = space(doc, at + 1, last);
  while (at < last && doc.charCodeAt(at) != 0x5d) {
    const to = valueEnd(doc, at, last);
    if (to == at) break;
    values.push(doc.substring(at, to));
    at = space(doc, to, last);
    if (at < last && doc.charCodeAt(at) == 0x2c) at = space(doc, at + 1, last);
  }
  return values;
}

/** Returns a string as JSON. */
export function quote(text: string): string {
  let size = 2;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    size += c == 0x22 || c == 0x5c ? 2 : c < 0x20 ? 6 : 1;
  }
  const out = new StaticArray<u16>(size);
  let n = 0;
  out[n++] = 0x22;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c < 0x20) {
      out[n++] = 0x5c;
      out[n++] = 0x75;
      out[n++] = 0x30;
      out[n++] = 0x30;
      out[n++] = <u16>(0x30 + (c >> 4));
      out[n++] = <u16>((c & 15) < 10 ? 0x30 + (c & 15) : 0x57 + (c & 15));
      continue;
    }
    if (c == 0x22 || c == 0x5c) out[n++] = 0x5c;
    out[n++] = <u16>c;
  }
  out[n++] = 0x22;
  return String.UTF16.decodeUnsafe(changetype<usize>(out), <usize>n << 1);
}

/** The end of the value that find or member has found last. */
let end: i32 = 0;

/** Returns where the value at a dotted path begins; negative for none or null. */
function find(doc: string, path: string): i32 {
  let at = space(doc, 0, doc.length);
  end = doc.length;
  while (end > at && doc.charCodeAt(end - 1) <= 0x20) end--;
  const steps = path.split(".");
  for (let i = 0; i < steps.length && at >= 0; i++) at = member(doc, at, end, steps[i]);
  return at >= 0 && equals(doc, at, end, "null") ? -1 : at;
}

/** Returns where a member of the value between two indices begins; negative for none. */
function member(doc: string, from: i32, to: i32, name: string): i32 {
  const object = from < to && doc.charCodeAt(from) == 0x7b;
  if (!object && (from >= to || doc.charCodeAt(from) != 0x5b)) return -1;
  const index = object ? -1 : indexOf(name);
  let at = space(doc, from + 1, to);
  for (let i = 0; at < to; i++) {
    const c = doc.charCodeAt(at);
    if (c == 0x7d || c == 0x5d) return -1;
    let here = i == index;
    if (object) {
      const last = valueEnd(doc, at, to);
      here = named(doc, at, last, name);
      at = space(doc, last, to);
      if (at >= to || doc.charCodeAt(at) != 0x3a) return -1;
      at = space(doc, at + 1, to);
    }
    const last = valueEnd(doc, at, to);
    if (last == at) return -1;
    if (here) {
      end = last;
      return at;
    }
    at = space(doc, last, to);
    if (at < to && doc.charCodeAt(at) == 0x2c) at = space(doc, at + 1, to);
  }
  return -1;
}

/** Returns a step of a path as an index; negative if it is not a number. */
function indexOf(name: string): i32 {
  let n = 0;
  for (let i = 0; i < name.length; i++) {
    const c = name.charCodeAt(i);
    if (c < 0x30 || c > 0x39 || n > 100_000_000 || (i == 1 && n == 0)) return -1;
    n = n * 10 + c - 0x30;
  }
  return name.length == 0 ? -1 : n;
}

/** Reports whether the key between two indices equals a name. */
function named(doc: string, from: i32, to: i32, name: string): bool {
  if (doc.charCodeAt(from) != 0x22) return equals(doc, from, to, name);
  for (let i = from; i < to; i++) {
    if (doc.charCodeAt(i) == 0x5c) return text(doc, from, to) == name;
  }
  return equals(doc, from + 1, to - 1, name);
}

/** Reports whether the text between two indices equals word. */
function equals(doc: string, from: i32, to: i32, word: string): bool {
  if (to - from != word.length) return false;
  for (let i = 0; i < word.length; i++) {
    if (doc.charCodeAt(from + i) != word.charCodeAt(i)) return false;
  }
  return true;
}

function space(doc: string, at: i32, to: i32): i32 {
  while (at < to && doc.charCodeAt(at) <= 0x20) at++;
  return at;
}

/** Returns the end of the value that begins at an index. */
function valueEnd(doc: string, at: i32, to: i32): i32 {
  let depth = 0;
  let quoted = false;
  for (; at < to; at++) {
    const c = doc.charCodeAt(at);
    if (quoted) {
      if (c == 0x5c) at++;
      else if (c == 0x22) {
        quoted = false;
        if (depth == 0) return at + 1;
      }
      continue;
    }
    if (c == 0x22) quoted = true;
    else if (c == 0x7b || c == 0x5b) depth++;
    else if (c == 0x7d || c == 0x5d) {
      if (depth <= 1) return at + depth;
      depth--;
    } else if (depth == 0 && (c == 0x2c || c == 0x3a || c <= 0x20)) return at;
  }
  return to;
}

/** Returns the value between two indices as a string. */
function text(doc: string, from: i32, to: i32): string {
  if (from >= to || doc.charCodeAt(from) != 0x22) return doc.substring(from, to);
  const out = new StaticArray<u16>(to - from);
  let n = 0;
  for (let i = from + 1; i < to - 1; i++) {
    let c = doc.charCodeAt(i);
    if (c == 0x5c && ++i < to) {
      c = doc.charCodeAt(i);
      if (c == 0x6e) c = 0x0a;
      else if (c == 0x74) c = 0x09;
      else if (c == 0x72) c = 0x0d;
      else if (c == 0x62) c = 0x08;
      else if (c == 0x66) c = 0x0c;
      else if (c == 0x75) {
        c = hex(doc, i + 1, min(i + 5, to));
        i += 4;
      }
    }
    out[n++] = <u16>c;
  }
  return String.UTF16.decodeUnsafe(changetype<usize>(out), <usize>n << 1);
}

/** Returns the number of the hexadecimal digits between two indices. */
function hex(doc: string, from: i32, to: i32): i32 {
  let n = 0;
  for (let i = from; i < to; i++) {
    const c = doc.charCodeAt(i);
    const digit = c - 0x30 < 10 ? c - 0x30 : (c | 0x20) - 0x57;
    n = (n << 4) | (digit & 15);
  }
  return n;
}
