// Values that a probe keeps from attempt to attempt. The manifest requests the capability "kv".

import * as host from "./host";

/** Returns the value of a key as a string, or null. */
export function kvGet(key: string): string | null {
  const value = kvGetBytes(key);
  return value === null ? null : String.UTF8.decode(value);
}

/** Returns the value of a key, or null. */
export function kvGetBytes(key: string): ArrayBuffer | null {
  const k = new host.Bytes(key);
  const b = new host.Buffer(256);
  let n = host.kvGet(k.p, k.n, b.p, b.cap);
  if (!b.fits(n)) n = host.kvGet(k.p, k.n, b.p, b.cap);
  return n < 0 ? null : b.bytes(n);
}

/** Sets the value of a key; returns 0 or a negative number. The value is only kept if the
 * attempt ends normally. */
export function kvSet(key: string, value: string): i32 {
  return kvSetBytes(key, String.UTF8.encode(value));
}

/** Is kvSet for bytes. */
export function kvSetBytes(key: string, value: ArrayBuffer): i32 {
  const k = new host.Bytes(key);
  return host.kvSet(k.p, k.n, changetype<usize>(value), value.byteLength);
}

/** Removes a key, if it exists; returns 0 or a negative number. */
export function kvDelete(key: string): i32 {
  const k = new host.Bytes(key);
  return host.kvDelete(k.p, k.n);
}
