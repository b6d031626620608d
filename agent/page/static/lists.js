// @ts-check
// Targets, plugins and events.

import { act, ask, Failed, list, token, unanswered } from "./api.js";
import { badge, containerOf, fill, h, icon, link, linkOf, put, said } from "./dom.js";
import { Grid } from "./grid.js";
import { parse } from "./match.js";
import * as store from "./store.js";
import { bytes, clock, count, line, objects, plural, since, when } from "./text.js";

/**
 * searchBox returns a search field whose text is stored in the address.
 * @param {import("./app.js").Route} route
 * @param {string} label
 */
export function searchBox(route, label) {
  const node = h("input", { type: "search", placeholder: "Words or team=shop", title: "Words, and label selectors: team=shop, tier in (front,back), !team, label:team", "aria-label": label, autocomplete: "off", spellcheck: "false", oninput: () => route.setQuery({ q: node.value }) });
  let query = route.query;
  node.value = query.get("q") ?? "";
  let matches = parse(node.value);
  return {
    node,
    /** matches reports whether a row has the words and the labels of the search. */
    matches: (/** @type {string} */ text, /** @type {Record<string, string> | undefined} */ labels) => matches(text.toLowerCase(), labels),
    read(/** @type {URLSearchParams} */ q) { query = q; matches = parse(q.get("q") ?? ""); if (document.activeElement !== node) node.value = q.get("q") ?? ""; },
  };
}

/** @param {(row: any) => string} of */
const text = (of) => (/** @type {HTMLElement} */ cell) => {
  const into = h("bdi");
  cell.append(into);
  return (/** @type {any} */ row) => put(into, of(row));
};

/** targetState returns the state of a target: the worst of its probes, if it has some. @param {any} t */
const targetState = (t) => (t.state === "probed" ? store.worstOf(t.namespace, t.pod) || "unknown" : t.state === "dropped" ? "warning" : "unknown");

/** @type {import("./grid.js").Column<any>[]} */
const TARGETS = [
  { title: "Target", name: "probe", order: "name", by: (t) => String(t.name), make: (cell) => {
    const mark = h("span.mark"), name = h("bdi.where");
    cell.append(mark, h("span.name", {}, name));
    return (t) => { fill(mark, icon(targetState(t))); put(name, line(t.name, 160)); };
  } },
  { title: "State", name: "state", order: "state", by: (t) => String(t.state), make: (cell) => (t) => put(cell, line(t.state, 20)) },
  { title: "Group", name: "handler", order: "group", by: (t) => String(t.group), make: text((t) => line(t.group, 60)) },
  { title: "Reason or labels", name: "output", make: text((t) => line(t.reason || Object.entries(t.labels ?? {}).map(([k, v]) => `${k}=${v}`).join(" "), 400)) },
  { title: "Address", name: "address", order: "address", by: (t) => String(t.address), make: text((t) => line(t.address, 200)) },
  { title: "Source", name: "source", order: "source", by: (t) => String(t.source), make: text((t) => line(t.source, 200)) },
];

/**
 * @param {import("./app.js").Route} route
 * @returns {import("./app.js").View}
 */
export function targets(route) {
  const box = searchBox(route, "Search targets"), summary = h("span.summary"), sources = h("div.sources"), whole = h("div.sources"), note = h("div");
  const state = h("select", { "aria-label": "State", onchange: () => route.setQuery({ state: state.value }, true) }, ["", "probed", "dropped", "gone"].map((s) => h("option", { value: s }, s || "all states")));
  const grid = new Grid({
    route, label: "Targets", name: "targets", columns: TARGETS, key: (t) => `${t.group}\n${t.name}\n${t.source}\n${t.state}`,
    href: (t) => (t.pod ? link(["pod", t.namespace, t.pod]) : link(["targets"], { q: t.name })), empty: "No target matches.",
  });
  let all = /** @type {any[]} */ ([]), seen = 0, due = 0, query = route.query, loading = false;
  state.value = query.get("state") ?? "";
  function show(asked = true) {
    const want = query.get("state");
    const rows = grid.arrange( all.filter((t) => (!want || t.state === want) && box.matches(`${t.group} ${t.name} ${t.address} ${t.source} ${t.state} ${t.reason ?? ""} ${Object.values(t.labels ?? {}).join(" ")}`, t.labels ?? {})), query);
    if (asked) grid.set(rows);
    else grid.renew(rows);
    // A few rows have room for their full texts.
    fill(whole, rows.length > 3 ? null : rows.filter((t) => t.reason).map((t) => h("div.item", { "data-state": targetState(t) }, icon(targetState(t)),
      h("span.what", {}, h("b", {}, said(t.name, 200)), h("span.kind", {}, ` ${line(t.state, 20)}`)), h("span.why", {}, said(t.reason, 1000)))));
    put(summary, grid.summary(all.length, "targets"));
  }
  async function load() {
    if (loading) return;
    loading = true;
    due = Date.now() + 10_000;
    try {
      const page = await list("api/v1/targets");
      all = objects(page.items);
      all.sort((a, b) => (a.state === "probed" ? 1 : 0) - (b.state === "probed" ? 1 : 0) || (a.name < b.name ? -1 : 1));
      fill(sources, ...objects(page.sources).map((s) => h("div.item", { "data-state": s.error ? "warning" : "success" }, icon(s.error ? "warning" : "success"),
        h("span.what", {}, h("b", {}, said(s.group, 60)), h("span.kind", {}, " ", said(s.source, 160), ` · ${count(s.probed)} probed, ${count(s.dropped)} dropped${s.failures ? `, ${plural(s.failures, "failure")}` : ""}`)),
        h("span.since", {}, when(s.refreshed) ? `${since(s.refreshed)} ago` : ""), h("span.why", {}, said(s.error ?? "", 500)))));
      fill(note, all.length ? "" : h("p.none", {}, "prober.yaml has no targets."));
      show(false);
    } catch (e) {
      if (!unanswered(e) || !all.length) fill(note, h("p.none", {}, e instanceof Failed && e.status === 404 ? "This agent has no targets." : line(e instanceof Error ? e.message : e)));
    }
    loading = false;
  }
  load();
  return {
    title: "Targets", grid, node: h("div.table-view", {}, h("h1.unseen", {}, "Targets"), sources, h("div.filters", { role: "search" }, box.node, state, summary), note, whole, grid.frame),
    update() { if (seen !== store.version.states) { seen = store.version.states; grid.redraw(); } },
    tick() { if (Date.now() > due) load(); }, close() { grid.close(); },
    requery(q) { query = q; box.read(q); state.value = q.get("state") ?? ""; show(); },
  };
}

