// @ts-check The open incidents of several probes, each with a list of its probes.

import { attr, h, icon, keep, linkOf, put, refill, said } from "./dom.js";
import { count, line, objects, plural, since } from "./text.js";

const FEW = 50; // probes of an incident that are listed

/** INCIDENTS is the path of the request. */
export const INCIDENTS = `api/v1/incidents?state=open&parts=${FEW}`;

/** Row is one incident. It stays open while it changes. */
class Row {
  constructor() {
    this.why = h("b");
    this.size = h("span.kind");
    this.since = h("span.since");
    this.parts = h("ul.parts");
    this.notes = h("ul.notes", { "aria-label": "Notes" });
    this.mark = h("span.mark");
    this.summary = h("summary.item", {}, this.mark, h("span.what", {}, this.size), h("span.why", {}, h("bdi", {}, this.why)), this.since);
    this.node = h("li", {}, h("details", {}, this.summary, this.notes, this.parts));
    this.state = "";
    this.start = "";
    this.seen = "";
    this.noted = "";
  }

  /** @param {any} n an incident */
  show(n) {
    this.start = n.start;
    put(this.why, line(n.cause, 240));
    put(this.size, plural(Number(n.failing), "probe") + (n.maintenance ? " (maintenance)" : ""));
    const state = n.maintenance ? "maintenance" : "failure";
    if (state !== this.state) {
      this.state = state;
      attr(this.summary, "data-state", state);
      refill(this.mark, icon(state), h("span.unseen", {}, state));
    }
    this.tick();
    const notes = JSON.stringify(n.notes ?? []);
    if (notes !== this.noted) {
      this.noted = notes;
      refill(this.notes, objects(n.notes).map((note) => h("li", {}, said(note.text, 300), " ", h("span.kind", {}, since(note.time), " ago"))));
    }
    const parts = objects(n.parts).filter((p) => !p.until).slice(0, FEW), seen = JSON.stringify([n.failing, parts]);
    if (seen === this.seen) return;
    this.seen = seen;
    const rest = Number(n.failing) - parts.length;
    refill(this.parts,
      parts.map((p) => h("li", {}, h("a", { href: linkOf(p) }, said(`${p.namespace}/${p.pod} ${p.container} ${p.kind}`, 200)), " ", h("span.kind", {}, said((p.cause || p.state) + (p.maintenance ? " (maintenance)" : ""), 220)))),
      rest > 0 && h("li", {}, `and ${count(rest)} more: prober describe incident ${line(n.id, 20)}`));
  }

  tick() {
    put(this.since, since(this.start));
  }
}

/** incidents returns the section of the incidents with two probes or more: a single one is among the failures. */
export function incidents() {
  const list = h("ul.items"), heading = h("h2");
  const node = h("section.incidents", { "aria-label": "Incidents", hidden: true }, heading, list);
  /** @type {Map<string, Row>} */
  let rows = new Map();
  return {
    node,
    /** @param {any} answer an IncidentList; null for an older agent */
    update(answer) {
      const open = objects(answer?.items).filter((n) => n.failing > 1);
      node.hidden = !open.length;
      put(heading, plural(open.length, "incident"));
      /** @type {Map<string, Row>} */
      const next = new Map();
      for (const n of open) {
        const row = rows.get(n.id) ?? new Row();
        row.show(n);
        next.set(n.id, row);
      }
      rows = next;
      keep(list, [...rows.values()].map((r) => r.node));
    },
    tick() {
      for (const r of rows.values()) r.tick();
    },
  };
}
