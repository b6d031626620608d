// @ts-check Compares one probe with another: the durations of both in one chart, and their percentiles and
// availability in one table. The address has the choice.

import { ask, Failed, pathOf } from "./api.js";
import { attr, fill, h, linkOf, put, said, section } from "./dom.js";
import { lineChart } from "./draw.js";
import { PERCENTILES, WHOLE, axisOf, estimate, tracksOf } from "./durations.js";
import * as store from "./store.js";
import { clock, count, line, objects, percent, span, when } from "./text.js";

const OPTIONS = 50; // limit of suggested probes

/** nameOf returns the name of a probe, as the terminal has it. @param {any} p */
const nameOf = (p) => `${p.namespace}/${p.pod}/${p.container} ${p.kind}`;

/** keyOf returns the value of a probe in the address. @param {any} p */
const keyOf = (p) => [p.namespace, p.pod, p.container, p.kind].map(encodeURIComponent).join("/");

/** parseKey reads a value of the address; null if it names no probe. @param {string | null} key */
function parseKey(key) {
  try {
    const [namespace, pod, container, kind, more] = (key ?? "").split("/").map(decodeURIComponent);
    return namespace && pod && container && kind && more === undefined ? { namespace, pod, container, kind } : null;
  } catch {
    return null;
  }
}

/** candidates returns probes whose names contain a text. @param {string} text @param {any} of which is none of them */
function candidates(text, of) {
  const found = new Map(), lower = text.trim().toLowerCase();
  for (const { p } of store.probes.values()) {
    const name = line(nameOf(p), 300);
    if (name.toLowerCase().includes(lower) && keyOf(p) !== keyOf(of)) found.set(name, p);
    if (found.size === OPTIONS) break;
  }
  return found;
}

/** Compare is the section of the comparison. It is hidden if the agent keeps no history. */
export class Compare {
  /**
   * @param {{namespace: string, pod: string, container: string, kind: string}} of
   * @param {import("./app.js").Route} route
   * @param {import("./past.js").Span} span
   */
  constructor(of, route, span) {
    this.of = of;
    this.route = route;
    this.span = span;
    this.other = parseKey(route.query.get("with"));
    this.number = 0;
    this.closed = false;
    /** @type {any} */
    this.mine = null;
    this.options = h("datalist", { id: "compare-options" });
    this.input = h("input", { type: "search", list: "compare-options", placeholder: "name of a probe", "aria-label": "Compare with", maxlength: 300, autocomplete: "off", spellcheck: "false", oninput: () => this.suggest(), onfocus: () => this.suggest() });
    this.note = h("span.kind", { role: "status" });
    this.remove = h("button", { type: "button", onclick: () => { this.choose(null); this.input.focus(); } }, "Remove");
    this.form = h("form.pause", { "aria-label": "Compare", onsubmit: (/** @type {Event} */ e) => { e.preventDefault(); this.submit(); } }, this.input, this.options, h("button", { type: "submit" }, "Compare"), this.remove, this.note);
    this.chart = h("div");
    this.table = h("div.scroll-x", { tabindex: 0, role: "region", "aria-label": "Comparison" });
    this.node = section("Compare with another probe", h("div", {}, this.form, this.chart, this.table));
    this.node.hidden = true;
    this.fillName();
  }

  fillName() {
    this.input.value = this.other ? line(nameOf(this.other), 300) : "";
    this.remove.hidden = !this.other;
    attr(this.node, "data-empty", this.other ? "no" : "yes");
  }

  suggest() {
    const names = [...candidates(this.input.value, this.of).keys()];
    fill(this.options, ...names.map((name) => h("option", { value: name })));
    if (names.includes(this.input.value)) this.submit();
  }

  /** submit chooses the probe of the name, or the first whose name contains it. */
  submit() {
    const found = candidates(this.input.value, this.of), text = this.input.value.trim();
    const p = found.get(text) ?? (text ? found.values().next().value : null);
    put(this.note, !p && text ? "No probe matches." : "");
    if (p && (!this.other || keyOf(p) !== keyOf(this.other))) this.choose(p);
  }

