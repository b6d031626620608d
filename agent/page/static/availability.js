// @ts-check
// The availability of each probe, from the history in the agent's state directory.

import { ask, Failed, unanswered } from "./api.js";
import { Name, fill, h, icon, linkOf, put, said } from "./dom.js";
import { Grid } from "./grid.js";
import { searchBox } from "./lists.js";
import { RANGES } from "./past.js";
import * as store from "./store.js";
import { clock, count, line, objects, percent, plural, span, when } from "./text.js";

/** @param {any} r */
const stateOf = (r) => (typeof r.uptime !== "number" ? "unknown" : r.uptime === 1 ? "success" : r.incidents?.[0] && !r.incidents[0].end ? "failure" : "warning");

/** @type {import("./grid.js").Column<any>[]} */
const COLUMNS = [
  { title: "Probe", name: "probe", make: (cell) => {
    const mark = h("span.mark"), name = new Name();
    cell.append(mark, name.node);
    return (r) => { fill(mark, icon(stateOf(r))); name.show(r, r.kind); };
  } },
  { title: "Uptime", name: "state num", make: (cell) => (r) => put(cell, percent(r.uptime)) },
  { title: "Incidents", name: "took num", make: (cell) => (r) => put(cell, count(r.incidentCount ?? 0)) },
  { title: "Down for", name: "since num", make: (cell) => (r) => put(cell, r.seconds?.failure ? span(r.seconds.failure) : "–") },
  { title: "Longest", name: "longest num", make: (cell) => (r) => put(cell, r.longestSeconds ? span(r.longestSeconds) : "–") },
  { title: "Unknown for", name: "address num", make: (cell) => (r) => put(cell, r.seconds?.unknown ? span(r.seconds.unknown) : "–") },
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
  const box = searchBox(route, "Search probes"), summary = h("span.summary"), note = h("div");
  const grid = new Grid({ label: "Availability", name: "availability", columns: COLUMNS, key: (r) => `${r.namespace}/${r.pod}/${r.container}/${r.kind}`, href: (r) => linkOf(r), empty: "No probe matches." });
  const buttons = RANGES.map(([range, words]) => h("button.chip", { type: "button", onclick: () => route.setQuery({ since: range === "24h" ? "" : range }, true) }, words));
  let all = /** @type {any[]} */ ([]), query = route.query, loaded = "", due = 0;
  const range = () => (RANGES.some(([r]) => r === query.get("since")) ? /** @type {string} */ (query.get("since")) : "24h");
  function show() {
    buttons.forEach((b, i) => b.setAttribute("aria-pressed", String(RANGES[i][0] === range())));
    grid.set(all.filter((r) => box.matches(`${r.namespace}/${r.pod}/${r.container}/${r.kind} ${r.handler}`, store.labelsOfName(r.namespace, r.pod))));
    const known = all.filter((r) => typeof r.uptime === "number");
    put(summary, all.length ? `${plural(known.filter((r) => r.uptime < 1).length, "probe")} of ${count(all.length)} had incidents` : "");
  }
  async function load() {
    const want = range();
    due = Date.now() + 60_000;
    try {
      const report = await ask(`api/v1/report?incidents=newest&since=${want}`);
      if (want !== range()) return;
      loaded = want;
      all = objects(report.items).sort((a, b) => (a.uptime ?? 2) - (b.uptime ?? 2));
      fill(note, h("p.kind", {}, `${clock(when(report.since))} to ${clock(when(report.until))}`));
    } catch (e) {
      if (unanswered(e) && all.length) return;
      all = [];
      fill(note, e instanceof Failed && e.status === 404
        ? h("div.note", {}, h("p", {}, "This agent keeps no history. Start it with a state directory to see how available each probe was:"), h("pre", { tabindex: 0 }, "prober run|node … --state-dir /var/lib/prober"))
        : h("p.none", {}, said(e instanceof Error ? e.message : e)));
    }
    show();
    grid.none.hidden = true;
  }
  load();
  return {
    title: "Availability", node: h("div.table-view", {}, h("h1.unseen", {}, "Availability"), h("div.filters", { role: "search" }, box.node, h("div.chips", { role: "group", "aria-label": "Time" }, buttons), summary), note, grid.frame),
    requery(q) { query = q; box.read(q); if (range() !== loaded) load(); else show(); }, tick() { if (Date.now() > due) load(); }, close() { grid.close(); },
  };
}
