// @ts-check The history of one probe in the agent's state directory: its availability, the durations of its
// ticks, and the changes of its state.

import { ask, Failed, pathOf, unanswered } from "./api.js";
import { badge, fill, h, said, section } from "./dom.js";
import { latencyChart } from "./draw.js";
import { clock, count, line, objects, percent, plural, span, took, when } from "./text.js";

export const RANGES = [["24h", "24 hours"], ["7d", "7 days"], ["30d", "30 days"]];

/** Span is the time that the sections of a probe's page show. The address has it. */
export class Span {
  /** @param {import("./app.js").Route} route */
  constructor(route) {
    this.route = route;
    this.since = "";
    /** @type {any[][]} */
    this.groups = [];
    this.requery(route.query);
  }

  /** chips returns buttons that choose the time. */
  chips() {
    const buttons = RANGES.map(([range, words]) => h("button.chip", { type: "button", onclick: () => this.route.setQuery({ since: range === RANGES[0][0] ? "" : range }, true) }, words));
    this.groups.push(buttons);
    this.press();
    return h("div.chips", { role: "group", "aria-label": "Time" }, buttons);
  }

  /** requery follows the address, and reports whether the time is another. @param {URLSearchParams} query */
  requery(query) {
    const before = this.since;
    this.since = (RANGES.find(([range]) => range === query.get("since")) ?? RANGES[0])[0];
    this.press();
    return before !== this.since;
  }

  press() {
    for (const buttons of this.groups) buttons.forEach((b, i) => b.setAttribute("aria-pressed", String(RANGES[i][0] === this.since)));
  }
}

const BARS = 160; // limit of bars in the chart
const CHANGES = 50; // limit of listed changes
const EACH = 60_000; // ms between requests, as the agent stores minutes
const LEAST = 10_000; // ms between requests if the state has changed

/** Past is the history section of a probe's page. It is hidden if the agent keeps no history. */
export class Past {
  /** @param {{namespace: string, pod: string, container: string, kind: string}} of @param {Span} span */
  constructor(of, span) {
    this.of = of;
    this.span = span;
    this.state = "";
    this.asked = 0;
    this.number = 0; // of the request, to ignore late responses for another range
    this.closed = false;
    this.content = h("div");
    this.node = section("History", h("div", {}, this.span.chips(), this.content));
    this.node.hidden = true;
    this.load();
  }

  /** tick requests the history again after a while. @param {string} state of the probe */
  tick(state) {
    const age = Date.now() - this.asked;
    this.state ||= state;
    if (age > EACH || age > LEAST && state !== this.state) {
      this.state = state;
      this.load();
    }
  }

  close() {
    this.closed = true;
  }

  async load() {
    const number = ++this.number;
    this.asked = Date.now();
    const since = `since=${this.span.since}`;
    try {
      const [past, report] = await Promise.all([
        ask(`${pathOf(this.of)}/history?${since}`), ask(`api/v1/report?${new URLSearchParams(this.of)}&incidents=false&${since}`),
      ]);
      if (this.closed || number !== this.number) return;
      this.node.hidden = false;
      fill(this.content, shareOf(past, objects(report?.items)[0]), chartOf(past, this.content), changesOf(past));
    } catch (e) {
      if (this.closed || number !== this.number || unanswered(e) && this.content.firstChild) return;
      this.node.hidden = e instanceof Failed && [400, 404, 405].includes(e.status);
      fill(this.content, h("p.none", {}, line(e instanceof Error ? e.message : e)));
    }
  }
}

/**
 * shareOf returns the report's availability of the probe.
 * @param {any} past a ProbeHistory
 * @param {any} item a ReportItem; undefined if no time is known
 */
function shareOf(past, item) {
  const known = typeof item?.uptime === "number", times = item?.incidentCount;
  const words = [known ? `Uptime ${percent(item.uptime)}` : "The uptime is not known",
    !known ? "" : times ? `${plural(times, "incident")}, down for ${span(item.seconds?.failure)}, the longest ${span(item.longestSeconds)}` : "no incidents", `since ${clock(when(past.since))}`];
  return h("p", { "data-part": "uptime" }, words.filter(Boolean).join(" · "));
}

/**
 * chartOf returns a chart with a linear time axis, and gaps for unknown times.
 * @param {any} past a ProbeHistory
 * @param {Element} into
 */
function chartOf(past, into) {
  const points = objects(past.points).filter((p) => when(p.time) > 0), ends = points.length - 1;
  if (!points.length) return null;
  const step = (past.stepSeconds > 0 ? past.stepSeconds : 60) * 1000, first = when(points[0].time);
  const wide = step * Math.max(1, Math.ceil((when(points[ends].time) - first + step) / step / BARS));
  /** @type {any[][]} */
  const parts = [];
  for (const p of points) (parts[Math.min(BARS - 1, Math.max(0, Math.floor((when(p.time) - first) / wide)))] ??= []).push(p);
  return latencyChart(Array.from(parts, (part, i) => barOf(part ?? [], first + i * wide)), "The longest durations", into);
}

/** @param {any[]} part points @param {number} time when they begin */
function barOf(part, time) {
  const sum = (/** @type {string} */ f) => part.reduce((n, p) => n + (p[f] || 0), 0);
  const result = !part.length ? "" : sum("failure") ? "failure" : sum("unknown") ? "unknown" : sum("warning") ? "warning" : "success";
  const longest = Math.max(0, ...part.map((p) => (Number.isFinite(p.maxSeconds) ? p.maxSeconds : 0)));
  return { result, durationSeconds: longest, time, label: `${clock(time)}: ${count(sum("success") + sum("warning"))} good, ${count(sum("failure"))} bad, ${count(sum("unknown"))} unknown, at most ${took(longest)}` };
}

/** @param {any} past a ProbeHistory */
function changesOf(past) {
  const all = objects(past.transitions);
  if (!all.length) return h("p.none", {}, "The state has not changed.");
  return h("div", {}, h("ol.changes", {}, all.slice(0, CHANGES).map((c) => h("li", {}, h("time", {}, clock(when(c.time))), badge(c.to === "absent" ? "unknown" : c.to, c.to), h("span", {}, said(whyOf(c), 300))))),
    all.length > CHANGES ? h("p.none", {}, `${plural(all.length - CHANGES, "older change")} in prober report and in the API`) : null);
}

/** @param {any} c a Transition */
function whyOf(c) {
  if (c.to === "absent") return "the agent stopped, or the probe was removed";
  if (c.from === "absent" && c.to === "unknown") return "the agent started, or the probe was added";
  return [c.reason, c.text].filter(Boolean).join(": ");
}
