// Icmp pings its target.

import { EchoRequest, failure, lastError, lookup, Result, success } from "prober";

export function probe(): Result {
  const request = new EchoRequest();
  request.payload = 1400;
  const reply = request.send();
  if (reply === null) return failure(lastError());
  const payload = lookup(reply.json, "payload");
  return success(reply.remote + " replied with " + (payload === null ? "no" : payload) + " bytes");
}
