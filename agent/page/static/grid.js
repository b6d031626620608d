// @ts-check A table of any length. Only the rows on the screen exist, and they are reused. The arrow keys
// move through it, Enter opens a row, and Tab leaves it.

import { attr, h, put } from "./dom.js";
import { Hold } from "./hold.js";
import { link, loading } from "./store.js";
import { count } from "./text.js";

/**
 * @template T
 * @typedef {object} Column
 * @property {string} title
 * @property {string} name class of its cells
 * @property {(cell: HTMLElement) => (row: T) => void} make builds a cell, and returns the function that shows a row in it
 * @property {string} [order] name of the order by this column, as in the address; "-" before it reverses the order
 * @property {(row: T) => string | number} [by] what the rows are ordered by
 * @property {boolean} [down] the largest is first
 */

/** @template T */
export class Grid {
  /**
   * @param {object} options
   * @param {string} options.label
   * @param {string} options.name class
   * @param {Column<T>[]} options.columns
   * @param {import("./app.js").Route} [options.route] its query has the order; without it, headers order nothing
   * @param {(row: T) => string} [options.heading] the heading of a group, which only the first column shows; "" for other rows
   * @param {(row: T) => string} options.key
   * @param {(row: T) => string} [options.href] link to the page of a row
   * @param {(row: T) => number} [options.version] changes when the shown fields of a row change; without it, each draw shows the row again
   * @param {string} options.empty shown without rows
   */
  constructor(options) {
    this.options = options;
    /** @type {T[]} */
    this.rows = [];
    /** @type {{node: HTMLElement, anchor: HTMLElement, at: number, row: T | null, version: number, show: ((row: T) => void)[]}[]} */
    this.lines = [];
    this.order = "";
    this.cursor = 0;
    this.cursorKey = "";
    this.rowHeight = 34;
    this.space = h("div.space", { role: "presentation" });
    this.none = h("p.none", { hidden: true }, options.empty);
    this.head = h("div.line.head", { role: "row", "aria-rowindex": 1 },
      options.columns.map((c) => this.header(c)));
    this.body = h("div.scroll", { role: "rowgroup", onscroll: () => this.draw() }, this.space);
    this.node = h(`div.grid.${options.name}`, { role: "grid", "aria-label": options.label, "aria-colcount": options.columns.length, onkeydown: (/** @type {KeyboardEvent} */ e) => this.key(e) },
      h("div", { role: "rowgroup" }, this.head), this.body);
    this.frame = h("div.frame", {}, this.node, this.none);
    this.resize = new ResizeObserver(() => this.measure());
    this.resize.observe(this.body);
    this.hold = new Hold(this.body, () => this.release());
    /** @type {T[] | null} */
    this.waiting = null; // rows that are shown when the list is released
    /** @type {{top: number, key: string} | null} */
    this.place = null; // where to return to when there are rows
    this.printing = false;
    this.print = (/** @type {Event} */ e) => { this.printing = e.type === "beforeprint"; this.draw(); };
    addEventListener("beforeprint", this.print);
    addEventListener("afterprint", this.print);
  }

  close() {
    this.resize.disconnect();
    this.hold.close();
    removeEventListener("beforeprint", this.print);
    removeEventListener("afterprint", this.print);
  }

  /** header returns the header of a column. If it has an order, a click on it applies or reverses the order. @param {Column<T>} c */
  header(c) {
    const { route } = this.options, node = h(`div.cell.${c.name}`, { role: "columnheader" });
    if (!route || !c.order) node.append(c.title);
    else node.append(h("button.order", { type: "button", onclick: () => route.setQuery({ sort: this.order === c.order ? `-${c.order}` : String(c.order) }, true) }, c.title));
    return node;
  }

  /**
   * arrange sorts rows by the order of the query, or by another if it has none, and marks its column.
   * @param {T[]} rows in the order of rows that are otherwise equal
   * @param {URLSearchParams} query
   */
  arrange(rows, query, other = "") {
    this.order = query.get("sort") ?? other;
    const name = this.order.replace(/^-/, ""), column = this.options.columns.find((c) => c.order === name);
    const sign = column && Boolean(column.down) === this.order.startsWith("-") ? 1 : -1;
    this.options.columns.forEach((c, i) => {
      if (c === column && c.by) attr(this.head.children[i], "aria-sort", sign > 0 ? "ascending" : "descending");
      else this.head.children[i].removeAttribute("aria-sort");
    });
    const by = column?.by;
    if (!by) return rows;
    return rows.sort((a, b) => {
      const x = by(a), y = by(b);
      return x < y ? -sign : x > y ? sign : 0;
    });
  }

