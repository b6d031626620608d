// Files describes and reads the file that its config names, and lists its folder.

import { configString, failure, fileList, fileRead, fileStat, fileStatfs, lastError, lookup, Result, success } from "prober";

export function probe(): Result {
  const path = configString("path", "");
  const folder = configString("folder", "");
  const info = fileStat(path);
  if (info === null) return failure(lastError());
  const list = fileList(folder);
  if (list === null) return failure(lastError());
  const system = fileStatfs(folder);
  if (system === null) return failure(lastError());
  const text = fileRead(path, 2, 64);
  if (text === null) return failure(lastError());
  const total = lookup(system, "total");
  const disk = total !== null && total != "0" ? "a disk" : "no disk";
  return success(or(lookup(info, "size")) + " bytes, " + or(lookup(list, "entries.0.name")) + ", " + String.UTF8.decode(text) + ", " + disk);
}

function or(text: string | null): string {
  return text === null ? "none" : text;
}
