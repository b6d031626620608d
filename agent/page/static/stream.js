// @ts-check
// Follows /api/v1/stream. It reads the response itself: an EventSource dispatches an event for each
// frame, and 10,000 probes send thousands in a second.

import { setClock } from "./text.js";
import { reasonOf } from "./api.js";
import * as store from "./store.js";

const PATIENCE = 40_000; // ms without a byte; a heartbeat comes every 15 s
const HIDDEN = 60_000; // ms after which a hidden tab disconnects

/** @type {AbortController | null} */
let current = null;
let hiddenSince = 0;

/** start follows the stream until the tab is closed. */
export function start() {
  follow();
  document.addEventListener("visibilitychange", () => {
    hiddenSince = document.hidden ? Date.now() : 0;
    if (!document.hidden) resume();
    else setTimeout(pauseIfHidden, HIDDEN + 500);
  });
  addEventListener("online", () => resume());
}

function pauseIfHidden() {
  if (!document.hidden || Date.now() - hiddenSince < HIDDEN) return;
  current?.abort("hidden");
}

/** @type {(() => void) | null} */
let wake = null;
function resume() {
  wake?.();
}

async function follow() {
  for (let attempt = 0; ; attempt++) {
    const began = Date.now();
    let why = "";
    try {
      await once();
      why = "the agent has ended the stream";
    } catch (e) {
      why = current?.signal.reason === "hidden" ? "hidden" : e instanceof Error ? e.message : String(e);
    }
    if (Date.now() - began > 10_000) attempt = 0;
    if (why === "hidden" && document.hidden) {
      store.setLink("paused");
      await new Promise((go) => (wake = () => go(null)));
      attempt = 0;
    } else {
      store.setLink(store.link.epoch ? "reconnecting" : "connecting", why);
      const delay = Math.min(5000, 250 * 2 ** Math.min(attempt, 5)) * (0.75 + Math.random() / 2);
      await new Promise((go) => { wake = () => go(null); setTimeout(go, delay); });
    }
    wake = null;
  }
}

async function once() {
  const abort = (current = new AbortController());
  let watchdog = setTimeout(() => abort.abort("silent"), PATIENCE);
  try {
    const response = await fetch("api/v1/stream?view=summary", { cache: "no-store", signal: abort.signal, headers: { Accept: "text/event-stream" } });
    setClock(response.headers.get("date"));
    if (!response.ok || !response.body) throw new Error(await reasonOf(response));
    store.connected();
    const parser = new Parser(store.receive);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(watchdog);
      watchdog = setTimeout(() => abort.abort("silent"), PATIENCE);
      store.stats.bytes += value.length;
      parser.feed(value);
    }
  } finally {
    clearTimeout(watchdog);
    abort.abort();
  }
}

const MAX_FRAME = 4 << 20; // characters; a longer one is not of this agent

/** Parser splits a stream of server-sent events. */
export class Parser {
  /** @param {(kind: string, object: any) => void} receive */
  constructor(receive) {
    this.receive = receive;
    this.rest = "";
  }

  /** @param {string} text */
  feed(text) {
    const all = this.rest + text;
    let from = 0;
    for (let end; (end = all.indexOf("\n\n", from)) >= 0; from = end + 2) this.frame(all.slice(from, end));
    this.rest = all.slice(from);
    if (this.rest.length > MAX_FRAME) throw new Error("the stream has a frame that does not end");
  }

  /** @param {string} frame */
  frame(frame) {
    const at = frame.indexOf("\ndata: ");
    if (!frame.startsWith("event: ") || at < 0) return; // a heartbeat
    let object;
    try {
      object = JSON.parse(frame.slice(at + 7));
    } catch {
      return;
    }
    this.receive(frame.slice(7, at), object);
  }
}