  /** present returns where a reader is, for restore. */
  present() {
    return { top: this.body.scrollTop, key: this.cursorKey };
  }

  /** restore returns to a place, when there are rows. @param {{top: number, key: string}} place */
  restore(place) {
    this.place = place;
    if (this.rows.length) this.set(this.rows);
  }

  returnTo() {
    const place = this.place;
    this.place = null;
    if (!place) return;
    this.cursor = Math.max(0, this.rows.findIndex((r) => this.options.key(r) === place.key));
    this.cursorKey = place.key;
    this.body.scrollTop = place.top;
    this.draw();
    if (place.key) this.lines.find((l) => l.at === this.cursor)?.anchor.focus({ preventScroll: true });
    this.hold.close(); // nobody has pointed at it yet
  }

  /**
   * renew shows rows that have changed by themselves. While the list holds still, its rows keep their places.
   * @param {T[]} rows
   */
  renew(rows) {
    if (!this.hold.on || !this.rows.length) return this.set(rows);
    this.waiting = rows;
    const key = this.options.key, newest = new Map(rows.map((r) => [key(r), r]));
    this.rows = this.rows.map((r) => newest.get(key(r)) ?? r);
    this.draw();
  }

  release() {
    const rows = this.waiting;
    if (rows && !this.hold.on) this.set(rows);
  }

  measure() {
    const height = parseFloat(getComputedStyle(this.node).getPropertyValue("--row")) || 34;
    if (height !== this.rowHeight) this.rowHeight = height;
    this.draw();
  }

  /**
   * set shows rows. The cursor stays at its row.
   * @param {T[]} rows
   */
  set(rows) {
    this.rows = rows;
    this.waiting = null;
    if (this.cursorKey) {
      const key = this.options.key;
      if (!rows[this.cursor] || key(rows[this.cursor]) !== this.cursorKey) {
        const at = rows.findIndex((r) => key(r) === this.cursorKey);
        if (at >= 0) this.cursor = at;
      }
    }
    this.cursor = Math.max(0, Math.min(this.cursor, rows.length - 1));
    this.none.hidden = rows.length > 0;
    this.node.hidden = rows.length === 0;
    attr(this.node, "aria-rowcount", String(rows.length + 1));
    this.draw();
    if (rows.length) this.returnTo();
  }

  /** draw shows the rows on the screen; all of them on paper. */
  draw() {
    const total = this.rows.length * this.rowHeight;
    if (this.space.style.height !== `${total}px`) this.space.style.height = `${total}px`;
    const view = this.body.clientHeight, top = this.body.scrollTop;
    const first = this.printing ? 0 : Math.max(0, Math.floor(top / this.rowHeight) - 4);
    const last = this.printing ? this.rows.length : Math.min(this.rows.length, Math.ceil((top + view) / this.rowHeight) + 4);
    const shown = this.rows.length ? Math.max(last - first, 1) : 0;
    while (this.lines.length < shown) this.lines.push(this.line());
    while (this.lines.length > shown + 24) /** @type {any} */ (this.lines.pop()).node.remove();
    /** @type {Set<number>} */
    const want = new Set();
    for (let i = first; i < Math.min(first + shown, this.rows.length); i++) want.add(i);
    const idle = [];
    for (const l of this.lines) {
      if (want.delete(l.at)) this.show(l);
      else idle.push(l);
    }
    for (const at of want) {
      const l = idle.pop();
      if (!l) break;
      l.at = at;
      this.show(l);
    }
    for (const l of idle) {
      l.at = -1;
      l.node.hidden = true;
    }
    if (this.printing) this.space.append(...this.lines.sort((a, b) => a.at - b.at).map((l) => l.node)); // paper has no positions
    // One row is always reachable with Tab.
    if (this.cursor < first || this.cursor >= last) {
      const l = this.lines.find((o) => o.at === Math.ceil(top / this.rowHeight));
      if (l) l.anchor.tabIndex = 0;
    }
  }

