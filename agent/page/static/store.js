// @ts-check The state of the page: probes, pods and events from the stream. Changes are applied in batches,
// one per animation frame. A hidden tab applies them once a second and draws nothing.

import { COUNTED, STATES } from "./dom.js";
import { line, now, objects, when } from "./text.js";

const TICKS = 20; // kept in the history of a probe
const MAX_PROBES = 200_000;
const MAX_EVENTS = 1000;
const KEEP_STALE = 5000; // ms until objects that a new connection has not sent are removed
const MIN_PAUSE = 100; // ms between two batches

/**
 * @typedef {object} Row a probe
 * @property {string} key
 * @property {any} p the newest summary
 * @property {string} name for sorting
 * @property {string} text for searching
 * @property {string} state the value that it is counted by: its state, "paused" or "maintenance"
 * @property {number} sinceMs
 * @property {number} slot in the histories
 * @property {number} version changes with the row
 * @property {number} epoch
 * @property {boolean} asked for its history
 */

/** @type {Map<string, Row>} */
export const probes = new Map();
/** @type {Map<string, any>} */
export const pods = new Map();
/** @type {Map<string, any>} */
export const events = new Map();
/** @type {Record<string, number>} */
export const counts = { failure: 0, warning: 0, unknown: 0, paused: 0, maintenance: 0, success: 0 };

export const link = { state: "connecting", epoch: 0, since: 0, heard: 0, lost: 0, text: "" };

/** Counters of changes, for views: of added and removed rows, of states, and of any field of probes, pods and events. */
export const version = { members: 0, states: 0, probes: 0, pods: 0, events: 0 };

export const stats = { frames: 0, batches: 0, bytes: 0, spent: 0 };

/** @type {Set<() => void>} */
const readers = new Set();
/** @type {Set<(changes: {name: string, from: string, to: string}[]) => void>} */
const listeners = new Set();

/**
 * watch calls f after each batch, until the returned function is called.
 * @param {() => void} f
 */
export function watch(f) {
  readers.add(f);
  return () => void readers.delete(f);
}

/**
 * onStates calls f with the changes of states of each batch.
 * @param {(changes: {name: string, from: string, to: string}[]) => void} f
 */
export function onStates(f) {
  listeners.add(f);
}

// The histories of all probes share two arrays: for 10,000 probes, an array each would take more memory than
// its contents.
let seconds = new Float32Array(0);
let results = new Uint8Array(0); // 1 + index of STATES; 0: no tick
/** @type {number[]} */
const free = [];
let slots = 0;

function newSlot() {
  const reused = free.pop();
  if (reused !== undefined) return reused;
  if ((slots + 1) * TICKS > results.length) {
    const size = Math.max(64, slots * 2) * TICKS;
    const s = new Float32Array(size), r = new Uint8Array(size);
    s.set(seconds);
    r.set(results);
    seconds = s;
    results = r;
  }
  return slots++;
}

/**
 * history returns the last ticks of a row, oldest first. A result of 0 means no tick.
 * @param {Row} row
 */
export function history(row) {
  const at = row.slot * TICKS;
  return { seconds: seconds.subarray(at, at + TICKS), results: results.subarray(at, at + TICKS) };
}

/**
 * @param {Row} row
 * @param {string} result
 * @param {number} duration
 */
function addTick(row, result, duration) {
  const at = row.slot * TICKS, end = at + TICKS - 1;
  seconds.copyWithin(at, at + 1, end + 1);
  results.copyWithin(at, at + 1, end + 1);
  seconds[end] = duration;
  results[end] = 1 + Math.max(0, STATES.indexOf(result));
}

/**
 * setHistory sets the past ticks of a probe, newest first.
 * @param {Row} row
 * @param {any[]} ticks
 */
export function setHistory(row, ticks) {
  results.fill(0, row.slot * TICKS, row.slot * TICKS + TICKS);
  for (const t of ticks.slice(0, TICKS).reverse()) addTick(row, t.result, t.durationSeconds);
  const last = row.p.last;
  if (last && (!ticks.length || when(last.time) > when(ticks[0].time))) addTick(row, last.result, last.durationSeconds);
  version.probes++;
  row.version++;
  schedule();
}

/** @type {Map<string, any>} the newest state of each object that has changed */
let pending = new Map();
/** @type {{name: string, from: string, to: string}[]} */
let changes = [];
let scheduled = false, lastBatch = 0;

