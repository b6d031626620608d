// @ts-check
// What a person looks at first: how many probes are in each state, what fails and since when, and what
// is wrong with pods, targets, plugins and the agent itself. The wall is the same for a screen that
// nobody touches.

import { ask } from "./api.js";
import { STATES, attr, h, icon, link, linkOf, put, said, section } from "./dom.js";
import * as store from "./store.js";
import { clock, count, now, plural, since, span, when } from "./text.js";

const SHOWN = 40;

/** Side is what the overview asks for beside the stream, every few seconds. */
class Side {
  /** @param {() => void} changed */
  constructor(changed) {
    /** @type {any} */
    this.agent = null;
    /** @type {any} */
    this.targets = null;
    /** @type {any} */
    this.plugins = null;
    this.changed = changed;
    this.due = 0;
    this.epoch = -1;
    this.closed = false;
  }

  /** refresh asks again if it is time, or the agent is another one. */
  refresh() {
    if (Date.now() < this.due && this.epoch === store.link.epoch) return;
    this.due = Date.now() + 5000;
    this.epoch = store.link.epoch;
    const take = (/** @type {"agent" | "targets" | "plugins"} */ name, /** @type {string} */ path) =>
      ask(path).then((v) => { this[name] = v; }, (e) => { if (e.status === 404) this[name] = null; }).then(() => this.closed || this.changed());
    take("agent", "api/v1/agent");
    take("targets", "api/v1/targets?state=dropped&limit=20");
    take("plugins", "api/v1/plugins");
  }
}

function tiles() {
  const nodes = STATES.map((state) => {
    const number = h("strong", {}, "0");
    return { state, number, node: h("a.tile", { href: link(["probes"], { state }), "data-state": state }, icon(state), number, h("span", {}, state)) };
  });
  return {
    node: h("div.tiles", { role: "group", "aria-label": "Probes by state" }, nodes.map((t) => t.node)),
    update() {
      for (const t of nodes) {
        put(t.number, count(store.counts[t.state]));
        attr(t.node, "data-none", store.counts[t.state] ? "no" : "yes");
      }
    },
  };
}

/** @param {any} row */
function failingItem(row) {
  const p = row.p;
  return h("li", {}, h("a.item", { href: linkOf(p), "data-state": row.state }, icon(row.state),
    h("span.what", {}, h("bdi", {}, `${p.namespace}/${p.pod}`), " ", h("b", {}, h("bdi", {}, p.container)), h("span.kind", {}, ` ${p.kind} · `, said(p.handler, 60), p.paused ? " · paused" : "")),
    h("span.since", { "data-since": p.stateSince ?? "" }, since(p.stateSince)),
    h("span.why", {}, said(p.last?.text || p.gate || "no attempt yet", 240))));
}

/**
 * bad returns the list of what is in a state, which is drawn again only if it has changed.
 * @param {string} state
 * @param {string} title
 * @param {number} most
 */
function bad(state, title, most = SHOWN) {
  const list = h("ul.items"), heading = h("h2"), more = h("p.more");
  const node = h("section", { "aria-label": title, hidden: true }, heading, list, more);
  let shown = "";
  return {
    node,
    update() {
      const rows = store.inState(state);
      node.hidden = !rows.length;
      const first = rows.slice(0, most);
      const now = first.map((r) => `${r.key}${r.sinceMs}${r.p.last?.text}${r.p.paused}`).join("\n") + rows.length;
      if (now === shown) return;
      shown = now;
      put(heading, `${title} (${count(rows.length)})`);
      const at = /** @type {HTMLElement | null} */ (document.activeElement)?.getAttribute("href");
      list.replaceChildren(...first.map(failingItem));
      if (at) /** @type {HTMLElement | undefined} */ ([...list.querySelectorAll("a")].find((a) => a.getAttribute("href") === at))?.focus();
      more.replaceChildren(rows.length > most ? h("a", { href: link(["probes"], { state }) }, `All ${count(rows.length)}`) : "");
    },
    tick() {
      for (const n of list.querySelectorAll("[data-since]")) put(n, since(n.getAttribute("data-since") || undefined));
    },
  };
}

