// @ts-check A table of any length. Only the rows on the screen exist, and they are reused. The arrow keys
// move through it, Enter opens a row, and Tab leaves it.

import { attr, h } from "./dom.js";
import { count } from "./text.js";

/**
 * @template T
 * @typedef {object} Column
 * @property {string} title
 * @property {string} name class of its cells
 * @property {(cell: HTMLElement) => (row: T) => void} make builds a cell, and returns the function that shows a row in it
 */

/** @template T */
export class Grid {
  /**
   * @param {object} options
   * @param {string} options.label
   * @param {string} options.name class
   * @param {Column<T>[]} options.columns
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
    this.cursor = 0;
    this.cursorKey = "";
    this.rowHeight = 34;
    this.space = h("div.space", { role: "presentation" });
    this.none = h("p.none", { hidden: true }, options.empty);
    this.head = h("div.line.head", { role: "row", "aria-rowindex": 1 },
      options.columns.map((c) => h(`div.cell.${c.name}`, { role: "columnheader" }, c.title)));
    this.body = h("div.scroll", { role: "rowgroup", onscroll: () => this.draw() }, this.space);
    this.node = h(`div.grid.${options.name}`, { role: "grid", "aria-label": options.label, "aria-colcount": options.columns.length, onkeydown: (/** @type {KeyboardEvent} */ e) => this.key(e) },
      h("div", { role: "rowgroup" }, this.head), this.body);
    this.frame = h("div.frame", {}, this.node, this.none);
    this.resize = new ResizeObserver(() => this.measure());
    this.resize.observe(this.body);
  }

  close() {
    this.resize.disconnect();
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
  }

  /** draw shows the rows on the screen. */
  draw() {
    const total = this.rows.length * this.rowHeight;
    if (this.space.style.height !== `${total}px`) this.space.style.height = `${total}px`;
    const view = this.body.clientHeight, top = this.body.scrollTop;
    const first = Math.max(0, Math.floor(top / this.rowHeight) - 4);
    const last = Math.min(this.rows.length, Math.ceil((top + view) / this.rowHeight) + 4);
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
    for (const f of l.show) f(row);
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
    return this.rows.length === all ? `${count(all)} ${noun}` : `${count(this.rows.length)} of ${count(all)} ${noun}`;
  }
}