/** objectOf returns what an event is about. @param {any} e */
function objectOf(e) {
  const container = containerOf({ container: /\{(.+)\}/.exec(e.involvedObject?.fieldPath ?? "")?.[1] });
  return `${e.involvedObject?.namespace ?? ""}/${e.involvedObject?.name ?? ""} ${container}`;
}

/** @type {import("./grid.js").Column<any>[]} */
const EVENTS = [
  { title: "Reason", name: "probe", order: "reason", by: (e) => String(e.reason), make: (cell) => {
    const mark = h("span.mark"), name = h("bdi.where");
    cell.append(mark, h("span.name", {}, name));
    return (e) => { fill(mark, icon(e.type === "Warning" ? "warning" : "success")); put(name, line(e.reason, 60)); };
  } },
  { title: "Last", name: "state", order: "last", by: (e) => store.eventTime(e) || 0, down: true, make: (cell) => (e) => put(cell, clock(store.eventTime(e))) },
  { title: "Count", name: "took num", order: "count", by: (e) => e.count || 1, down: true, make: (cell) => (e) => put(cell, count(e.count || 1)) },
  { title: "Object", name: "address", order: "object", by: objectOf, make: text((e) => line(objectOf(e), 160)) },
  { title: "Message", name: "output", make: text((e) => line(e.message, 500)) },
];

/**
 * @param {import("./app.js").Route} route
 * @returns {import("./app.js").View}
 */
export function eventsView(route) {
  const box = searchBox(route, "Search events"), summary = h("span.summary");
  const type = h("select", { "aria-label": "Type", onchange: () => route.setQuery({ type: type.value }, true) }, ["", "Warning", "Normal"].map((s) => h("option", { value: s }, s || "all types")));
  const grid = new Grid({
    route, label: "Events", name: "event-list", columns: EVENTS, key: (e) => e.metadata.name,
    href: (e) => (e.involvedObject?.kind === "Pod" ? link(["pod", e.involvedObject.namespace ?? "", e.involvedObject.name ?? ""]) : link(["events"], { q: e.reason })), empty: "No event matches.",
  });
  let seen = "", query = route.query;
  type.value = query.get("type") ?? "";
  function update(asked = false) {
    const version = String(store.version.events);
    if (version === seen && !asked) return;
    seen = version;
    const want = query.get("type");
    const rows = grid.arrange([...store.events.values()].filter((e) => (!want || e.type === want) && box.matches(`${e.reason} ${e.message} ${e.involvedObject?.namespace}/${e.involvedObject?.name} ${e.involvedObject?.fieldPath ?? ""}`, store.labelsOf(e.involvedObject?.uid))).reverse(), query);
    if (asked) grid.set(rows);
    else grid.renew(rows);
    put(summary, grid.summary(store.events.size, "events"));
  }
  return {
    title: "Events", update: () => update(), grid, node: h("div.table-view", {}, h("h1.unseen", {}, "Events"), h("div.filters", { role: "search" }, box.node, type, summary), grid.frame),
    requery(q) { query = q; box.read(q); type.value = q.get("type") ?? ""; update(true); }, close() { grid.close(); },
  };
}

const PLUGIN_STATES = /** @type {Record<string, string>} */ ({ running: "success", unused: "unknown", withdrawn: "warning", failed: "failure" });

