// @ts-check Draws histories. Rows of tables use a canvas, as 60 are on the screen; charts of one probe are
// SVG. A failure differs from a success in height too, and not only in colour.

import { STATES, h, s } from "./dom.js";
import { clock, took } from "./text.js";

const HEIGHTS = [1, 0.8, 0.55, 0.55]; // by index of STATES

/** @type {string[]} */
let colours = [];
let ink = "";

/** readColours reads the colours of the theme. */
export function readColours() {
  const style = getComputedStyle(document.documentElement);
  const probe = h("span");
  document.body.append(probe);
  const resolved = (/** @type {string} */ name) => {
    probe.style.color = style.getPropertyValue(name);
    return getComputedStyle(probe).color;
  };
  colours = STATES.map((state) => resolved(`--${state}`));
  ink = resolved("--muted");
  probe.remove();
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {number} width
 * @param {number} height
 */
function prepare(canvas, width, height) {
  const ratio = Math.min(devicePixelRatio || 1, 2);
  if (canvas.width !== width * ratio || canvas.height !== height * ratio) {
    canvas.width = width * ratio;
    canvas.height = height * ratio;
  }
  const g = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, width, height);
  return g;
}

/**
 * strip draws the results of the last ticks.
 * @param {HTMLCanvasElement} canvas
 * @param {Uint8Array} results
 */
export function strip(canvas, results) {
  const width = 100, height = 16, step = width / results.length;
  const g = prepare(canvas, width, height);
  for (let i = 0; i < results.length; i++) {
    const r = results[i];
    if (!r) continue;
    const tall = height * HEIGHTS[r - 1];
    g.fillStyle = colours[r - 1];
    if (r === 3) { // unknown is hollow
      g.strokeStyle = colours[2];
      g.strokeRect(i * step + 0.5, height - tall + 0.5, step - 2, tall - 1);
    } else g.fillRect(i * step, height - tall, step - 1, tall);
  }
}

/**
 * spark draws the durations of the last ticks as a line.
 * @param {HTMLCanvasElement} canvas
 * @param {Float32Array} seconds
 * @param {Uint8Array} results
 */
export function spark(canvas, seconds, results) {
  const width = 80, height = 16;
  const g = prepare(canvas, width, height);
  let top = 0, n = 0;
  for (let i = 0; i < seconds.length; i++) if (results[i]) { top = Math.max(top, seconds[i]); n++; }
  if (n < 2 || top <= 0) return;
  g.beginPath();
  let begun = false;
  for (let i = 0; i < seconds.length; i++) {
    if (!results[i]) continue;
    const x = 1 + (i * (width - 2)) / (seconds.length - 1), y = height - 1.5 - (seconds[i] / top) * (height - 3);
    if (begun) g.lineTo(x, y);
    else g.moveTo(x, y);
    begun = true;
  }
  g.strokeStyle = ink;
  g.lineWidth = 1.25;
  g.stroke();
}

/** widthOf returns the available width in a node, so that texts are not scaled. @param {Element} into */
function widthOf(into) {
  const style = getComputedStyle(into);
  const width = into.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  return width > 100 ? Math.round(width) : 560;
}

/**
 * latencyChart returns a chart of ticks, with a bar for each duration. A tick without a result leaves a gap.
 * @param {{result: string, durationSeconds: number, time: number, label?: string}[]} ticks the oldest first
 * @param {string} title
 * @param {Element} into whose width it has
 */
