// @ts-check
// The table of all probes. Its filters are stored in the address.

import { ask, pathOf } from "./api.js";
import { COUNTED, Name, attr, fill, h, icon, link, linkOf, put } from "./dom.js";
import { spark, strip } from "./draw.js";
import { Grid } from "./grid.js";
import { parse } from "./match.js";
import * as store from "./store.js";
import { count, holds, line, plural, since, took } from "./text.js";

const NAMESPACE = "namespace"; // is no name of a label here: groups by it are of the probes' namespaces
const LABELS = 100; // limit of labels to group by
const KINDS = ["liveness", "readiness", "startup"];
const SORTS = { state: "worst first", name: "name", since: "newest change", duration: "slowest" };

/** @typedef {import("./store.js").Row & {group?: Group}} Row a probe, or the heading of a group */

/**
 * @typedef {object} Group the rows with one value of a label, or in one namespace
 * @property {string} value
 * @property {number} all
 * @property {number} failing
 */

/** headingOf returns the text of a row that begins a group; "" for a probe. @param {Row} r */
const headingOf = (r) => (r.group ? `${line(r.group.value, 100)} · ${r.group.failing ? `${count(r.group.failing)} of ${plural(r.group.all, "probe")} fail` : plural(r.group.all, "probe")}` : "");

const targetOf = (/** @type {Row} */ r) => String(r.p.target || r.p.handler);
const outputOf = (/** @type {Row} */ r) => String(r.p.last?.text || r.p.gate || "");

/** @type {import("./grid.js").Column<Row>[]} */
const COLUMNS = [
  { title: "Probe", name: "probe", order: "name", by: (r) => r.name, make: (cell) => {
    const mark = h("span.mark"), name = new Name(), group = h("bdi.group-name");
    cell.append(mark, name.node, group);
    let state = "";
    return (r) => {
      put(group, headingOf(r));
      name.node.hidden = Boolean(r.group);
      if (state !== r.state) fill(mark, icon(r.state), h("span.unseen", {}, `${r.state} `));
      state = r.state;
      if (!r.group) name.show(r.p);
    };
  } },
  { title: "State", name: "state", order: "state", by: (r) => COUNTED.indexOf(r.state), make: (cell) => (r) => {
    put(cell, r.p.paused ? `${line(r.p.state, 20)}, ${holds(r.p)}` : r.p.maintenance ? `${line(r.p.state, 20)}, maintenance` : r.state);
    attr(cell, "data-state", r.state);
  } },
  { title: "Kind", name: "kind", order: "kind", by: (r) => r.p.kind, make: (cell) => (r) => put(cell, r.p.kind) },
  { title: "Target", name: "target", order: "target", by: targetOf, make: text((r) => line(targetOf(r), 200)) },
  { title: "Since", name: "since num", order: "since", by: (r) => r.sinceMs || 0, down: true, make: (cell) => (r) => put(cell, r.p.stateSince ? since(r.p.stateSince) : "–") },
  { title: "Took", name: "took num", order: "duration", by: (r) => r.p.last?.durationSeconds ?? -1, down: true, make: (cell) => (r) => put(cell, r.p.last?.durationSeconds ? took(r.p.last.durationSeconds) : "–") },
  { title: "Last 20", name: "strip", make: (cell) => {
    const canvas = h("canvas", { width: 100, height: 16, "aria-hidden": "true" }), words = h("span.unseen");
    cell.append(canvas, words);
    return (r) => {
      const { results } = store.history(r);
      strip(canvas, results);
      let bad = 0, all = 0;
      for (const result of results) if (result) { all++; if (result === 1) bad++; }
      put(words, `${bad} of ${all} failed`);
    };
  } },
  { title: "Latency", name: "spark", make: (cell) => {
    const canvas = h("canvas", { width: 80, height: 16, "aria-hidden": "true" });
    cell.append(canvas);
    return (r) => {
      const { seconds, results } = store.history(r);
      spark(canvas, seconds, results);
    };
  } },
  { title: "Last output", name: "output", order: "output", by: outputOf, make: text((r) => line(outputOf(r), 200)) },
];

/** text makes a cell with a foreign text. @param {(r: Row) => string} of */
function text(of) {
  return (/** @type {HTMLElement} */ cell) => {
    const into = h("bdi");
    cell.append(into);
    return (/** @type {Row} */ r) => put(into, of(r));
  };
}