/** @returns {import("./app.js").View} */
export function plugins() {
  const cards = h("div.cards"), summary = h("p.summary"), result = h("p.result", { role: "status" });
  let due = 0, seen = "";
  async function load() {
    due = Date.now() + 5000;
    try {
      const all = await ask("api/v1/plugins");
      const items = objects(all.items);
      put(summary, `${plural(items.length, "plugin")}${all.memoryBytes === undefined ? "" : ` · ${bytes(all.memoryBytes)} of memory of all instances`}`);
      const text = JSON.stringify(items) + token();
      if (text === seen || cards.contains(document.activeElement)) return;
      seen = text;
      const rank = ["failed", "withdrawn", "running", "unused"];
      items.sort((/** @type {any} */ a, /** @type {any} */ b) => rank.indexOf(a.state) - rank.indexOf(b.state) || (a.name < b.name ? -1 : 1));
      fill(cards, ...items.map(card));
      if (!items.length) cards.append(h("p.none", {}, "No plugin is loaded."));
    } catch (e) {
      if (!unanswered(e) || !seen) fill(cards, h("p.none", {}, e instanceof Failed && e.status === 404 ? "This agent does not list its plugins." : line(e instanceof Error ? e.message : e)));
    }
  }
  /** @param {any} p */
  function card(p) {
    const fact = (/** @type {string} */ name, /** @type {any} */ value) => (value === "" || value == null ? [] : [h("dt", {}, name), h("dd", {}, value)]);
    const limits = Object.entries(p.limits ?? {}).map(([k, v]) => `${k} ${count(Number(v))}`).join(", ");
    const using = [...store.probes.values()].filter((r) => r.p.handler === p.name);
    return h("article.card", { "aria-label": line(p.name, 60), "data-state": p.error || p.refused ? "failure" : "" },
      h("h2", {}, said(p.name, 60), " ", h("small", {}, said(p.version ?? "", 40))), h("p", {}, badge(p.error && p.state === "running" ? "warning" : PLUGIN_STATES[p.state], p.state), " ", h("span.kind", {}, line(p.runtime ?? "", 20))),
      p.error ? h("p.error", {}, said(p.error, 1000)) : null, p.refused && p.refused.error !== p.error ? h("p.error", {}, "refused: ", said(p.refused.error, 1000)) : null, p.stale ? h("p.error", {}, said(p.stale, 500)) : null,
      h("dl.facts", {}, [fact("Probes", p.probes ? h("a", { href: link(["probes"], { handler: p.name }) }, count(p.probes)) : "0"),
        fact("Instances", p.runtime === "nagios" ? "" : `${count(p.busy ?? 0)} busy, ${count(p.idle ?? 0)} idle`), fact("Denied", p.denied === undefined ? "" : count(p.denied)), fact("Limits hit", limits),
        fact("Generation", count(p.generation ?? 0)), fact("Changed", when(p.changed) ? clock(when(p.changed)) : ""), fact("Trust", said([p.trust, p.signer].filter(Boolean).join(", "), 120)),
        fact("Digest", p.digest ? h("code", { title: line(p.digest, 100) }, line(p.digest, 200).slice(0, 19)) : ""), fact("Path", p.path ? said(p.path, 200) : "")].flat()),
      p.shadow ? shadow(p) : null,
      p.state === "failed" && !using.length ? null : using.length && using.length <= 3 ? h("p", {}, using.map((r) => [h("a", { href: linkOf(r.p) }, said(`${r.p.pod}/${r.p.container}`, 80)), " "]).flat()) : null);
  }
  /** @param {any} p */
  function shadow(p) {
    const s = p.shadow, c = s.compared ?? {}, compared = (c.agree ?? 0) + (c.disagree ?? 0);
    const button = h("button", { type: "button", onclick: () => promote() }, "Promote");
    const off = !token();
    button.disabled = off;
    async function promote() {
      put(result, "…");
      try {
        await act(`api/v1/plugins/${encodeURIComponent(p.name)}/promote`);
        put(result, `The shadow of ${line(p.name, 60)} has taken its place.`);
        seen = "";
        button.blur();
        load();
      } catch (e) {
        put(result, line(e instanceof Error ? e.message : e, 500));
      }
    }
    return h("div.shadow", {}, h("h3", {}, "Shadow ", h("small", {}, said(s.version ?? "", 40))), s.error ? h("p.error", {}, said(s.error, 500)) : null,
      h("p", {}, compared ? `${(100 * (c.agree ?? 0) / compared).toFixed(2)} % of ${plural(compared, "tick")} agree` : "nothing compared yet", c.error ? `, ${plural(c.error, "error")}` : "", c.skipped ? `, ${count(c.skipped)} skipped` : ""),
      s.promoteAfter ? h("p.kind", {}, `promoted after ${plural(s.promoteAfter.ticks, "tick")} with ${(100 * s.promoteAfter.agreement).toFixed(1)} % agreement`) : null, button, off ? h("small", {}, " needs the agent's token: see the page of a probe") : null);
  }
  load();
  return { title: "Plugins", node: h("div.plugins-view", {}, h("h1.unseen", {}, "Plugins"), summary, result, cards), tick() { if (Date.now() > due) load(); } };
}
