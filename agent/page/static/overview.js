// @ts-check The first view: the number of probes in each state, incidents, failures and when they began, and problems of
// pods, targets, plugins and the agent. The wall is the same for an unattended screen.

import { ask } from "./api.js";
import { COUNTED, Name, attr, containerOf, fill, h, icon, keep, link, linkOf, put, said, section } from "./dom.js";
import { Hold } from "./hold.js";
import { INCIDENTS, incidents } from "./incidents.js";
import * as store from "./store.js";
import { clock, count, line, now, objects, plural, since, span, when } from "./text.js";

const SHOWN = 40;
const NOTICES = 3; // on the wall, above the failures, which may extend below the screen

/** Side requests data that is not in the stream, every few seconds. */
class Side {
  /** @param {() => void} changed */
  constructor(changed) {
    /** @type {any} */
    this.agent = null;
    /** @type {any} */
    this.targets = null;
    /** @type {any} */
    this.plugins = null;
    /** @type {any} */
    this.incidents = null;
    /** @type {any} */
    this.maintenance = null;
    this.changed = changed;
    this.due = 0;
    this.epoch = -1;
    this.answers = 0;
    this.seen = "";
    this.looked = 0;
    this.lookedAt = -1;
    this.closed = false;
  }

  /** refresh requests the data again after a while, or from a new agent. */
  refresh() {
    if (Date.now() < this.due && this.epoch === store.link.epoch) return;
    this.due = Date.now() + 5000;
    this.epoch = store.link.epoch;
    const take = (/** @type {"agent" | "targets" | "plugins" | "incidents" | "maintenance"} */ name, /** @type {string} */ path) =>
      ask(path).then((v) => { this[name] = v; this.answers++; }, (e) => { if (e.status === 404) this[name] = null; }).then(() => this.closed || this.changed());
    take("agent", "api/v1/agent");
    take("targets", "api/v1/targets?state=dropped&limit=20");
    take("plugins", "api/v1/plugins");
    take("incidents", INCIDENTS);
    take("maintenance", "api/v1/maintenance");
  }
}

function tiles() {
  const nodes = COUNTED.map((state) => {
    const number = h("strong", {}, "0");
    return { state, number, node: h("a.tile", { href: link(["probes"], { state }), "data-state": state }, icon(state), number, h("span", {}, state)) };
  });
  return {
    node: h("div.tiles", { role: "group", "aria-label": "Probes by state" }, nodes.map((t) => t.node)),
    update() {
      for (const t of nodes) {
        put(t.number, count(store.counts[t.state]));
        attr(t.node, "data-none", store.counts[t.state] ? "no" : "yes");
        if (t.state === "paused" || t.state === "maintenance") t.node.hidden = !store.counts[t.state];
      }
    },
  };
}

/** whatOf returns what is probed. A target is probed for its readiness, unless its group says otherwise. @param {any} p */
const whatOf = (p) => (containerOf(p) || p.kind !== "readiness" ? `${p.kind} · ` : "") + (p.target || p.handler);

/** Item is the row of a probe in a list. */
class Item {
  constructor() {
    this.mark = h("span.mark");
    this.name = new Name();
    this.kind = h("bdi.kind");
    this.since = h("span.since");
    this.why = h("bdi");
    this.link = h("a.item", {}, this.mark, h("span.what", {}, this.name.node, " "), h("span.probes", {}, this.kind), this.since, h("span.why", {}, this.why));
    this.node = h("li", {}, this.link);
    this.state = "";
    this.version = -1;
    /** @type {string | undefined} */
    this.time = "";
  }

  /** @param {import("./store.js").Row} row */
  show(row) {
    const p = row.p;
    this.version = row.version;
    if (this.state !== row.state) fill(this.mark, icon(row.state), h("span.unseen", {}, row.state));
    this.state = row.state;
    attr(this.link, "data-state", row.state);
    attr(this.link, "href", linkOf(p));
    this.name.show(p);
    put(this.kind, line(whatOf(p), 200));
    attr(this.kind, "title", this.kind.textContent);
    put(this.why, line(p.cause || p.last?.text || p.gate || "no attempt yet", 240));
    this.time = p.stateSince;
    this.tick();
  }

  tick() {
    put(this.since, this.time ? since(this.time) : "");
  }
}

/**
 * bad returns the list of the probes in a state.
 * @param {string} state
 * @param {string} title
 * @param {number} most
 */