  /** @param {any} p */
  choose(p) {
    this.route.setQuery({ with: p ? keyOf(p) : "" }, true);
  }

  /** requery follows the address. @param {URLSearchParams} query */
  requery(query) {
    const next = parseKey(query.get("with"));
    if ((next ? keyOf(next) : "") !== (this.other ? keyOf(this.other) : "")) {
      this.other = next;
      put(this.note, "");
      this.fillName();
      this.load();
    }
  }

  /** show has the durations of the probe of the page. @param {any} mine */
  show(mine) {
    this.mine = mine;
    this.node.hidden = false;
    this.load();
  }

  close() {
    this.closed = true;
  }

  async load() {
    const number = ++this.number, other = this.other;
    if (!other || !this.mine) {
      this.chart.hidden = this.table.hidden = true;
      return;
    }
    const since = `since=${this.span.since}`, reportOf = (/** @type {any} */ p) => ask(`api/v1/report?${new URLSearchParams(p)}&incidents=false&${since}`).then((r) => objects(r?.items)[0] ?? {});
    try {
      const [theirs, mine, yours] = await Promise.all([ask(`${pathOf(other)}/durations?${since}`), reportOf(this.of), reportOf(other)]);
      if (this.closed || number !== this.number) return;
      this.chart.hidden = this.table.hidden = false;
      put(this.note, "");
      fill(this.chart, chartOf(this.mine, theirs, this.chart));
      fill(this.table, tableOf([{ p: this.of, durations: this.mine, report: mine }, { p: other, durations: theirs, report: yours }]));
    } catch (e) {
      if (this.closed || number !== this.number) return;
      this.chart.hidden = this.table.hidden = e instanceof Failed && e.status > 0 || this.chart.hidden;
      put(this.note, line(e instanceof Error ? e.message : e, 300));
    }
  }
}

/** chartOf draws p90 of both probes. @param {any} mine @param {any} theirs @param {Element} into */
function chartOf(mine, theirs, into) {
  const lineOf = (/** @type {any} */ d) => tracksOf(d)[0].points.map((/** @type {any} */ p) => ({ time: when(p.time), value: Number(p.p90Seconds) || 0, text: `${clock(when(p.time))}: p90 ${estimate(p.p90Seconds)}` }));
  return lineChart([lineOf(mine), lineOf(theirs)], axisOf(mine), "p90 of both probes by time, on a logarithmic scale", into);
}

/** @param {{p: any, durations: any, report: any}[]} both */
function tableOf(both) {
  const marks = ["solid", "dashed"];
  const head = h("tr", {}, h("th", { scope: "col" }, h("span.unseen", {}, "Measure")), both.map(({ p }, i) => h("th.num", { scope: "col" }, h("i.swatch", { "data-line": marks[i], "aria-hidden": "true" }), h("a", { href: linkOf(p) }, said(nameOf(p), 200)))));
  const row = (/** @type {string} */ name, /** @type {(b: any) => string} */ value) => h("tr", {}, h("th", { scope: "row" }, said(name, 60)), both.map((b) => h("td.num", {}, value(b))));
  const track = (/** @type {any} */ b, /** @type {string} */ name) => tracksOf(b.durations).find((t) => t.name === name) ?? {};
  const phases = [...new Set(both.flatMap((b) => tracksOf(b.durations).map((t) => t.name)))].filter((name) => name !== WHOLE);
  return h("table.plain.compared", {}, h("caption.unseen", {}, "Availability and percentiles of both probes"), h("thead", {}, head), h("tbody", {},
    row("Uptime", (b) => (typeof b.report.uptime === "number" ? percent(b.report.uptime) : "–")), row("Incidents", (b) => count(Number(b.report.incidentCount) || 0)),
    row("Down for", (b) => (b.report.seconds?.failure > 0 ? span(b.report.seconds.failure) : "–")),
    PERCENTILES.map(([field, name]) => row(name, (b) => estimate(b.durations[field]))),
    phases.map((name) => row(`${line(name, 40)} p90`, (b) => estimate(track(b, name).p90Seconds)))));
}
