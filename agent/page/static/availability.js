// @ts-check
// The availability of each probe, from the history in the agent's state directory.

import { ask, Failed, unanswered } from "./api.js";
import { Name, attr, fill, h, icon, linkOf, put, said } from "./dom.js";
import { Grid } from "./grid.js";
import { searchBox } from "./lists.js";
import { RANGES } from "./past.js";
import { Slos } from "./slo.js";
import * as store from "./store.js";
import { clock, count, line, objects, percent, plural, span, when } from "./text.js";

const DAY = 24 * 3600_000; // ms
/** The bars of each range: of hours, or of days. */
const BARS = /** @type {Record<string, {count: number, each: number}>} */ ({ "24h": { count: 24, each: 3600_000 }, "7d": { count: 7, each: DAY }, "30d": { count: 30, each: DAY } });

/** @param {any} r */
const stateOf = (r) => (typeof r.uptime !== "number" ? "unknown" : r.uptime === 1 ? "success" : r.incidents?.[0] && !r.incidents[0].end ? "failure" : "warning");

/** @param {any} r */
const downFor = (r) => Number(r.seconds?.failure) || 0;
/** knownFor returns for how many seconds the state was known. @param {any} r */
const knownFor = (r) => downFor(r) + (Number(r.seconds?.success) || 0) + (Number(r.seconds?.warning) || 0);

/** showBars shows the uptime of each hour or day, oldest first. @param {Element} into @param {any} r */
function showBars(into, r) {
  const parts = Array.isArray(r.parts) ? r.parts : [], { start, each } = r.bars;
  const state = (/** @type {any} */ up) => (typeof up !== "number" ? "unknown" : up === 1 ? "success" : up >= 0.95 ? "warning" : "failure");
  const bad = parts.filter((/** @type {any} */ up) => typeof up === "number" && up < 1).length;
  attr(into, "aria-label", parts.length ? `${bad} of ${plural(parts.length, each < DAY ? "hour" : "day")} with incidents` : "nothing is known");
  fill(into, ...parts.map((/** @type {any} */ up, /** @type {number} */ i) => h("i", { "data-state": state(up), title: `from ${clock(start + i * each)}: ${typeof up === "number" ? percent(up) : "not known"}` })));
}

/** @type {import("./grid.js").Column<any>[]} */
const COLUMNS = [
  { title: "Probe", name: "probe", order: "name", by: (r) => `${r.namespace}/${r.pod}/${r.container}/${r.kind}`, make: (cell) => {
    const mark = h("span.mark"), name = new Name();
    cell.append(mark, name.node);
    return (r) => { fill(mark, icon(stateOf(r))); name.show(r, r.kind); };
  } },
  { title: "Uptime", name: "state num", order: "uptime", by: (r) => r.uptime ?? 2, make: (cell) => (r) => put(cell, percent(r.uptime)) },
  { title: "Known for", name: "known num", order: "known", by: knownFor, make: (cell) => (r) => put(cell, knownFor(r) ? span(knownFor(r)) : "–") },
  { title: "Incidents", name: "took num", order: "incidents", by: (r) => r.incidentCount ?? 0, down: true, make: (cell) => (r) => put(cell, count(r.incidentCount ?? 0)) },
  { title: "Down for", name: "since num", order: "down", by: downFor, down: true, make: (cell) => (r) => put(cell, downFor(r) ? span(downFor(r)) : "–") },
  { title: "Longest", name: "longest num", order: "longest", by: (r) => r.longestSeconds ?? 0, down: true, make: (cell) => (r) => put(cell, r.longestSeconds ? span(r.longestSeconds) : "–") },
  { title: "Unknown for", name: "address num", order: "unknown", by: (r) => r.seconds?.unknown ?? 0, down: true, make: (cell) => (r) => put(cell, r.seconds?.unknown ? span(r.seconds.unknown) : "–") },
  { title: "Over time", name: "strip", make: (cell) => {
    const into = h("span.bars", { role: "img" });
    cell.append(into);
    let shown = "";
    return (r) => {
      const key = JSON.stringify([r.bars, r.parts]);
      if (key !== shown) showBars(into, r);
      shown = key;
    };
  } },
  { title: "Last incident", name: "output", make: (cell) => {
    const into = h("bdi");
    cell.append(into);
    return (r) => {
      const i = r.incidents?.[0];
      put(into, i ? line(`${clock(when(i.start))}, ${i.end ? span(i.durationSeconds) : "lasts on"}: ${i.reason ?? ""} ${i.text ?? ""}`, 300) : "");
    };
  } },
];