  /** redraw shows all rows again, after the time or the colours have changed. */
  redraw() {
    for (const l of this.lines) l.row = null;
    this.draw();
  }

  visible() {
    return this.lines.filter((l) => l.at >= 0 && this.rows[l.at]).map((l) => this.rows[l.at]);
  }

  line() {
    /** @type {((row: T) => void)[]} */
    const show = [];
    const node = h("div.line", { role: "row" });
    let anchor = node;
    this.options.columns.forEach((c, i) => {
      const cell = h(`div.cell.${c.name}`, { role: "gridcell" });
      let into = cell;
      if (i === 0 && this.options.href) {
        anchor = into = h("a.open", { tabindex: -1 });
        cell.append(into);
      } else if (i === 0) {
        anchor = cell;
        cell.tabIndex = -1;
      }
      show.push(c.make(into));
      node.append(cell);
    });
    node.addEventListener("click", (/** @type {MouseEvent} */ e) => {
      if (!(e.target instanceof HTMLElement) || e.target.closest("a, button") || String(getSelection())) return;
      if (anchor instanceof HTMLAnchorElement) anchor.click();
    });
    anchor.addEventListener("focus", () => this.move(l.at, false));
    const l = { node, anchor, at: -1, row: /** @type {T | null} */ (null), version: -1, show };
    this.space.append(node);
    return l;
  }

  /** @param {{node: HTMLElement, anchor: HTMLElement, at: number, row: T | null, version: number, show: ((row: T) => void)[]}} l */
  show(l) {
    const row = this.rows[l.at];
    if (l.node.hidden) l.node.hidden = false;
    const y = `translateY(${l.at * this.rowHeight}px)`;
    if (l.node.style.transform !== y) l.node.style.transform = y;
    attr(l.node, "aria-rowindex", String(l.at + 2));
    l.anchor.tabIndex = l.at === this.cursor ? 0 : -1;
    const version = this.options.version?.(row) ?? -1;
    if (l.row === row && l.version === version && version >= 0) return;
    l.row = row;
    l.version = version;
    if (this.options.href) attr(l.anchor, "href", this.options.href(row));
    const heading = Boolean(this.options.heading?.(row));
    l.node.classList.toggle("group", heading);
    for (const f of heading ? l.show.slice(0, 1) : l.show) f(row);
  }

  /**
   * move moves the cursor to a row.
   * @param {number} at
   * @param {boolean} focus
   */
  move(at, focus = true) {
    if (!this.rows.length || at < 0 && !focus) return;
    this.cursor = Math.max(0, Math.min(at, this.rows.length - 1));
    this.cursorKey = this.options.key(this.rows[this.cursor]);
    if (focus) {
      const top = this.cursor * this.rowHeight, view = this.body.clientHeight;
      if (top < this.body.scrollTop) this.body.scrollTop = top;
      else if (top + this.rowHeight > this.body.scrollTop + view) this.body.scrollTop = top + this.rowHeight - view;
      this.draw();
      this.lines.find((l) => l.at === this.cursor)?.anchor.focus({ preventScroll: true });
    } else for (const l of this.lines) l.anchor.tabIndex = l.at === this.cursor ? 0 : -1;
  }

  /** @param {KeyboardEvent} e */
  key(e) {
    const page = Math.max(1, Math.floor(this.body.clientHeight / this.rowHeight) - 1);
    const to = { ArrowDown: this.cursor + 1, ArrowUp: this.cursor - 1, PageDown: this.cursor + page, PageUp: this.cursor - page, Home: 0, End: this.rows.length - 1 }[e.key];
    if (to === undefined || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    this.move(to);
  }

  /** summary returns the number of rows, of all. @param {number} all @param {string} noun */
  summary(all, noun) {
    put(this.none, all ? this.options.empty : link.lost ? "Nothing is known." : loading() ? "Loading…" : `This agent has no ${noun} yet.`);
    const { heading } = this.options, shown = heading ? this.rows.filter((r) => !heading(r)).length : this.rows.length;
    return shown === all ? `${count(all)} ${noun}` : `${count(shown)} of ${count(all)} ${noun}`;
  }
}