/** Filters are the controls above the table, and their selection. */
class Filters {
  /** @param {import("./app.js").Route} route */
  constructor(route) {
    this.route = route;
    this.query = route.query;
    /** @type {string[]} */
    this.states = [];
    this.matches = parse("");
    this.search = h("input", { type: "search", placeholder: "Words or team=shop", title: "Words, and label selectors: team=shop, tier in (front,back), !team, label:team", "aria-label": "Search probes", autocomplete: "off", spellcheck: "false", oninput: () => route.setQuery({ q: this.search.value }) });
    const choice = (/** @type {string} */ name, /** @type {string} */ label) => h("select", { "aria-label": label, onchange: (/** @type {any} */ e) => route.setQuery({ [name]: e.target.value }, true) });
    this.kind = choice("kind", "Kind");
    this.kind.append(h("option", { value: "" }, "all kinds"), ...KINDS.map((k) => h("option", { value: k }, k)));
    this.handler = choice("handler", "Handler");
    this.group = choice("group", "Groups");
    this.sort = choice("sort", "Order");
    this.sort.append(h("option", { value: "", hidden: true }, "by column"), ...Object.entries(SORTS).map(([value, words]) => h("option", { value }, words)));
    this.chips = COUNTED.map((state) => {
      const number = h("b");
      return { state, number, node: h("button.chip", { type: "button", "data-state": state, "aria-pressed": "false", onclick: () => this.toggle(state) }, icon(state), number, ` ${state}`) };
    });
    this.summary = h("span.summary");
    this.node = h("div.filters", { role: "search" }, this.search, h("div.chips", { role: "group", "aria-label": "States" }, this.chips.map((c) => c.node)), this.kind, this.handler, this.group, this.sort, this.summary);
    this.handlers = this.labels = "";
    this.read(route.query);
  }

  /** @param {string} state */
  toggle(state) {
    const states = new Set(this.states);
    if (!states.delete(state)) states.add(state);
    this.route.setQuery({ state: [...states].join(",") }, true);
  }

  /** @param {URLSearchParams} query */
  read(query) {
    this.query = query;
    this.states = (query.get("state") ?? "").split(",").filter(Boolean);
    this.matches = parse(query.get("q") ?? "");
    if (document.activeElement !== this.search) this.search.value = query.get("q") ?? "";
    this.kind.value = query.get("kind") ?? "";
    const sort = query.get("sort") ?? "state";
    this.sort.value = Object.hasOwn(SORTS, sort) ? sort : "";
    for (const c of this.chips) attr(c.node, "aria-pressed", String(this.states.includes(c.state)));
    this.handler.value = query.get("handler") ?? "";
    this.group.value = query.get("group") ?? "";
  }

  /** count shows the numbers of states, and lists the handlers. */
  count() {
    const handlers = new Set();
    for (const r of store.probes.values()) handlers.add(r.p.handler);
    for (const c of this.chips) {
      put(c.number, count(store.counts[c.state]));
      if (c.state === "paused" || c.state === "maintenance") c.node.hidden = !store.counts[c.state] && !this.states.includes(c.state);
    }
    const wanted = this.query.get("handler") ?? "";
    if (wanted) handlers.add(wanted);
    const names = [...handlers].sort(), all = names.join("\n");
    if (all !== this.handlers) {
      this.handlers = all;
      fill(this.handler, h("option", { value: "" }, "all handlers"), ...names.map((n) => h("option", { value: n }, line(n, 60))));
      this.handler.value = wanted;
    }
  }

  /** listLabels lists the labels that probes can be grouped by. */
  listLabels() {
    /** @type {Set<string>} */
    const found = new Set();
    for (const pod of store.pods.values()) for (const label of Object.keys(pod.labels ?? {})) if (found.size < LABELS) found.add(label);
    const wanted = this.query.get("group") ?? "";
    if (wanted && wanted !== NAMESPACE) found.add(wanted);
    const names = [...found].sort(), all = names.join("\n");
    if (all === this.labels && this.group.options.length) return;
    this.labels = all;
    fill(this.group, h("option", { value: "" }, "no groups"), h("option", { value: NAMESPACE }, "by namespace"), ...names.map((n) => h("option", { value: n }, `by ${line(n, 60)}`)));
    this.group.value = wanted;
  }

  /**
   * inGroups puts a heading before the rows of each group. The groups with the worst states are first.
   * @param {Row[]} rows
   * @returns {Row[]}
   */
  inGroups(rows) {
    const by = this.query.get("group");
    if (!by) return rows;
    /** @type {Map<string, Row[]>} */
    const groups = new Map();
    for (const r of rows) {
      const labels = store.labelsOf(r.p.uid), value = by === NAMESPACE ? String(r.p.namespace) : labels && Object.hasOwn(labels, by) ? String(labels[by]) : "";
      const of = groups.get(value);
      if (of) of.push(r);
      else groups.set(value, [r]);
    }
    const headings = [...groups].map(([value, of]) => headingRow(by, value, of));
    headings.sort((a, b) => Number(a.name === "") - Number(b.name === "") || COUNTED.indexOf(a.state) - COUNTED.indexOf(b.state) || (a.name < b.name ? -1 : 1));
    return headings.flatMap((r) => [r, .../** @type {Row[]} */ (groups.get(r.name))]);
  }

