// @ts-check
// Pods, and the page of one pod: its containers, their restarts on a time axis, its probes and events.

import { STATES, badge, containerOf as nameOf, fill, h, icon, labelLinks, link, linkOf, put, refill, said, section } from "./dom.js";
import { timeline } from "./draw.js";
import { Grid } from "./grid.js";
import { searchBox } from "./lists.js";
import * as store from "./store.js";
import { clock, count, line, now, plural, since, when } from "./text.js";

/** stateOf returns the state of a pod, or the worse one of its probes. @param {any} pod */
function stateOf(pod) {
  const own = ownState(pod), probes = STATES.indexOf(store.worstOf(pod.namespace, pod.name));
  return probes >= 0 && probes < STATES.indexOf(own) ? STATES[probes] : own;
}

/** ownState returns the state of a pod without its probes, in their words. @param {any} pod */
function ownState(pod) {
  if (pod.phase === "Failed") return "failure";
  if (pod.phase === "Succeeded") return "success";
  if (pod.ready) return "success";
  return pod.containers.some((/** @type {any} */ c) => !c.init && c.state !== "running") ? "failure" : "warning";
}

/** @param {any} pod */
const restarts = (pod) => pod.containers.reduce((/** @type {number} */ n, /** @type {any} */ c) => n + (c.restarts || 0), 0);

/** @type {import("./grid.js").Column<any>[]} */
const COLUMNS = [
  { title: "Pod", name: "probe", order: "name", by: (p) => `${p.namespace}/${p.name}`, make: (cell) => {
    const mark = h("span.mark"), name = h("bdi.where");
    cell.append(mark, h("span.name", {}, name));
    let shown = "";
    return (p) => {
      const state = stateOf(p);
      if (state !== shown) fill(mark, icon(state));
      shown = state;
      put(name, line(`${p.namespace}/${p.name}`, 160));
    };
  } },
  { title: "Phase", name: "state", order: "phase", by: (p) => p.phase || "", make: (cell) => (p) => put(cell, line(p.phase || "–", 20)) },
  { title: "Ready", name: "kind", order: "ready", by: (p) => (p.ready ? 1 : 0), make: (cell) => (p) => put(cell, `${p.containers.filter((/** @type {any} */ c) => c.ready && !c.init).length} of ${p.containers.filter((/** @type {any} */ c) => !c.init).length}`) },
  { title: "Restarts", name: "took num", order: "restarts", by: (p) => restarts(p), down: true, make: (cell) => (p) => put(cell, count(restarts(p))) },
  { title: "Containers", name: "output", make: (cell) => {
    const into = h("bdi");
    cell.append(into);
    return (p) => put(into, line(p.containers.map((/** @type {any} */ c) => `${c.name} ${c.state}${c.reason ? ` (${c.reason})` : ""}`).join(", "), 300));
  } },
];

/**
 * @param {import("./app.js").Route} route
 * @returns {import("./app.js").View}
 */
export function podsView(route) {
  const grid = new Grid({ route, label: "Pods", name: "pods", columns: COLUMNS, key: (p) => p.uid, href: (p) => link(["pod", p.namespace, p.name]), empty: "No pod matches." });
  const box = searchBox(route, "Search pods"), summary = h("span.summary");
  let seen = "", query = route.query;
  function update(asked = false) {
    const version = `${store.version.pods} ${store.version.states}`;
    if (version === seen && !asked) return;
    seen = version;
    const rows = [...store.pods.values()].filter((p) => {
      return box.matches(`${p.namespace}/${p.name} ${p.phase} ${p.containers.map((/** @type {any} */ c) => `${c.name} ${c.reason ?? ""}`).join(" ")}`, p.labels);
    });
    const rank = { failure: 0, warning: 1, unknown: 2, success: 3 };
    rows.sort((a, b) => rank[/** @type {"failure"} */ (stateOf(a))] - rank[/** @type {"failure"} */ (stateOf(b))] || (`${a.namespace}/${a.name}` < `${b.namespace}/${b.name}` ? -1 : 1));
    grid.arrange(rows, query);
    if (asked) grid.set(rows);
    else grid.renew(rows);
    put(summary, grid.summary(store.pods.size, "pods"));
  }
  return {
    title: "Pods", update: () => update(), grid, node: h("div.table-view", {}, h("h1.unseen", {}, "Pods"), h("div.filters", { role: "search" }, box.node, summary), grid.frame),
    requery(q) { query = q; box.read(q); update(true); }, close() { grid.close(); },
  };
}

const MARKS = /** @type {Record<string, string>} */ ({ Killing: "failure", BackOff: "failure", Unhealthy: "warning", Started: "success" });

/**
 * @param {import("./app.js").Route} route
 * @returns {import("./app.js").View}
 */
