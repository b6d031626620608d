// @ts-check The durations of one probe over hours and days: a heat map of its ticks and their phases, and their
// percentiles.

import { ask, Failed, pathOf, unanswered } from "./api.js";
import { fill, h, said, section } from "./dom.js";
import { heatMap } from "./draw.js";
import { clock, count, line, now, objects, took, when } from "./text.js";

/** The percentiles: the field of the API, the name, and what it says. */
export const PERCENTILES = [["p50Seconds", "p50", "half of the ticks"], ["p90Seconds", "p90", "90 % of the ticks"], ["p99Seconds", "p99", "99 % of the ticks"]];
export const WHOLE = "whole tick";

const EACH = 60_000; // ms between requests
const PHASES = 16; // limit of shown phases
const COLUMNS = 400; // limit of steps

/** tracksOf returns the whole ticks and the phases of a ProbeDurations. @param {any} d */
export const tracksOf = (d) => [{ ...d, name: WHOLE }, ...objects(d?.phases).slice(0, PHASES)].map((t) => ({ ...t, ticks: Number(t.ticks) || 0, points: objects(t.points).filter((p) => when(p.time) > 0).slice(-COLUMNS) }));

/** estimate returns a duration with the two digits that are known of a percentile. @param {any} seconds */
export const estimate = (seconds) => (seconds > 0 ? took(Number(Number(seconds).toPrecision(2))) : "–");

/** Durations is the section of the durations. It is hidden if the agent keeps no history. */
export class Durations {
  /**
   * @param {{namespace: string, pod: string, container: string, kind: string}} of
   * @param {import("./past.js").Span} span
   * @param {(d: any) => void} loaded is called with each response
   */
  constructor(of, span, loaded) {
    this.of = of;
    this.span = span;
    this.loaded = loaded;
    this.asked = this.number = 0;
    this.closed = false;
    this.field = PERCENTILES[1][0];
    /** @type {any} */
    this.last = null;
    this.map = h("div.heat");
    this.table = h("div");
    this.buttons = PERCENTILES.map(([field, name, words]) => h("button.chip", { type: "button", title: words, onclick: () => { this.field = field; this.show(); } }, name));
    this.chips = h("div.tools-row", {}, this.span.chips(), h("div.chips", { role: "group", "aria-label": "Percentile" }, this.buttons));
    this.content = h("div", {}, this.chips, this.map, this.table);
    this.node = section("Durations", this.content);
    this.node.hidden = true;
    this.load();
  }

  tick() {
    if (Date.now() - this.asked > EACH) this.load();
  }

  close() {
    this.closed = true;
  }

  async load() {
    const number = ++this.number;
    this.asked = Date.now();
    try {
      const d = await ask(`${pathOf(this.of)}/durations?since=${this.span.since}`);
      if (this.closed || number !== this.number) return;
      this.last = d;
      this.show();
      this.loaded(d);
    } catch (e) {
      if (this.closed || number !== this.number || unanswered(e) && this.last) return;
      this.node.hidden = e instanceof Failed && [400, 404, 405].includes(e.status);
      fill(this.map, h("p.none", {}, line(e instanceof Error ? e.message : e)));
      fill(this.table);
    }
  }

  show() {
    const d = this.last, tracks = tracksOf(d), name = PERCENTILES.find(([field]) => field === this.field)?.[1] ?? "";
    this.node.hidden = false;
    this.buttons.forEach((b, i) => b.setAttribute("aria-pressed", String(PERCENTILES[i][0] === this.field)));
    if (!(d?.ticks > 0)) {
      fill(this.map, h("p.none", {}, "No durations are kept of this time."));
      fill(this.table);
      return;
    }
    const open = this.table.querySelector("details")?.open ?? false;
    fill(this.map, heatMap(rowsOf(tracks, this.field), axisOf(d), `${name} of each ${stepOf(d)}, by phase; the table below has the values`, this.map));
    fill(this.table, percentileTable(tracks), pointsTable(d, tracks, this.field, name, open));
  }
}

/** axisOf returns the whole steps of a response, in ms. @param {any} d a ProbeDurations */
export function axisOf(d) {
  const step = Math.max(3600, Number(d?.stepSeconds) || 0) * 1000, given = when(d?.until), until = given > 0 ? given : now();
  const since = when(d?.since), from = Math.floor((since > 0 && since < until ? since : until - 24 * step) / step) * step;
  const columns = Math.min(COLUMNS, Math.ceil((until - from) / step));
  return { from, step, columns, until: from + columns * step };
}

/** @param {any} d */
function stepOf(d) {
  const hours = Math.round((Number(d.stepSeconds) || 3600) / 3600);
  return hours === 1 ? "hour" : `${hours} hours`;
}

/** @param {any[]} tracks @param {string} field */
const rowsOf = (tracks, field) => tracks.map((t) => ({
  name: line(t.name, 20),
  cells: t.points.map((/** @type {any} */ p) => ({ time: when(p.time), value: Number(p[field]) || 0, text: `${clock(when(p.time))} ${line(t.name, 40)}: ${PERCENTILES.map(([f, name]) => `${name} ${estimate(p[f])}`).join(", ")}, ${count(Number(p.ticks) || 0)} ticks` })),
}));

/** percentileTable has the percentiles of the whole time. @param {any[]} tracks */
function percentileTable(tracks) {
  const head = h("tr", {}, h("th", { scope: "col" }, "Duration"), PERCENTILES.map(([, name]) => h("th.num", { scope: "col" }, name)), h("th.num", { scope: "col" }, "Ticks"));
  const rows = tracks.map((t) => h("tr", {}, h("th", { scope: "row" }, said(t.name, 40)), PERCENTILES.map(([field]) => h("td.num", {}, estimate(t[field]))), h("td.num", {}, count(t.ticks))));
  return h("table.plain.percentiles", { "data-part": "percentiles" }, h("caption.unseen", {}, "Percentiles of the durations"), h("thead", {}, head), h("tbody", {}, rows));
}

/**
 * pointsTable has the values of the heat map, for readers that do not see it.
 * @param {any} d @param {any[]} tracks @param {string} field @param {string} name of the percentile @param {boolean} open
 */
function pointsTable(d, tracks, field, name, open) {
  const times = [...new Set(tracks.flatMap((t) => t.points.map((/** @type {any} */ p) => when(p.time))))].sort((a, b) => b - a);
  const by = tracks.map((t) => new Map(t.points.map((/** @type {any} */ p) => [when(p.time), p[field]])));
  const head = h("tr", {}, h("th", { scope: "col" }, "From"), tracks.map((t) => h("th.num", { scope: "col" }, said(t.name, 20))));
  const rows = times.map((time) => h("tr", {}, h("th", { scope: "row" }, clock(time)), by.map((values) => h("td.num", {}, estimate(values.get(time))))));
  return h("details.values", { open }, h("summary", {}, `${name} of each ${stepOf(d)} as a table`),
    h("div.scroll-x", { tabindex: 0, role: "region", "aria-label": "Values of the heat map" }, h("table.plain", {}, h("thead", {}, head), h("tbody", {}, rows))));
}
