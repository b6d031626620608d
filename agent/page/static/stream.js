// @ts-check Follows /api/v1/stream. It reads the response itself, as an EventSource dispatches an event for
// each frame, and 10,000 probes send thousands of frames a second.
//
// Over HTTP/1.1 a browser has six connections to an agent, and a stream uses one permanently. So one visible
// tab, the holder of a lock, reads the stream for all tabs. It sends frames over a channel, and its whole
// state to a tab that says hello. When the tab is closed or hidden, another tab gets the lock. Without locks,
// as over plain HTTP to another host, each visible tab reads its own stream.

import { setClock } from "./text.js";
import { reasonOf } from "./api.js";
import * as store from "./store.js";

const PATIENCE = 40_000; // ms without data; there is a heartbeat every 15 s
const HIDDEN = 5_000; // ms until a hidden tab ends its stream
const NAME = `prober-stream ${location.pathname}`; // of the lock and the channel
const ME = Math.random().toString(36).slice(2);
const shared = "locks" in navigator && "BroadcastChannel" in globalThis;

/** @type {BroadcastChannel | null} */
let channel = null;
/** @type {AbortController | null} while this tab reads the stream, or waits for the lock */
let turn = null;
let reading = false; // this tab has the lock
let gone = false; // the browser has frozen this tab
let hiding = 0; // the timer of a hidden tab
let silence = 0; // the timer of a tab that receives frames from another tab
/** @type {Parser} for frames from another tab */
let parser;

/** start follows the stream until the tab is closed. */
export function start() {
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hiding);
    if (document.hidden) hiding = setTimeout(() => turn?.abort("hidden"), HIDDEN);
    else join();
  });
  addEventListener("pagehide", leave);
  addEventListener("pageshow", (e) => { if (e.persisted) join(); });
  document.addEventListener("freeze", leave); // messages to a frozen tab would accumulate
  document.addEventListener("resume", join);
  addEventListener("online", () => wake?.());
  join();
  if (document.hidden) store.setLink("paused");
}

/** join follows the stream of another tab, and reads the stream if no tab does. */
function join() {
  gone = false;
  wake?.();
  if (shared && !channel) {
    channel = new BroadcastChannel(NAME);
    channel.onmessage = (e) => hear(e.data);
  }
  if (store.link.state !== "live") channel?.postMessage({ hello: ME });
  if (!document.hidden && !turn) takeTurn();
}

/** leave stops following. */
function leave() {
  gone = true;
  turn?.abort("hidden");
  clearTimeout(silence);
  channel?.close();
  channel = null;
  store.setLink("paused");
}

async function takeTurn() {
  const mine = (turn = new AbortController());
  try {
    if (shared) await navigator.locks.request(NAME, { signal: mine.signal }, () => follow(mine.signal));
    else await follow(mine.signal);
  } catch {
    if (!mine.signal.aborted) await follow(mine.signal); // this page must not use locks
  }
  turn = null;
  if (!document.hidden && !gone) takeTurn(); // the tab is visible again
}

/** hear handles a message from another tab. @param {any} m */
function hear(m) {
  if (!m || typeof m !== "object") return;
  if (m.hello && reading) channel?.postMessage({ to: m.hello, connected: true, items: store.snapshot(), link: store.link.state, why: store.link.text });
  if (reading || m.hello || m.to && m.to !== ME) return;
  clearTimeout(silence);
  silence = setTimeout(() => { if (!reading) store.setLink("paused"); }, PATIENCE);
  if (m.connected) {
    if (m.date) setClock(m.date);
    store.connected();
    parser = new Parser(store.receive);
  }
  if (Array.isArray(m.items)) for (const [kind, o] of m.items) store.receive(kind, o);
  if (typeof m.text === "string" && parser) {
    store.stats.bytes += m.text.length;
    parser.feed(m.text);
  }
  if (typeof m.link === "string") store.setLink(m.link, String(m.why ?? ""));
}

/** show sets the state of the connection here and in the other tabs. @param {string} state */
function show(state, why = "") {
  store.setLink(state, why);
  channel?.postMessage({ link: state, why });
}

/** @type {(() => void) | null} */
let wake = null;

/** follow reads the stream until signal. @param {AbortSignal} signal */
async function follow(signal) {
  reading = true;
  clearTimeout(silence);
  if (store.link.state === "paused") store.setLink(store.link.epoch ? "reconnecting" : "connecting");
  signal.addEventListener("abort", () => wake?.());
  for (let attempt = 0; !signal.aborted; attempt++) {
    const began = Date.now();
    let why = "";
    try {
      await once(signal);
      why = "the agent has ended the stream";
    } catch (e) {
      // The browser's texts of a lost connection say nothing.
      why = e === "silent" ? `it has been silent for ${PATIENCE / 1000} s` : e instanceof TypeError ? "" : e instanceof Error ? e.message : String(e);
    }
    if (signal.aborted) break;
    if (Date.now() - began > 10_000) attempt = 0;
    show(store.link.epoch ? "reconnecting" : "connecting", why);
    const delay = Math.min(5000, 250 * 2 ** Math.min(attempt, 5)) * (0.75 + Math.random() / 2);
    await new Promise((go) => { wake = () => go(null); setTimeout(go, delay); });
    wake = null;
  }
  reading = false;
  show("paused");
}

/** once reads a single response. @param {AbortSignal} signal */
async function once(signal) {
  const abort = new AbortController();
  const end = () => abort.abort(signal.reason);
  signal.addEventListener("abort", end);
  let watchdog = setTimeout(() => abort.abort("silent"), PATIENCE);
  try {
    const response = await fetch("api/v1/stream?view=summary", { cache: "no-store", signal: abort.signal, headers: { Accept: "text/event-stream" } });
    const date = response.headers.get("date");
    setClock(date);
    if (!response.ok || !response.body) throw new Error(await reasonOf(response));
    store.connected();
    channel?.postMessage({ connected: true, date, link: "live" });
    const own = new Parser(store.receive);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(watchdog);
      watchdog = setTimeout(() => abort.abort("silent"), PATIENCE);
      store.stats.bytes += value.length;
      const text = own.feed(value);
      if (text) channel?.postMessage({ text });
    }
  } finally {
    clearTimeout(watchdog);
    signal.removeEventListener("abort", end);
    abort.abort();
  }
}

const MAX_FRAME = 4 << 20; // characters; agents send no longer frames

/** Parser splits a stream of server-sent events. */
export class Parser {
  /** @param {(kind: string, object: any) => void} receive */
  constructor(receive) {
    this.receive = receive;
    this.rest = "";
  }

  /** feed returns the frames that text completes. @param {string} text */
  feed(text) {
    const all = this.rest + text;
    let from = 0;
    for (let end; (end = all.indexOf("\n\n", from)) >= 0; from = end + 2) this.frame(all.slice(from, end));
    this.rest = all.slice(from);
    if (this.rest.length > MAX_FRAME) throw new Error("the stream has a frame that does not end");
    return all.slice(0, from);
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