/**
 * @param {import("./app.js").Route} route
 * @returns {import("./app.js").View}
 */
export function availability(route) {
  const box = searchBox(route, "Search probes"), summary = h("span.summary"), note = h("div"), slos = new Slos();
  const grid = new Grid({ route, label: "Availability", name: "availability", columns: COLUMNS, key: (r) => `${r.namespace}/${r.pod}/${r.container}/${r.kind}`, href: (r) => linkOf(r), empty: "No probe matches." });
  const buttons = RANGES.map(([range, words]) => h("button.chip", { type: "button", onclick: () => route.setQuery({ since: range === "24h" ? "" : range }, true) }, words));
  let all = /** @type {any[]} */ ([]), query = route.query, loaded = "", due = 0;
  const range = () => (RANGES.some(([r]) => r === query.get("since")) ? /** @type {string} */ (query.get("since")) : "24h");
  /** @param {boolean} asked by the user */
  function show(asked) {
    buttons.forEach((b, i) => b.setAttribute("aria-pressed", String(RANGES[i][0] === range())));
    const rows = grid.arrange(all.filter((r) => box.matches(`${r.namespace}/${r.pod}/${r.container}/${r.kind} ${r.handler}`, store.labelsOfName(r.namespace, r.pod))), query, "down");
    if (asked) grid.set(rows);
    else grid.renew(rows);
    const known = all.filter((r) => typeof r.uptime === "number");
    put(summary, all.length ? `${plural(known.filter((r) => r.uptime < 1).length, "probe")} of ${count(all.length)} had incidents` : "");
  }
  async function load() {
    const want = range();
    due = Date.now() + 60_000;
    try {
      const { count: parts, each } = BARS[want], report = await ask(`api/v1/report?incidents=newest&parts=${parts}&since=${want}`);
      if (want !== range()) return;
      const fresh = loaded !== want, bars = { start: when(report.until) - parts * each, each };
      all = objects(report.items).map((r) => ({ ...r, bars })).sort((a, b) => (a.uptime ?? 2) - (b.uptime ?? 2));
      loaded = want;
      fill(note, h("p.kind", {}, `${clock(when(report.since))} to ${clock(when(report.until))}`));
      show(fresh);
      return;
    } catch (e) {
      if (unanswered(e) && all.length) return;
      all = [];
      fill(note, e instanceof Failed && e.status === 404
        ? h("div.note", {}, h("p", {}, "This agent keeps no history. Start it with a state directory to see how available each probe was:"), h("pre", { tabindex: 0 }, "prober run|node … --state-dir /var/lib/prober"))
        : h("p.none", {}, said(e instanceof Error ? e.message : e)));
    }
    show(true);
    grid.none.hidden = true;
  }
  load();
  return {
    title: "Availability", grid, node: h("div.table-view", {}, h("h1.unseen", {}, "Availability"), h("div.filters", { role: "search" }, box.node, h("div.chips", { role: "group", "aria-label": "Time" }, buttons), summary), slos.node, note, grid.frame),
    requery(q) { query = q; box.read(q); if (range() !== loaded) load(); else show(true); }, tick() { slos.tick(); if (Date.now() > due) load(); }, close() { slos.close(); grid.close(); },
  };
}