/**
 * receive takes objects of the stream.
 * @param {string} kind
 * @param {any} o
 */
export function receive(kind, o) {
  if (!o || typeof o !== "object") return;
  stats.frames++;
  link.heard = Date.now();
  if (kind === "probe") {
    if (typeof o.uid === "string" && typeof o.pod === "string") pending.set(`p${o.uid}/${o.container}/${o.kind}`, o);
  } else if (kind === "pod") {
    if (typeof o.uid === "string" && typeof o.name === "string") pending.set(`o${o.uid}`, o);
  } else if (kind === "event" && typeof o.metadata?.name === "string") {
    pending.set(`e${o.metadata.name}`, o);
  }
  schedule();
}

/**
 * snapshot returns all objects with their kinds, as arguments for receive. Newer versions of an object come later.
 * @returns {[string, any][]}
 */
export function snapshot() {
  const kinds = { p: "probe", o: "pod", e: "event" };
  return [
    .../** @type {[string, any][]} */ ([...probes.values()].map((row) => ["probe", row.p])),
    .../** @type {[string, any][]} */ ([...pods.values()].map((pod) => ["pod", pod])),
    .../** @type {[string, any][]} */ ([...events.values()].map((e) => ["event", e])),
    .../** @type {[string, any][]} */ ([...pending].map(([key, o]) => [kinds[/** @type {"p"} */ (key[0])], o])),
  ];
}

export function schedule() {
  if (scheduled) return;
  scheduled = true;
  if (document.hidden) setTimeout(apply, 1000);
  else {
    const wait = MIN_PAUSE - (performance.now() - lastBatch);
    if (wait > 0) setTimeout(() => requestOrApply(), wait);
    else requestOrApply();
  }
}

// A hidden tab gets no animation frames, so a timer takes over.
function requestOrApply() {
  if (document.hidden) return apply();
  requestAnimationFrame(apply);
}

function apply() {
  if (!scheduled) return;
  scheduled = false;
  const start = performance.now();
  lastBatch = start;
  const batch = pending;
  pending = new Map();
  for (const [key, o] of batch) {
    if (key[0] === "p") applyProbe(key.slice(1), o);
    else if (key[0] === "o") applyPod(key.slice(1), o);
    else applyEvent(key.slice(1), o);
  }
  if (!document.hidden) for (const f of readers) f();
  if (changes.length) {
    for (const f of listeners) f(changes);
    changes = [];
  }
  stats.batches++;
  stats.spent += performance.now() - start;
}
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) for (const f of readers) f();
});

/**
 * @param {string} key
 * @param {any} o
 */
function applyProbe(key, o) {
  let row = probes.get(key);
  version.probes++;
  if (o.removed) {
    if (row) dropProbe(row);
    return;
  }
  if (!row && probes.size >= MAX_PROBES) return;
  const state = o.paused ? "paused" : o.maintenance ? "maintenance" : STATES.includes(o.state) ? o.state : STATES.includes(o.result) ? o.result : "unknown";
  const sinceMs = when(o.stateSince);
  if (!row) {
    const name = `${o.namespace}/${o.pod}/${o.container}/${o.kind}`;
    row = { key, p: o, name, text: "", state, sinceMs, slot: newSlot(), version: 0, epoch: 0, asked: false };
    results.fill(0, row.slot * TICKS, row.slot * TICKS + TICKS);
    probes.set(key, row);
    counts[state]++;
    version.members++;
    version.states++;
    if (o.last) addTick(row, o.last.result, o.last.durationSeconds);
  } else {
    if (o.last && when(o.last.time) > (row.p.last ? when(row.p.last.time) : 0)) addTick(row, o.last.result, o.last.durationSeconds);
    if (state !== row.state) {
      changes.push({ name: row.name, from: row.state, to: state });
      counts[row.state]--;
      counts[state]++;
      version.states++;
    }
    if (sinceMs !== row.sinceMs) version.states++;
    row.p = o;
    row.state = state;
    row.sinceMs = sinceMs;
  }
  row.text = "";
  row.version++;
  row.epoch = link.epoch;
}

/** @param {Row} row */
function dropProbe(row) {
  probes.delete(row.key);
  free.push(row.slot);
  counts[row.state]--;
  version.members++;
  version.states++;
}