  select() {
    const kind = this.query.get("kind"), handler = this.query.get("handler"), searched = this.query.get("q");
    /** @type {Row[]} */
    const rows = [];
    for (const r of store.probes.values()) {
      if (this.states.length && !this.states.includes(r.state) || kind && r.p.kind !== kind || handler && r.p.handler !== handler) continue;
      if (searched && !this.matches(store.textOf(r), store.labelsOf(r.p.uid))) continue;
      rows.push(r);
    }
    return rows.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
  }

  /** moves reports whether a changed output or duration may change the selection or the order. */
  get moves() {
    return Boolean(this.query.get("q")) || /duration|output/.test(this.query.get("sort") ?? "");
  }
}

/**
 * headingRow returns the heading of a group.
 * @param {string} by @param {string} value @param {Row[]} rows
 * @returns {Row}
 */
function headingRow(by, value, rows) {
  const state = COUNTED.find((s) => rows.some((r) => r.state === s)) ?? "unknown", failing = rows.filter((r) => r.state === "failure").length;
  const words = by === NAMESPACE ? `namespace ${value}` : value === "" ? `without ${by}` : `${by}=${value}`;
  return { key: `group ${value}`, name: value, state, p: {}, text: "", sinceMs: 0, slot: -1, version: -1, epoch: 0, asked: true, group: { value: words, all: rows.length, failing } };
}

/** hrefOf returns the link of a row: to the page of a probe, or to the group alone. @param {Row} r */
const hrefOf = (r) => (r.group ? link(["probes"], { q: r.group.value.replace(/^without /, "!").replace(/^namespace (.*)$/, "$1/") }) : linkOf(r.p));

/**
 * @param {import("./app.js").Route} route
 * @returns {import("./app.js").View}
 */
export function probesView(route) {
  const filters = new Filters(route);
  const grid = new Grid({ route, label: "Probes", name: "probes", columns: COLUMNS, key: (r) => r.key, heading: headingOf, href: hrefOf, version: (r) => r.version, empty: "No probe matches." });
  const wanted = new Histories();
  let seen = "", arranged = 0, late = 0;
  const version = () => `${store.version.members} ${store.version.states} ${filters.query.get("q") || filters.query.get("group") ? store.version.pods : store.pods.size}`; // searches have labels
  /** @param {boolean} asked by the user: otherwise a list that is in use holds still */
  function arrange(asked) {
    arranged = performance.now();
    seen = version();
    filters.count();
    filters.listLabels();
    const rows = filters.inGroups(grid.arrange(filters.select(), filters.query, "state"));
    if (asked) grid.set(rows);
    else grid.renew(rows);
    put(filters.summary, grid.summary(store.probes.size, "probes"));
  }
  function update() {
    const changed = seen !== version() || filters.moves;
    // Sorting 10,000 rows takes some milliseconds: do it at most once a second, after the first time.
    const due = performance.now() - arranged > (store.probes.size > 2000 ? 1000 : 0);
    if (changed && due) arrange(false);
    else {
      grid.draw();
      if (changed && !late) late = setTimeout(() => { late = 0; update(); }, 1000);
    }
    wanted.ask(grid.visible());
  }
  return {
    title: "Probes", update, grid, tick: () => grid.redraw(),
    node: h("div.table-view", {}, h("h1.unseen", {}, "Probes"), filters.node, grid.frame),
    requery(query) { filters.read(query); arrange(true); wanted.ask(grid.visible()); },
    close() { grid.close(); clearTimeout(late); },
  };
}

/** Histories requests past ticks for the rows on the screen, as the stream does not have them. */
class Histories {
  constructor() {
    this.running = 0;
    this.timer = 0;
  }

  /** @param {Row[]} rows */
  ask(rows) {
    if (this.timer || !rows.some((r) => !r.asked) || store.link.state !== "live") return;
    this.timer = setTimeout(() => { // not while scrolling
      this.timer = 0;
      for (const r of rows) if (!r.asked && this.running < 4) this.one(r);
    }, 200);
  }

  /** @param {Row} r */
  one(r) {
    r.asked = true;
    this.running++;
    ask(pathOf(r.p)).then((p) => { if (Array.isArray(p.history)) store.setHistory(r, p.history); }, () => {}).finally(() => { this.running--; store.schedule(); });
  }
}