/** troubles returns what is wrong with containers, targets, plugins and the agent. @param {Side} side */
function troubles(side) {
  const items = [];
  const item = (/** @type {string} */ href, /** @type {string} */ state, /** @type {string} */ what, /** @type {string} */ kind, /** @type {string} */ why) =>
    items.push(h("li", {}, h(href ? "a.item" : "div.item", { href: href || null, "data-state": state }, icon(state), h("span.what", {}, h("b", {}, said(what, 120)), h("span.kind", {}, ` ${kind}`)), h("span.why", {}, said(why, 400)))));
  for (const c of side.agent?.checks ?? []) item(checkLink(c), c.result === "failure" ? "failure" : "warning", c.name, "agent", c.text);
  for (const p of side.plugins?.items ?? []) {
    if (p.error || p.refused || p.state === "failed") item(link(["plugins"]), p.state === "running" ? "warning" : "failure", p.name, `plugin, ${p.state}`, p.error || p.refused?.error || "");
  }
  for (const t of side.targets?.items ?? []) item(link(["targets"], { state: "dropped", q: t.name }), "warning", t.name, "dropped target", t.reason || "");
  for (const t of side.targets?.sources ?? []) if (t.error) item(link(["targets"]), "warning", t.source, "source of targets", t.error);
  let more = 0;
  for (const pod of store.pods.values()) {
    for (const c of pod.containers) {
      const recent = c.restarts > 0 && now() - when(c.lastEnd) < 10 * 60_000;
      if (!(recent || c.state !== "running" && !c.init && pod.phase !== "Succeeded")) continue;
      if (items.length > SHOWN) { more++; continue; }
      const why = c.state !== "running" ? c.reason || c.state : `last ended ${clock(when(c.lastEnd))}: ${c.lastReason || "–"}`;
      item(link(["pod", pod.namespace, pod.name]), c.state !== "running" ? "failure" : "warning", `${pod.namespace}/${pod.name} ${c.name}`, `container, ${c.state}, ${plural(c.restarts, "restart")}`, why);
    }
  }
  if (more) items.push(h("li", {}, h("a.item", { href: link(["pods"]) }, `${plural(more, "container")} more`)));
  return items;
}

/** @param {any} c a check */
function checkLink(c) {
  if (/^plugin/.test(c.name)) return link(["plugins"]);
  if (/^targets?/.test(c.name)) return link(["targets"]);
  return "";
}

/** @returns {import("./app.js").View} */
export function overview() {
  const top = tiles(), failing = bad("failure", "Failing now"), warning = bad("warning", "Warnings", 20), unknown = bad("unknown", "Unknown", 20);
  const calm = h("p.calm", { hidden: true }, icon("success"), "All probes succeed.");
  const trouble = h("ul.items"), troubleSection = section("Agent, plugins, targets and containers", trouble);
  const recent = h("ul.events"), recentSection = section("Latest warnings of events", recent);
  const foot = h("p.foot");
  let seen = "";
  const side = new Side(() => update());
  const about = () => {
    const a = side.agent;
    put(foot, [a ? `agent ${a.version || "dev"}, up ${span((now() - when(a.started)) / 1000)}` : "", plural(store.probes.size, "probe"), plural(store.pods.size, "pod"), a && !a.ready ? "not ready" : ""].filter(Boolean).join(" · "));
  };
  function update() {
    top.update();
    for (const part of [failing, warning, unknown]) part.update();
    calm.hidden = !(store.probes.size && store.counts.success === store.probes.size);
    const items = troubles(side), text = items.map((i) => i.textContent).join("\n");
    troubleSection.hidden = !items.length;
    const version = `${text}\n${store.version.events}`;
    if (version !== seen) {
      seen = version;
      const at = document.activeElement?.getAttribute("href");
      trouble.replaceChildren(...items);
      if (at) /** @type {HTMLElement | undefined} */ ([...trouble.querySelectorAll("a")].find((a) => a.getAttribute("href") === at))?.focus();
      const latest = [...store.events.values()].filter((e) => e.type === "Warning").slice(-6).reverse();
      recentSection.hidden = !latest.length;
      recent.replaceChildren(...latest.map((e) => h("li", {}, h("time", {}, clock(store.eventTime(e))), h("b", {}, said(e.reason, 60)), said(`${e.involvedObject?.name ?? ""} ${e.message ?? ""}`, 240), e.count > 1 ? h("small", {}, `×${count(e.count)}`) : null)));
    }
    about();
  }
  return {
    title: "", update,
    node: h("div.overview", {}, h("h1.unseen", {}, "Overview"), top.node, calm, failing.node, troubleSection, warning.node, unknown.node, recentSection, foot),
    tick() { for (const part of [failing, warning, unknown]) part.tick(); side.refresh(); about(); },
    close() { side.closed = true; },
  };
}

/** @returns {import("./app.js").View} */
export function wall() {
  const top = tiles(), failing = bad("failure", "Failing now", 14), warning = bad("warning", "Warnings", 6);
  const calm = h("p.calm", { hidden: true }, icon("success"), "All probes succeed."), foot = h("p.foot"), checks = h("ul.items");
  const side = new Side(() => update());
  let seen = "";
  function update() {
    top.update();
    failing.update();
    warning.update();
    calm.hidden = !(store.probes.size && store.counts.success === store.probes.size);
    const items = troubles(side).slice(0, 5), text = items.map((i) => i.textContent).join("\n");
    if (text !== seen) checks.replaceChildren(...items);
    seen = text;
    const a = side.agent;
    put(foot, `${clock(now())} · ${store.link.state === "live" ? "live" : `${store.link.state}, data of ${clock(store.link.heard)}`}${a ? ` · agent ${a.version || "dev"}, up ${span((now() - when(a.started)) / 1000)}` : ""}`);
  }
  return {
    title: "Wall", update, node: h("div.wall", {}, h("h1.unseen", {}, "Wall screen"), top.node, calm, failing.node, checks, warning.node, foot),
    tick() { failing.tick(); warning.tick(); side.refresh(); update(); },
    close() { side.closed = true; },
  };
}