/**
 * textOf returns the searchable text, in lower case.
 * @param {Row} row
 */
export function textOf(row) {
  const p = row.p;
  row.text ||= `${row.name} ${p.handler} ${line(p.target ?? "", 300)} ${row.state} ${p.state ?? ""} ${line(p.last?.text ?? "", 200)}`.toLowerCase();
  return row.text;
}

/**
 * @param {string} key
 * @param {any} o
 */
function applyPod(key, o) {
  version.pods++;
  if (o.removed) pods.delete(key);
  else pods.set(key, { ...o, containers: objects(o.containers), labels: o.labels && typeof o.labels === "object" ? o.labels : undefined, epoch: link.epoch });
}

/**
 * @param {string} key
 * @param {any} o
 */
function applyEvent(key, o) {
  version.events++;
  events.delete(key); // keep the newest last
  events.set(key, o);
  if (events.size > MAX_EVENTS) events.delete(/** @type {string} */ (events.keys().next().value));
}

/**
 * connected begins an epoch: objects that it does not send within KEEP_STALE are removed.
 */
export function connected() {
  link.epoch++;
  link.since = Date.now();
  setLink("live");
  const epoch = link.epoch;
  setTimeout(() => {
    if (link.epoch !== epoch || link.state !== "live") return;
    for (const row of probes.values()) if (row.epoch < epoch) dropProbe(row);
    for (const [key, pod] of pods) if (pod.epoch < epoch && pods.delete(key)) version.pods++;
    schedule();
  }, KEEP_STALE);
}

/**
 * setLink sets the state of the connection: "connecting", "live", "reconnecting" or "paused".
 * @param {string} state
 * @param {string} text why
 */
export function setLink(state, text = "") {
  link.state = state;
  link.text = text;
  link.lost = state === "live" || state === "paused" ? 0 : link.lost || Date.now();
  if (document.hidden) for (const f of listeners) f([]); // the title of a hidden tab shows the state
  schedule();
}

const FILLED = 1500; // ms after which a new connection has sent all

/** loading reports whether the agent has not sent all objects yet. */
export const loading = () => link.state !== "live" || Date.now() - link.since < FILLED;

/**
 * worst returns the state of all probes together.
 */
export function worst() {
  return STATES.find((s) => counts[s] > 0) ?? (counts.paused + counts.maintenance > 0 ? "success" : "unknown");
}

/** @type {Map<string, string>} */
let worstStates = new Map();
let worstVersion = -1;

/**
 * worstOf returns the worst counted value of a pod's probes; "" if it has no probes.
 * @param {string} namespace
 * @param {string} pod
 */
export function worstOf(namespace, pod) {
  if (worstVersion !== version.states) {
    worstVersion = version.states;
    worstStates = new Map();
    for (const r of probes.values()) {
      const key = `${r.p.namespace}/${r.p.pod}`, had = worstStates.get(key);
      if (had === undefined || COUNTED.indexOf(r.state) < COUNTED.indexOf(had)) worstStates.set(key, r.state);
    }
  }
  return worstStates.get(`${namespace}/${pod}`) ?? "";
}

/**
 * labelsOf returns the labels of a pod; undefined if the pod is not known.
 * @param {string} uid
 * @returns {Record<string, string> | undefined}
 */
export const labelsOf = (uid) => pods.get(uid)?.labels;

/** @type {Map<string, string>} */
let uids = new Map();
let uidsVersion = -1;

/**
 * labelsOfName returns the labels of the pod with a name.
 * @param {string} namespace
 * @param {string} name
 */
export function labelsOfName(namespace, name) {
  if (uidsVersion !== version.pods) {
    uidsVersion = version.pods;
    uids = new Map([...pods].map(([uid, pod]) => [`${pod.namespace}/${pod.name}`, uid]));
  }
  return labelsOf(uids.get(`${namespace}/${name}`) ?? "");
}

/** @param {any} e an event */
export const eventTime = (e) => when(e.lastTimestamp) || when(e.eventTime) || when(e.metadata?.creationTimestamp);

/** failing returns the rows in the state, newest first. @param {string} state */
export function inState(state) {
  const rows = [...probes.values()].filter((r) => r.state === state);
  const end = now();
  return rows.sort((a, b) => (b.sinceMs || end) - (a.sinceMs || end) || (a.name < b.name ? -1 : 1));
}