function bad(state, title, most = SHOWN) {
  const list = h("ul.items.rows"), heading = h("h2"), more = h("a", { href: link(["probes"], { state }) });
  const node = h("section", { "aria-label": title, hidden: true }, heading, list, h("p.more", {}, more));
  /** @type {Map<string, Item>} */
  let items = new Map();
  /** @type {import("./store.js").Row[]} */
  let shown = [];
  let seen = -1;
  const hold = new Hold(list, () => { seen = -1; store.schedule(); });
  /** inPlace returns rows, but those that are shown stay in their places. @param {import("./store.js").Row[]} rows */
  const inPlace = (rows) => {
    const stay = shown.filter((row) => store.probes.has(row.key)), had = new Set(stay);
    return [...stay, ...rows.filter((row) => !had.has(row))];
  };
  return {
    node,
    update() {
      if (seen === store.version.states) { // the same probes: only ticks have changed
        for (const row of shown) if (items.get(row.key)?.version !== row.version) items.get(row.key)?.show(row);
        return;
      }
      seen = store.version.states;
      const rows = store.counts[state] ? store.inState(state) : [];
      shown = (hold.on ? inPlace(rows) : rows).slice(0, most);
      node.hidden = !shown.length;
      put(heading, `${title} (${count(rows.length)})`);
      /** @type {Map<string, Item>} */
      const next = new Map();
      for (const row of shown) {
        const item = items.get(row.key) ?? new Item();
        item.show(row);
        next.set(row.key, item);
      }
      items = next;
      keep(list, [...items.values()].map((i) => i.node));
      more.hidden = rows.length <= most;
      put(more, `All ${count(rows.length)}`);
    },
    tick() {
      for (const i of items.values()) i.tick();
    },
    close() { hold.close(); },
  };
}

/**
 * troubles shows problems of containers, targets, plugins and the agent.
 * @param {Element} into
 * @param {Side} side
 * @param {number} most
 */
function troubles(into, side, most = SHOWN) {
  // Scan the pods, up to 10,000, at most once a second.
  const version = `${store.version.pods} ${side.answers} ${Math.floor(Date.now() / 60_000)}`;
  const answered = side.lookedAt !== side.answers;
  if (version === side.seen || !answered && Date.now() - side.looked < 1000) return into.children.length;
  side.lookedAt = side.answers;
  side.seen = version;
  side.looked = Date.now();
  /** @type {HTMLElement[]} */
  const items = [];
  const had = new Map([...into.children].map((n) => [/** @type {HTMLElement} */ (n).dataset.key, n]));
  const item = (/** @type {string} */ href, /** @type {string} */ state, /** @type {string} */ what, /** @type {string} */ kind, /** @type {string} */ why) => {
    const key = [href, state, what, kind, why].join("\n");
    items.push(/** @type {any} */ (had.get(key)) ?? h("li", { "data-key": key }, h(href ? "a.item" : "div.item", { href: href || null, "data-state": state }, icon(state), h("span.what", {}, h("b", {}, said(what, 120)), h("span.kind", {}, ` ${kind}`)), h("span.why", {}, said(why, 400)))));
  };
  for (const c of objects(side.agent?.checks)) item(checkLink(c), c.result === "failure" ? "failure" : "warning", c.name, "agent", c.text);
  for (const p of objects(side.plugins?.items)) {
    if (p.error || p.refused || p.state === "failed") item(link(["plugins"]), p.state === "running" ? "warning" : "failure", p.name, `plugin, ${p.state}`, p.error || p.refused?.error || "");
  }
  for (const t of objects(side.targets?.items)) item(link(["targets"], { state: "dropped", q: t.name }), "warning", t.name, "dropped target", t.reason || "");
  for (const t of objects(side.targets?.sources)) if (t.error) item(link(["targets"]), "warning", t.source, "source of targets", t.error);
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
  keep(into, items.slice(0, most));
  return items.length;
}

/** @param {any} c a check */
function checkLink(c) {
  if (/^plugin/.test(c.name)) return link(["plugins"]);
  if (/^targets?/.test(c.name)) return link(["targets"]);
  return "";
}

/** showSilent names the receivers of notifications that are in a maintenance window of their own. @param {any} into @param {any} list */
function showSilent(into, list) {
  const windows = objects(list?.items).filter((w) => w.active && w.receivers?.length).slice(0, 10);
  const words = windows.map((w) => `No notifications to ${w.receivers.map((/** @type {string} */ r) => line(r, 60)).join(", ")} about ${plural(w.probes, "probe")}: maintenance until ${clock(when(w.until))}${w.reason ? `: ${line(w.reason, 240)}` : ""}`);
  into.hidden = !words.length;
  if (into.dataset.words !== words.join("\n")) fill(into, words.map((text) => h("p.calm", {}, icon("maintenance"), said(text, 400))));
  into.dataset.words = words.join("\n");
}

