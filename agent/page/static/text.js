// @ts-check Texts and times for people. Texts of targets, guests and users pass through clean before they are
// shown. They are only set as the text of a node, never as markup.

const BIDI = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g; // change the direction of the text around them
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029]/g;

/**
 * clean returns text without characters that move, hide or reorder others. Control characters become visible symbols,
 * and changes of direction U+FFFD. The text is cut to most characters.
 * @param {unknown} value
 * @param {number} most
 */
export function clean(value, most = 2000) {
  let text = typeof value === "string" ? value : value == null ? "" : String(value);
  if (text.length > most) {
    text = `${text.slice(0, most).toWellFormed?.() ?? text.slice(0, most)}… (${text.length.toLocaleString("en")} characters)`;
  }
  return text.replace(BIDI, "\ufffd").replace(CONTROL, (c) => {
    const code = c.charCodeAt(0);
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : code === 0x7f ? "\u2421" : "\ufffd";
  });
}

/**
 * line returns clean text on one line.
 * @param {unknown} value
 * @param {number} most
 */
export function line(value, most = 300) {
  return clean(value, most).replace(/\s+/g, " ").trim();
}

let skew = 0; // difference of the agent's clock from this one, in ms

/**
 * setClock sets the agent's clock from the Date header of a response.
 * @param {string | null} date
 */
export function setClock(date) {
  const agent = date ? Date.parse(date) : NaN;
  const off = agent - Date.now();
  skew = Number.isNaN(off) || Math.abs(off) < 2000 ? 0 : off;
}

/** now returns the time of the agent's clock, in ms. */
export const now = () => Date.now() + skew;

/**
 * when returns a time of the API in ms; NaN for none.
 * @param {string | undefined} time
 */
export function when(time) {
  const ms = time ? Date.parse(time) : NaN;
  return ms > 0 ? ms : NaN;
}

/**
 * took returns a duration for people, such as "1.2 ms" and "3 h 05 min".
 * @param {number} seconds
 */
export function took(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  const s = Math.abs(seconds);
  if (s < 0.001) return `${Math.round(s * 1e6)} µs`;
  if (s < 0.01) return `${(s * 1e3).toFixed(1)} ms`;
  if (s < 1) return `${Math.round(s * 1e3)} ms`;
  if (s < 10) return `${s.toFixed(1)} s`;
  return span(s);
}

/**
 * span returns a duration in whole seconds, minutes, hours or days.
 * @param {number} seconds
 */
export function span(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  const s = Math.max(0, Math.floor(seconds));
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  if (s < 60) return `${s} s`;
  if (s < 3600) return s < 600 ? `${Math.floor(s / 60)} min ${two(s % 60)} s` : `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${two(Math.floor((s % 3600) / 60))} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

/**
 * since returns the time since time for people; "–" if time is unknown.
 * @param {string | undefined} time
 */
export function since(time) {
  return span((now() - when(time)) / 1000);
}

/**
 * clock returns the time of day in the browser's zone, with the date if it is not today.
 * @param {number} ms
 */
export function clock(ms) {
  if (!Number.isFinite(ms)) return "–";
  const d = new Date(ms);
  const time = d.toLocaleTimeString("en-GB");
  if (d.toDateString() === new Date(now()).toDateString()) return time;
  return `${d.toLocaleDateString("en-CA")} ${time}`;
}

/**
 * bytes returns a size.
 * @param {number} n
 */
export function bytes(n) {
  if (!Number.isFinite(n)) return "–";
  if (n < 1024) return `${n} B`;
  if (n < 1 << 20) return `${(n / 1024).toFixed(1)} KiB`;
  return `${(n / (1 << 20)).toFixed(1)} MiB`;
}

/** @param {number} n */
export const count = (n) => (Number.isFinite(n) ? n.toLocaleString("en") : "–");

/**
 * objects returns the objects in a list from the agent; none if it is not a list.
 * @param {unknown} list
 * @returns {any[]}
 */
export const objects = (list) => (Array.isArray(list) ? list.filter((o) => o && typeof o === "object") : []);

/**
 * plural returns "1 probe" and "2 probes".
 * @param {number} n
 * @param {string} noun
 */
export const plural = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;

/**
 * percent returns a share as a percentage. It never rounds up to "100 %": that means no incident.
 * @param {unknown} share from 0 to 1
 */
export function percent(share) {
  if (typeof share !== "number") return "–";
  return share === 1 ? "100 %" : `${(Math.floor(share * 100_000) / 1000).toFixed(3)} %`;
}

/**
 * holds returns why a paused probe keeps its result: "paused", or the state that a user has forced. A summary
 * has it in its gate.
 * @param {any} p
 */
export function holds(p) {
  const gate = String(p.gate ?? "");
  if (/^(forced up|forced down|drained)$/.test(gate)) return gate;
  return p.forced === "up" || p.forced === "down" ? `forced ${p.forced}` : p.forced === "drained" ? "drained" : "paused";
}
