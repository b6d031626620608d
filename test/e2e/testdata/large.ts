// Large reads an answer of 64 KB. The config's "do" selects the function that reads it.

import { configString, dial, failure, get, items, lastError, lookup, quote, Result, success } from "prober";

export function probe(): Result {
  const what = configString("do", "");
  if (what == "lines") return lines();
  const answer = get("http:///" + what);
  if (answer === null) return failure(lastError());
  const body = answer.text();
  if (body === null) return failure(lastError());
  return what == "text" ? text(body) : records(body);
}

/** A text is quoted, and read again. */
function text(body: string): Result {
  const doc = '{"a":' + quote(body) + ',"b":1}';
  const again = lookup(doc, "a");
  if (again === null || again != body) return failure("the text is another one");
  if (lookup(doc, "b") === null) return failure("what follows the text is lost");
  return success(body.length.toString() + " characters, quoted " + (doc.length - 12).toString());
}

/** Each record of a list is read, and some are looked up in the whole. */
function records(body: string): Result {
  const all = items(body, "records");
  for (let i = 0; i < all.length; i++) {
    const name = lookup(all[i], "name");
    if (name === null || name != 'record "' + i.toString() + '"') return failure("record " + i.toString() + " is " + all[i]);
    if (i % 64 == 0 && lookup(body, "records." + i.toString() + ".ttl") === null) return failure("no ttl");
  }
  return success(all.length.toString() + " records");
}

function lines(): Result {
  const conn = dial();
  if (conn === null) return failure(lastError());
  let n = 0;
  let bytes = 0;
  for (let line = conn.readLine(); line !== null; line = conn.readLine()) {
    n++;
    bytes += line.length;
  }
  return conn.ended ? success(n.toString() + " lines of " + bytes.toString() + " bytes, and " + conn.ahead) : failure(lastError());
}
