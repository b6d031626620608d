// @ts-check
// Creates nodes. Data reaches the page only as the text of a node.

import { clean, line } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * h creates an element. A property that begins with "on" is a listener; null and false omit an attribute.
 * @param {string} tag "div", or "div.class.class"
 * @param {Record<string, any>} props
 * @param {...(Child | Child[])} children
 * @returns {any}
 */
export function h(tag, props = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const node = document.createElement(name);
  if (classes.length) node.className = classes.join(" ");
  set(node, props);
  node.append(...nodes(children));
  return node;
}

/**
 * s creates an SVG element.
 * @param {string} tag
 * @param {Record<string, any>} props
 * @param {...(Child | Child[])} children
 * @returns {any}
 */
export function s(tag, props = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  set(node, props);
  node.append(...nodes(children));
  return node;
}

/** @param {(Child | Child[])[]} children */
function nodes(children) {
  return children.flat().filter((c) => c != null && c !== false).map((c) => (typeof c === "number" ? String(c) : /** @type {Node | string} */ (c)));
}

/**
 * @param {Element} node
 * @param {Record<string, any>} props
 */
function set(node, props) {
  for (const [key, value] of Object.entries(props)) {
    if (value == null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : String(value));
  }
}

/**
 * fill replaces the children of a node.
 * @param {Element} node
 * @param {...(Child | Child[])} children
 */
export function fill(node, ...children) {
  node.replaceChildren(...nodes(children));
}

/**
 * refill replaces the children of a node. If a link among them has the focus, the link to the same place has it afterwards.
 * @param {Element} node
 * @param {...(Child | Child[])} children
 */
export function refill(node, ...children) {
  const had = document.activeElement, href = had && node.contains(had) ? had.getAttribute("href") : null;
  fill(node, ...children);
  if (href) /** @type {HTMLElement | undefined} */ ([...node.querySelectorAll("a")].find((a) => a.getAttribute("href") === href))?.focus();
}

/**
 * keep makes wanted the children of a list, in this order. It does not touch children that are in place, so that clicks,
 * focus and selection survive.
 * @param {Element} list
 * @param {Element[]} wanted
 */
export function keep(list, wanted) {
  const stay = new Set(wanted);
  for (const node of [...list.children]) if (!stay.has(node)) node.remove();
  wanted.forEach((node, i) => {
    if (list.children[i] !== node) list.insertBefore(node, list.children[i] ?? null);
  });
}

/**
 * put sets the text of a node if it differs, as setting an equal text costs time.
 * @param {Node} node
 * @param {string} text
 */
export function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/**
 * attr sets an attribute if it differs.
 * @param {Element} node
 * @param {string} name
 * @param {string} value
 */
export function attr(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

/**
 * said returns a node with a foreign text, on one line and with its own text direction.
 * @param {unknown} text
 * @param {number} most
 */
export const said = (text, most = 300) => h("bdi", {}, line(text, most));

/**
 * quoted returns a node with a foreign text, with its line breaks.
 * @param {unknown} text
 * @param {number} most
 */
export const quoted = (text, most = 4000) => h("pre", { tabindex: 0, dir: "auto" }, h("bdi", {}, clean(text, most)));

/** The shapes of states, which differ also without colour. */
const SHAPES = {
  success: [["circle", { cx: 8, cy: 8, r: 6.5, class: "fill" }], ["path", { d: "M5 8.2 7.2 10.4 11 6", class: "mark" }]],
  warning: [["path", { d: "M8 1.6 15 14H1Z", class: "fill" }], ["path", { d: "M8 6v4M8 11.8v.3", class: "mark" }]],
  failure: [["path", { d: "M5 1.5h6L14.5 5v6L11 14.5H5L1.5 11V5Z", class: "fill" }], ["path", { d: "m5.5 5.5 5 5m0-5-5 5", class: "mark" }]],
  paused: [["circle", { cx: 8, cy: 8, r: 6, class: "line" }], ["path", { d: "M6.5 5.5v5M9.5 5.5v5", class: "ask" }]],
  maintenance: [["circle", { cx: 8, cy: 8, r: 6, class: "line" }], ["path", { d: "M8 4.5V8l2.3 1.6", class: "ask" }]],
  unknown: [["circle", { cx: 8, cy: 8, r: 6, class: "line" }], ["path", { d: "M6.3 6.4a1.7 1.7 0 1 1 2.5 1.5q-.8.5-.8 1.2M8 11.1v.3", class: "ask" }]],
};

export const STATES = ["failure", "warning", "unknown", "success"];

/** The values that probes are counted by, worst first. A probe that is paused or in a maintenance window is no alarm in any state. */
export const COUNTED = ["failure", "warning", "unknown", "paused", "maintenance", "success"];

/**
 * icon returns the shape of a state, of a pause, or of a maintenance window.
 * @param {string} state
 */
export function icon(state) {
  const name = /** @type {keyof typeof SHAPES} */ (Object.hasOwn(SHAPES, state) ? state : "unknown");
  return s("svg", { class: `icon ${name}`, viewBox: "0 0 16 16", "aria-hidden": "true" },
    ...SHAPES[name].map(([tag, props]) => s(/** @type {string} */ (tag), /** @type {any} */ (props))));
}

/**
 * badge returns a node with the shape and the name of a state.
 * @param {string} state
 * @param {string} word
 */
export const badge = (state, word = state) => h("span.badge", { "data-state": state }, icon(state), h("span", {}, line(word, 40)));

/**
 * section returns a titled part of a view.
 * @param {string} title
 * @param {...(Child | Child[])} children
 */
export const section = (title, ...children) => h("section", { "aria-label": title }, h("h2", {}, title), ...children);

/**
 * link returns a link to a view of this page; parts of its path are escaped.
 * @param {string[]} path
 * @param {Record<string, string>} query
 */
export function link(path, query = {}) {
  const words = new URLSearchParams(Object.entries(query).filter(([, v]) => v)).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${words && "?" + words}`;
}

/**
 * linkOf returns the link to the page of a probe.
 * @param {any} p
 */
export const linkOf = (p) => link(["probe", p.namespace, p.pod, p.container, p.kind]);

const LABELS = 50; // limit of labels that are shown

/**
 * labelLinks returns a link to the probes with each label; null without labels.
 * @param {Record<string, string> | undefined} labels
 */
export function labelLinks(labels) {
  const all = Object.entries(labels ?? {}).sort().slice(0, LABELS);
  return all.length ? h("span.labels", {}, all.map(([k, v]) => h("a.pill", { href: link(["probes"], { q: `${k}=${v}` }) }, said(`${k}=${v}`, 140)))) : null;
}

const ENTRIES = ["target", "endpoint", "push"]; // containers that prober makes for entries of prober.yaml

/** containerOf returns the name of a probe's container; "" if the pod's name says all. @param {any} p */
export const containerOf = (p) => (ENTRIES.includes(p.container) ? "" : String(p.container ?? ""));

/** Name is a node with the name of a probe: its pod, or its target, and then the container. */
export class Name {
  constructor() {
    this.namespace = h("span");
    this.pod = h("b");
    this.container = h("bdi.container");
    this.node = h("span.name", {}, h("bdi.where", {}, this.namespace, this.pod), this.container);
  }

  /** @param {any} p a probe, or a row of a report @param {string} more what follows the container */
  show(p, more = "") {
    const container = [containerOf(p), more].filter(Boolean).join(" ");
    put(this.namespace, `${line(p.namespace, 80)}/`);
    put(this.pod, line(p.pod, 120));
    put(this.container, container && ` ${line(container, 80)}`);
    attr(this.node, "title", `${this.node.textContent}`);
  }
}