export function podView(route) {
  const [namespace = "", name = ""] = route.path;
  const labels = h("div");
  const head = h("div.head-state"), containers = h("div"), line_ = h("div"), probes = h("ul.items"), events = h("ul.events");
  const containerSection = section("Containers", containers), lineSection = section("Restarts", line_), eventSection = section("Events", events), probeSection = section("Probes", probes);
  let seen = "";
  function update() {
    const version = `${store.version.pods} ${store.version.states} ${store.version.events}`;
    if (version === seen) return;
    seen = version;
    const pod = [...store.pods.values()].find((p) => p.namespace === namespace && p.name === name);
    const of = [...store.events.values()].filter((e) => e.involvedObject?.namespace === namespace && e.involvedObject?.name === name);
    fill(head, pod ? badge(stateOf(pod), pod.phase || "–") : badge("unknown", "no such pod"), pod ? h("span", {}, pod.ready ? "ready" : "not ready") : null, pod?.reason ? h("span", {}, said(pod.reason)) : null);
    refill(labels, labelLinks(pod?.labels));
    const rows = [...store.probes.values()].filter((r) => r.p.namespace === namespace && r.p.pod === name).sort((a, b) => (a.name < b.name ? -1 : 1));
    probeSection.hidden = !rows.length;
    refill(probes, ...rows.map((r) => h("li", {}, h("a.item", { href: linkOf(r.p), "data-state": r.state }, icon(r.state), h("span.what", {}, h("b", {}, said(nameOf(r.p) || r.p.target || r.p.handler, 200)), h("span.kind", {}, ` ${r.p.kind} · `, nameOf(r.p) ? said(r.p.target || r.p.handler, 200) : "", nameOf(r.p) ? " · " : "", r.state)), h("span.since", {}, r.p.stateSince ? since(r.p.stateSince) : ""), h("span.why", {}, said(r.p.cause || r.p.last?.text || r.p.gate || "", 200))))));
    containerSection.hidden = !pod?.containers.some((/** @type {any} */ c) => nameOf({ container: c.name }));
    fill(containers, ...(pod?.containers ?? []).map(containerOf));
    showLine(pod, of);
    eventSection.hidden = !of.length;
    fill(events, ...of.slice(-60).reverse().map((e) => h("li", { "data-state": e.type === "Warning" ? "warning" : "success" }, h("time", {}, clock(store.eventTime(e))), h("b", {}, said(e.reason, 60)), h("span", {}, said(e.message, 500)), e.count > 1 ? h("small", {}, `×${count(e.count)}`) : null)));
  }
  /** @param {any} pod @param {any[]} of */
  function showLine(pod, of) {
    const end = now(), marks = /** @type {Record<string, any[]>} */ ({});
    for (const c of pod?.containers ?? []) {
      /** @type {any[]} */
      const list = (marks[c.name] = []);
      if (c.lastEnd) list.push({ time: when(c.lastEnd), text: c.lastReason || "ended", state: "failure" });
      if (c.state === "running" && c.since) list.push({ time: when(c.since), text: "started", state: "success" });
    }
    for (const e of of) {
      const container = /\{(.+)\}$/.exec(e.involvedObject?.fieldPath ?? "")?.[1];
      if (container && marks[container] && MARKS[e.reason]) marks[container].push({ time: store.eventTime(e), text: `${e.reason}: ${line(e.message, 120)}`, state: MARKS[e.reason] });
    }
    const first = Math.min(end - 600_000, ...Object.values(marks).flat().map((m) => m.time).filter(Number.isFinite));
    lineSection.hidden = !pod || !restarts(pod);
    if (!lineSection.hidden) fill(line_, timeline(Object.entries(marks).map(([n, m]) => ({ name: line(n, 40), marks: m.filter((x) => Number.isFinite(x.time)) })), first, end, line_));
  }
  return {
    title: line(name, 60), update,
    node: h("div.pod-view", {}, h("nav.crumbs", { "aria-label": "Path" }, h("a", { href: "#/pods" }, "Pods")), h("div.title", {}, h("h1", {}, said(`${namespace}/${name}`, 160)), head),
      labels, containerSection, lineSection, probeSection, eventSection),
  };
}

/** @param {any} c */
function containerOf(c) {
  const state = c.state === "running" ? (c.ready || c.init ? "success" : "warning") : c.init && /exit code 0/.test(c.reason ?? "") ? "success" : "failure";
  return h("div.item", { "data-state": state }, icon(state), h("span.what", {}, h("b", {}, said(c.name, 80)), h("span.kind", {}, ` ${c.init ? "init, " : ""}${line(c.state, 20)}, ${c.ready ? "ready" : "not ready"}, ${plural(c.restarts || 0, "restart")}`)),
    h("span.since", {}, c.since ? since(c.since) : ""),
    h("span.why", {}, said([c.reason, c.lastEnd ? `ended before at ${clock(when(c.lastEnd))}: ${c.lastReason || "–"}` : ""].filter(Boolean).join(" · "), 400)));
}