/** showCalm says that all probes succeed, if they do, or that there are none. @param {any} into */
function showCalm(into) {
  const { success, paused, maintenance } = store.counts, calm = success > 0 && success + paused + maintenance === store.probes.size;
  const words = calm ? `All probes succeed${paused ? `, ${count(paused)} paused` : ""}${maintenance ? `, ${count(maintenance)} in maintenance` : ""}.` : store.probes.size || store.link.lost ? "" : store.loading() ? "Loading…" : "This agent has no probes yet: give it pods with probes, or targets in prober.yaml.";
  into.hidden = !words;
  if (into.dataset.words !== words) fill(into, icon(calm ? "success" : "unknown"), words);
  into.dataset.words = words;
}

/** @returns {import("./app.js").View} */
export function overview() {
  const top = tiles(), together = incidents(), failing = bad("failure", "Failing now"), warning = bad("warning", "Warnings", 20), unknown = bad("unknown", "Unknown", 20);
  const calm = h("p.calm", { hidden: true }), silent = h("div", { hidden: true });
  const trouble = h("ul.items"), troubleSection = section("Agent, plugins, targets and containers", trouble);
  const recent = h("ul.events"), recentSection = section("Latest warnings of events", recent);
  const foot = h("p.foot");
  const notice = h("button.notice", { type: "button", hidden: true, onclick: () => { troubleSection.scrollIntoView(); /** @type {HTMLElement | null} */ (trouble.querySelector("a"))?.focus({ preventScroll: true }); } });
  let seen = -1;
  const side = new Side(() => update());
  const about = () => {
    const a = side.agent;
    put(foot, [a ? `agent ${a.version || "dev"}, up ${span((now() - when(a.started)) / 1000)}` : "", plural(store.probes.size, "probe"), plural(store.pods.size, "pod"), a && !a.ready ? "not ready" : ""].filter(Boolean).join(" · "));
  };
  function update() {
    top.update();
    together.update(side.incidents);
    for (const part of [failing, warning, unknown]) part.update();
    showCalm(calm);
    showSilent(silent, side.maintenance);
    const wrong = troubles(trouble, side);
    troubleSection.hidden = !wrong;
    notice.hidden = !wrong || store.counts.failure < 8; // otherwise the section is on the screen
    put(notice, `${plural(wrong, "notice")} about the agent, plugins, targets and containers ↓`);
    if (seen !== store.version.events) {
      seen = store.version.events;
      const latest = [...store.events.values()].filter((e) => e.type === "Warning").slice(-6).reverse();
      recentSection.hidden = !latest.length;
      fill(recent, ...latest.map((e) => h("li", {}, h("time", {}, clock(store.eventTime(e))), h("b", {}, said(e.reason, 60)), said(`${e.involvedObject?.name ?? ""} ${e.message ?? ""}`, 240), e.count > 1 ? h("small", {}, `×${count(e.count)}`) : null)));
    }
    about();
  }
  return {
    title: "", update,
    node: h("div.overview", {}, h("h1.unseen", {}, "Overview"), top.node, notice, calm, silent, together.node, failing.node, troubleSection, warning.node, unknown.node, recentSection, foot),
    tick() { for (const part of [together, failing, warning, unknown]) part.tick(); side.refresh(); update(); },
    close() { side.closed = true; for (const part of [failing, warning, unknown]) part.close(); },
  };
}

/** @returns {import("./app.js").View} */
export function wall() {
  const top = tiles(), failing = bad("failure", "Failing now", 14), warning = bad("warning", "Warnings", 6);
  const calm = h("p.calm", { hidden: true }), silent = h("div", { hidden: true }), foot = h("p.foot"), checks = h("ul.items");
  const side = new Side(() => update());
  function update() {
    top.update();
    failing.update();
    warning.update();
    showCalm(calm);
    showSilent(silent, side.maintenance);
    const wrong = troubles(checks, side, NOTICES), more = wrong > NOTICES ? ` · ${plural(wrong - NOTICES, "notice")} more in the overview` : "";
    const a = side.agent;
    put(foot, `${clock(now())}${a ? ` · agent ${a.version || "dev"}, up ${span((now() - when(a.started)) / 1000)}` : ""}${more}`);
  }
  return {
    title: "Wall", update, node: h("div.wall", {}, h("h1.unseen", {}, "Wall screen"), top.node, calm, silent, checks, failing.node, warning.node, foot),
    tick() { failing.tick(); warning.tick(); side.refresh(); update(); },
    close() { side.closed = true; failing.close(); warning.close(); },
  };
}
