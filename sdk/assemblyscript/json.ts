// As much JSON as a probe needs: a value by its path, and texts to be written.

/**
 * The value at a dotted path ("tls.peer.0.notAfter") as text: a string without its quotes
 * and escapes, anything else as it stands. A number steps into an array. null where
 * nothing, or null, is there.
 */
export function lookup(doc: string, path: string): string | null {
  const raw = lookupRaw(doc, path);
  return raw === null ? null : text(raw);
}

/** The value at a dotted path as JSON. */
export function lookupRaw(doc: string, path: string): string | null {
  let value: string | null = doc.trim();
  const steps = path.split(".");
  for (let i = 0; i < steps.length && value !== null; i++) value = member(value, steps[i]);
  return value !== null && value == "null" ? null : value;
}

/** A text as JSON. */
export function quote(text: string): string {
  let out = '"';
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c == 0x22 || c == 0x5c) out += "\\" + text.charAt(i);
    else if (c < 0x20) out += "\\u00" + (c < 0x10 ? "0" : "") + c.toString(16);
    else out += text.charAt(i);
  }
  return out + '"';
}

function member(doc: string, name: string): string | null {
  const object = doc.startsWith("{");
  if (!object && !doc.startsWith("[")) return null;
  let at = space(doc, 1);
  for (let i = 0; at < doc.length; i++) {
    const c = doc.charCodeAt(at);
    if (c == 0x7d || c == 0x5d) return null;
    let here = !object && i.toString() == name;
    if (object) {
      const end = valueEnd(doc, at);
      here = text(doc.substring(at, end)) == name;
      at = space(doc, end);
      if (at >= doc.length || doc.charCodeAt(at) != 0x3a) return null;
      at = space(doc, at + 1);
    }
    const end = valueEnd(doc, at);
    if (end == at) return null;
    if (here) return doc.substring(at, end);
    at = space(doc, end);
    if (at < doc.length && doc.charCodeAt(at) == 0x2c) at = space(doc, at + 1);
  }
  return null;
}

function space(doc: string, at: i32): i32 {
  while (at < doc.length && doc.charCodeAt(at) <= 0x20) at++;
  return at;
}

/** Where the value that begins at an index ends. */
function valueEnd(doc: string, at: i32): i32 {
  let depth = 0;
  let quoted = false;
  for (; at < doc.length; at++) {
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
  return doc.length;
}

function text(value: string): string {
  if (!value.startsWith('"')) return value;
  let out = "";
  for (let i = 1; i < value.length - 1; i++) {
    let c = value.charCodeAt(i);
    if (c == 0x5c && ++i < value.length) {
      c = value.charCodeAt(i);
      if (c == 0x6e) c = 0x0a;
      else if (c == 0x74) c = 0x09;
      else if (c == 0x72) c = 0x0d;
      else if (c == 0x62) c = 0x08;
      else if (c == 0x66) c = 0x0c;
      else if (c == 0x75) {
        c = <i32>parseInt(value.substr(i + 1, 4), 16);
        i += 4;
      }
    }
    out += String.fromCharCode(c);
  }
  return out;
}
