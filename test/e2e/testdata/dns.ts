// Dns asks its target for a name.

import { failure, lastError, resolve, Result, success } from "prober";

export function probe(): Result {
  const answer = resolve("db.test", "A", "target");
  if (answer === null) return failure(lastError());
  return success(answer.rcode + " " + (answer.records.length > 0 ? answer.records[0].data : ""));
}