export function latencyChart(ticks, title, into) {
  const width = widthOf(into), height = 126, left = 52, bottom = 24;
  const top = Math.max(1e-6, ...ticks.map((t) => t.durationSeconds)) * 1.08;
  const y = (/** @type {number} */ v) => height - bottom - (v / top) * (height - bottom - 8);
  const step = (width - left) / Math.max(ticks.length, 20);
  const svg = s("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title });
  for (const v of [0, top / 2, top / 1.08]) {
    svg.append(s("line", { x1: left, x2: width, y1: y(v), y2: y(v), class: "rule" }),
      s("text", { x: left - 6, y: y(v) + 3.5, "text-anchor": "end" }, v ? took(v) : "0"));
  }
  ticks.forEach((t, i) => {
    if (!t.result) return;
    const x = width - (ticks.length - i) * step, tall = Math.max(1.5, height - bottom - y(t.durationSeconds));
    const bar = s("rect", { x: x + 0.5, y: height - bottom - tall, width: Math.max(1, step - 1.5), height: tall, class: `lat ${t.result}` });
    bar.append(s("title", {}, t.label ?? `${clock(t.time)}: ${t.result} in ${took(t.durationSeconds)}`));
    svg.append(bar);
    if (t.result !== "success") svg.append(s("path", { d: `M${x + 0.5} ${height - bottom + 4}h${Math.max(1, step - 1.5)}`, class: `under ${t.result}` }));
  });
  if (ticks.length) {
    const first = clock(ticks[0].time), last = clock(ticks[ticks.length - 1].time);
    if (ticks.length * step > 8 * (first.length + last.length)) svg.append(s("text", { x: width - ticks.length * step, y: height - 4 }, first)); // otherwise they overlap
    svg.append(s("text", { x: width, y: height - 4, "text-anchor": "end" }, last));
  }
  return svg;
}

/**
 * waterfall returns the events of a tick as bars. An event begins at the end of the previous one.
 * @param {any[]} events
 * @param {number} total seconds
 */
export function waterfall(events, total) {
  const sum = events.reduce((n, e) => n + (e.durationSeconds || 0), 0);
  const whole = Math.max(total || 0, sum, 1e-9);
  let at = 0;
  return events.map((e) => {
    const share = (e.durationSeconds || 0) / whole;
    const x = Math.min(at, 1 - Math.min(share, 1)) * 100;
    at += share;
    const svg = s("svg", { class: "fall", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
      s("rect", { x: 0, y: 4.5, width: 100, height: 1, class: "rail" }),
      s("rect", { x, y: 1, width: Math.max(share * 100, 0.6), height: 8, class: `event ${/^[a-z]+$/.test(e.type) ? e.type : ""}` }));
    return { event: e, svg };
  });
}

/**
 * timeline returns marks on time axes, one for each name.
 * @param {{name: string, marks: {time: number, text: string, state: string}[]}[]} lines
 * @param {number} from ms
 * @param {number} until ms
 * @param {Element} into whose width it has
 */
export function timeline(lines, from, until, into) {
  const width = widthOf(into), left = 120, row = 24, height = lines.length * row + 20;
  const x = (/** @type {number} */ t) => left + ((Math.min(Math.max(t, from), until) - from) / Math.max(1, until - from)) * (width - left - 8);
  const svg = s("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Restarts by time" });
  lines.forEach((l, i) => {
    const y = i * row + row / 2;
    svg.append(s("text", { x: 0, y: y + 4 }, l.name.length > 18 ? l.name.slice(0, 17) + "…" : l.name), s("line", { x1: left, x2: width - 8, y1: y, y2: y, class: "rule" }));
    for (const m of l.marks) {
      svg.append(s("path", { d: m.state === "failure" ? `M${x(m.time) - 4} ${y - 5}h8l-4 10z` : `M${x(m.time)} ${y - 6}v12`, class: `tick ${m.state}` },
        s("title", {}, `${clock(m.time)} ${m.text}`)));
    }
  });
  svg.append(s("text", { x: left, y: height - 4 }, clock(from)), s("text", { x: width - 8, y: height - 4, "text-anchor": "end" }, clock(until)));
  return svg;
}

/** logScale returns a function from a value to its place from 0 to 1, on a logarithmic scale of at least a decade. @param {number[]} values */
function logScale(values) {
  const seen = values.filter((v) => v > 0), low = Math.min(...seen), high = Math.max(...seen, low * 10);
  return { low, high, at: (/** @type {number} */ v) => Math.log(v / low) / Math.log(high / low) };
}

/** @typedef {{time: number, value: number, text: string}} Cell */

/**
 * heatMap returns a map with a row for each name and a column for each step. A darker cell is a longer duration.
 * @param {{name: string, cells: Cell[]}[]} rows
 * @param {{from: number, step: number, columns: number}} grid times in ms
 * @param {string} title
 * @param {Element} into whose width it has
 */
export function heatMap(rows, grid, title, into) {
  const width = widthOf(into), left = 84, tall = 20, top = 4, height = top + rows.length * tall + 42, wide = (width - left) / grid.columns;
  const scale = logScale(rows.flatMap((r) => r.cells.map((c) => c.value)));
  const shade = (/** @type {number} */ v) => (0.1 + 0.9 * Math.min(1, Math.max(0, scale.at(v)))).toFixed(2);
  const svg = s("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title });
  rows.forEach((r, i) => {
    const y = top + i * tall;
    svg.append(s("text", { x: 0, y: y + 13 }, r.name), s("rect", { x: left, y, width: width - left, height: tall - 2, class: "gap" }));
    for (const c of r.cells) {
      const column = Math.floor((c.time - grid.from) / grid.step);
      if (!(column >= 0 && column < grid.columns && c.value > 0)) continue;
      svg.append(s("rect", { x: (left + column * wide).toFixed(2), y, width: Math.max(1, wide - (wide > 4 ? 1 : 0)).toFixed(2), height: tall - 2, class: "heat-cell", "fill-opacity": shade(c.value) }, s("title", {}, c.text)));
    }
  });
  const y = top + rows.length * tall + 12;
  svg.append(...timeAxis(grid.from, grid.from + grid.columns * grid.step, left, width, y), ...legendOf(scale, left, width, y + 20));
  return svg;
}

/** legendOf shows which shade is which duration. @param {{low: number, high: number}} scale @param {number} left @param {number} width @param {number} y */
function legendOf(scale, left, width, y) {
  const steps = 8, each = 16, end = width - 60;
  const boxes = Array.from({ length: steps }, (_, i) => s("rect", { x: end - (steps - i) * each, y: y - 9, width: each - 1, height: 10, class: "heat-cell", "fill-opacity": (0.1 + (0.9 * i) / (steps - 1)).toFixed(2) }));
  return [s("text", { x: end - steps * each - 6, y, "text-anchor": "end" }, took(Number(scale.low.toPrecision(2)))), ...boxes, s("text", { x: end + 6, y }, took(Number(scale.high.toPrecision(2))))];
}

/** The distances of the marks of a time axis, in hours. */
const MARKS = [1, 3, 6, 12, 24, 48, 120, 240, 480];

/** markOf returns the words of a mark. @param {Date} at @param {number} hours between marks */
function markOf(at, hours) {
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  return hours < 24 && at.getHours() ? `${two(at.getHours())}:00` : `${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

/** timeAxis returns marks at full hours or at midnights of local time. @param {number} from @param {number} until @param {number} left @param {number} width @param {number} y */
function timeAxis(from, until, left, width, y) {
  const each = (width - left) / Math.max(1, until - from), hours = MARKS.find((m) => m * 3600_000 * each > 48) ?? 720;
  const all = [], at = new Date(from);
  at.setHours(0, 0, 0, 0);
  for (let n = 0; at.getTime() <= until && n < 1000; n++) {
    const x = left + (at.getTime() - from) * each;
    if (x >= left + 14 && x <= width - 14) all.push(s("line", { x1: x, x2: x, y1: y - 14, y2: y - 10, class: "mark-line" }), s("text", { x, y, "text-anchor": "middle" }, markOf(at, hours)));
    if (hours < 24) at.setHours(at.getHours() + hours);
    else at.setDate(at.getDate() + hours / 24);
  }
  return all;
}

/** roundValues returns powers of ten in a scale, with twice and five times of them if they are few. @param {{low: number, high: number}} scale */
function roundValues({ low, high }) {
  const factors = high / low < 100 ? [1, 2, 5] : [1], all = [];
  for (let ten = 10 ** Math.floor(Math.log10(low)); ten <= high; ten *= 10) all.push(...factors.map((f) => f * ten));
  return all.filter((v) => v >= low && v <= high * 1.001).slice(0, 12);
}

/**
 * lineChart returns lines of durations on a logarithmic scale. The first line is solid, others are dashed. A time without a
 * value is a gap.
 * @param {Cell[][]} lines
 * @param {{from: number, until: number, step: number}} axis times in ms
 * @param {string} title
 * @param {Element} into whose width it has
 */
export function lineChart(lines, axis, title, into) {
  const width = widthOf(into), height = 170, left = 60, bottom = 22, top = 8;
  const scale = logScale(lines.flat().map((c) => c.value));
  const x = (/** @type {number} */ t) => left + ((t + axis.step / 2 - axis.from) / Math.max(1, axis.until - axis.from)) * (width - left - 4);
  const y = (/** @type {number} */ v) => height - bottom - 6 - scale.at(v) * (height - bottom - top - 6);
  const svg = s("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title });
  if (!Number.isFinite(scale.low)) return svg;
  for (const v of roundValues(scale)) svg.append(s("line", { x1: left, x2: width, y1: y(v), y2: y(v), class: "rule" }), s("text", { x: left - 6, y: y(v) + 3.5, "text-anchor": "end" }, took(v)));
  lines.forEach((cells, i) => {
    let path = "", last = -Infinity;
    for (const c of cells.filter((c) => c.value > 0 && c.time >= axis.from && c.time < axis.until)) {
      path += `${c.time - last > axis.step * 1.5 ? "M" : "L"}${x(c.time).toFixed(1)} ${y(c.value).toFixed(1)}`;
      last = c.time;
      svg.append(s("circle", { cx: x(c.time).toFixed(1), cy: y(c.value).toFixed(1), r: cells.length > 60 ? 1.5 : 2.5, class: i ? "dot other" : "dot" }, s("title", {}, c.text)));
    }
    svg.append(s("path", { d: path || "M0 0", class: i ? "duration other" : "duration" }));
  });
  svg.append(...timeAxis(axis.from, axis.until, left, width, height - 4));
  return svg;
}
