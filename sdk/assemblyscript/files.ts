// Files of the host, for reading. The manifest requests the capability "files". A path is absolute, without "." and
// "..".

import * as host from "./host";

/** Returns a file as JSON, {"type": "file", "size": 10, "mtime": 1700000000}, or null. */
export function fileStat(path: string): string | null {
  const k = new host.Bytes(path);
  const b = new host.Buffer(256);
  let n = host.filesStat(k.p, k.n, b.p, b.cap);
  if (!b.fits(n)) n = host.filesStat(k.p, k.n, b.p, b.cap);
  return n < 0 ? null : String.UTF8.decode(b.bytes(n));
}

/** Returns the file system of a path as JSON, {"total": 100, "free": 50, "available": 40}, or null. */
export function fileStatfs(path: string): string | null {
  const k = new host.Bytes(path);
  const b = new host.Buffer(256);
  let n = host.filesStatfs(k.p, k.n, b.p, b.cap);
  if (!b.fits(n)) n = host.filesStatfs(k.p, k.n, b.p, b.cap);
  return n < 0 ? null : String.UTF8.decode(b.bytes(n));
}

/** Returns the entries of a folder as JSON, {"entries": [{"name": "a", "type": "file"}]}, or null. */
export function fileList(path: string): string | null {
  const k = new host.Bytes(path);
  const b = new host.Buffer(4096);
  let n = host.filesList(k.p, k.n, b.p, b.cap);
  if (!b.fits(n)) n = host.filesList(k.p, k.n, b.p, b.cap);
  return n < 0 ? null : String.UTF8.decode(b.bytes(n));
}

/** Reads at most most bytes of a regular file from an offset on, or returns null. No bytes are the end. */
export function fileRead(path: string, offset: i64, most: i32): ArrayBuffer | null {
  const k = new host.Bytes(path);
  const b = new host.Buffer(most);
  const n = host.filesRead(k.p, k.n, offset, b.p, b.cap);
  return n < 0 ? null : b.bytes(n);
}

/** Returns at most the first most bytes of a regular file as a string, or null. */
export function fileText(path: string, most: i32): string | null {
  const bytes = fileRead(path, 0, most);
  return bytes === null ? null : String.UTF8.decode(bytes);
}
