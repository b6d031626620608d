// @ts-check An endpoint or a push of prober.yaml, on the page of its probe: the checks of the endpoint and the rule
// that combines them, or the reports to the push.

import { ask } from "./api.js";
import { attr, fill, h, icon, keep, link, linkOf, put, refill, said, section } from "./dom.js";
import { clock, count, line, now, objects, since, span, when } from "./text.js";

const TYPES = ["endpoint", "push"]; // the handlers of their probes, and the names of their containers
const FEW = 12; // limit of checks that are shown at first
const MOST = 200; // limit of checks that are shown on request

/** isEntry reports whether a probe is an endpoint or a push. @param {any} p */
export const isEntry = (p) => TYPES.includes(p?.handler) && p.container === p.handler;

/**
 * names returns links to entries of prober.yaml.
 * @param {any[]} all objects with a name, and the namespace of an endpoint; or names
 */
export const names = (all) => all.map((e, i) => {
  const href = e?.name ? link(["probe", String(e.namespace), String(e.name), "endpoint", "readiness"]) : link(["probes"], { q: String(e) });
  return [i ? ", " : "", h("a", { href }, said(e?.name ?? e, 60))];
}).flat();

/** Entry has the sections of an endpoint or a push. They are hidden on the page of another probe. */
export class Entry {
  /** @param {{namespace: string, pod: string}} of */
  constructor(of) {
    this.of = of;
    this.rule = h("p");
    this.depends = h("p");
    this.list = h("ul.items", { id: "checks" });
    this.all = h("button", { type: "button", "aria-expanded": "false", "aria-controls": "checks", onclick: () => this.toggle() });
    this.rest = h("span.kind");
    this.checks = section("Checks", this.rule, this.depends, this.list, h("p.more", {}, this.all, " ", this.rest));
    this.facts = h("dl.facts");
    this.reports = section("Reports", this.facts);
    this.checks.hidden = this.reports.hidden = true;
    this.checks.classList.add("checks");
    /** @type {Map<string, Check>} */
    this.items = new Map();
    /** @type {any[]} */
    this.found = []; // the checks in the order in which they are shown
    /** @type {(() => void)[]} */
    this.times = [];
    this.seen = "";
    this.running = this.again = this.closed = false;
  }

  /** follow requests the entry after a change of its probe. @param {any} p the summary of the probe */
  async follow(p) {
    if (!isEntry(p)) return;
    this.again = true;
    if (this.running) return;
    this.running = true;
    while (this.again && !this.closed) {
      this.again = false;
      const query = new URLSearchParams({ namespace: this.of.namespace, name: this.of.pod, type: p.handler });
      // After an error, what is shown stays: the summary of the page says that the agent does not answer.
      await ask(`api/v1/endpoints?${query}`).then((all) => this.show(objects(all?.items)[0] ?? {}), () => {});
    }
    this.running = false;
  }

  close() {
    this.closed = true;
  }

  tick() {
    for (const i of this.items.values()) i.tick();
    for (const f of this.times) f();
  }

  /** @param {any} e an Endpoint */
  show(e) {
    if (this.closed) return;
    this.checks.hidden = e.type !== "endpoint";
    this.reports.hidden = e.type !== "push";
    put(this.rule, e.rule ? `${line(e.rule, 500)} must pass` : "");
    const missing = (Array.isArray(e.missing) ? e.missing : []).map((/** @type {any} */ name) => ({ name, missing: true }));
    this.found = [...objects(e.checks), ...missing];
    if (this.found.length > FEW) this.found.sort((a, b) => Number(Boolean(b.decides)) - Number(Boolean(a.decides))); // the others stay in order
    this.showChecks();
    const needs = Array.isArray(e.dependsOn) ? e.dependsOn.slice(0, MOST) : [];
    const seen = JSON.stringify([e.push, needs]);
    if (seen === this.seen) return;
    this.seen = seen;
    this.depends.hidden = !needs.length;
    refill(this.depends, "Depends on: ", names(needs));
    if (e.type === "push") this.showReports(e.push ?? {}, needs);
  }

  toggle() {
    attr(this.all, "aria-expanded", String(this.all.getAttribute("aria-expanded") !== "true"));
    this.showChecks();
  }

  showChecks() {
    const all = this.found.length, open = this.all.getAttribute("aria-expanded") === "true";
    const shown = this.found.slice(0, open ? MOST : FEW);
    /** @type {Map<string, Check>} */
    const next = new Map();
    for (const c of shown) {
      const key = c.missing ? `missing ${c.name}` : [c.name, c.namespace, c.pod, c.container, c.kind].join("/");
      const item = this.items.get(key) ?? new Check(c);
      item.show(c);
      next.set(key, item);
    }
    this.items = next;
    keep(this.list, [...next.values()].map((i) => i.node));
    this.all.hidden = all <= FEW;
    put(this.all, open ? "Fewer checks" : all > MOST ? `${count(MOST)} of ${count(all)} checks` : `All ${count(all)} checks`);
    put(this.rest, all > shown.length ? `and ${count(all - shown.length)} more` : "");
  }

  /** @param {any} p a PushStatus @param {any[]} needs names of what it depends on */
  showReports(p, needs) {
    this.times = [];
    const fact = (/** @type {string} */ name, /** @type {any} */ value) => [h("dt", {}, name), h("dd", {}, value)];
    refill(this.facts, ...[
      fact("Last report", this.time(p.lastReport, () => `${since(p.lastReport)} ago`)),
      p.started ? fact("Run", this.time(p.started, () => `started ${since(p.started)} ago`)) : [],
      fact("Due", this.time(p.due, (ms) => (ms > now() ? `in ${span((ms - now()) / 1000)}` : `${since(p.due)} ago`))),
      p.message ? fact("Message", said(p.message, 1000)) : [], needs.length ? fact("Depends on", names(needs)) : [],
    ].flat());
  }

  /**
   * time returns a node with a time in relation to the present, which tick updates.
   * @param {string | undefined} time
   * @param {(ms: number) => string} words
   */
  time(time, words) {
    const ms = when(time);
    if (!Number.isFinite(ms)) return "–";
    const node = h("time", { datetime: new Date(ms).toISOString(), title: clock(ms) });
    const update = () => put(node, words(ms));
    update();
    this.times.push(update);
    return node;
  }
}

/** Check is the row of a check. */
class Check {
  /** @param {any} c an EndpointCheck, or a missing one */
  constructor(c) {
    this.mark = h("span.mark");
    this.name = h("bdi");
    this.note = h("span.kind");
    this.since = h("span.since");
    this.why = h("bdi");
    this.item = h(c.missing ? "div.item" : "a.item", { href: c.missing ? null : linkOf(c) },
      this.mark, h("span.what", {}, h("b", {}, this.name), " ", this.note), this.since, h("span.why", {}, this.why));
    this.node = h("li", {}, this.item);
    this.state = "";
    this.time = "";
  }

  /** @param {any} c */
  show(c) {
    const state = c.missing ? "unknown" : line(c.state, 20);
    if (this.state !== state) fill(this.mark, icon(state));
    this.state = state;
    attr(this.item, "data-state", state);
    put(this.name, line(c.name, 200));
    put(this.note, [c.missing ? "missing" : state, c.weight > 1 ? `weight ${count(c.weight)}` : "", c.decides === true ? "decides" : "", c.drained === true ? "drained" : ""].filter(Boolean).join(" · "));
    put(this.why, line(c.cause ?? "", 300));
    this.time = c.stateSince;
    this.tick();
  }

  tick() {
    put(this.since, this.time ? since(this.time) : "");
  }
}
