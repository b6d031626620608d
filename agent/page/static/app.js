// @ts-check Entry point of the page: the address selects the view, and the stream has its data.
//
//   stream.js, store.js   follow the agent, and store its state
//   overview.js, probes.js, probe.js, pods.js, lists.js, availability.js, certificates.js   the views
//   incidents.js          part of the overview
//   checks.js, past.js, durations.js, compare.js   parts of the page of a probe
//   slo.js                part of the page of a probe, and of availability
//   grid.js, draw.js, dom.js, text.js   tables, charts, nodes and texts
//   hold.js, match.js     lists that hold still, and what a search finds
//   api.js                requests and the token
//
// A view is a function that takes its route, and returns a title, a node, and callbacks for changes and for
// its end.

import { takeToken } from "./api.js";
import { availability } from "./availability.js";
import { certificates } from "./certificates.js";
import { attr, h, put, said } from "./dom.js";
import { readColours } from "./draw.js";
import { showKeys } from "./keys.js";
import { eventsView, plugins, targets } from "./lists.js";
import { overview, wall } from "./overview.js";
import { podView, podsView } from "./pods.js";
import { probeView } from "./probe.js";
import { probesView } from "./probes.js";
import * as store from "./store.js";
import { start } from "./stream.js";
import { clock, line, plural } from "./text.js";

/**
 * @typedef {object} Route
 * @property {string[]} path
 * @property {URLSearchParams} query
 * @property {(changes: Record<string, string>, push?: boolean) => void} setQuery
 */
/**
 * @typedef {object} View
 * @property {string} title
 * @property {HTMLElement} node
 * @property {() => void} [update] after each batch of changes
 * @property {() => void} [tick] each second
 * @property {() => void} [close]
 * @property {(query: URLSearchParams) => void} [requery] the query has changed, for example by the back button
 * @property {import("./grid.js").Grid<any>} [grid] the table of the view, which keeps its place
 */

/** @type {Record<string, {title?: string, view: (r: Route) => View}>} */
const VIEWS = {
  "": { title: "Overview", view: overview },
  probes: { title: "Probes", view: probesView },
  pods: { title: "Pods", view: podsView },
  targets: { title: "Targets", view: targets },
  plugins: { title: "Plugins", view: plugins },
  events: { title: "Events", view: eventsView },
  certificates: { title: "Certificates", view: certificates },
  availability: { title: "Availability", view: availability },
  probe: { view: probeView },
  pod: { view: podView },
  wall: { view: wall },
};

/** unknownView says that an address has no view. @returns {View} */
function unknownView() {
  const views = Object.entries(VIEWS).filter(([, v]) => v.title);
  return {
    title: "Not found",
    node: h("div", {}, h("h1", {}, "There is no such view"), h("div.note", {}, h("p", {}, "The address ", h("code", {}, said(`#/${parse(location.hash).parts.join("/")}`, 120)), " leads to no view of this page. These do:"),
      h("ul", {}, views.map(([name, v]) => h("li", {}, h("a", { href: `#/${name}` }, v.title)))))),
  };
}

const byId = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));
const main = byId("main");
const nav = byId("nav");
/** @type {View | null} */
let view = null;
let path = "";

/** @param {string} hash */
function parse(hash) {
  const [before, after] = hash.replace(/^#\/?/, "").split("?", 2);
  const parts = before.split("/").filter(Boolean).map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  return { parts, query: new URLSearchParams(after ?? ""), before };
}

function route() {
  const { parts, query, before } = parse(location.hash);
  if (view && before === path && view.requery) {
    entry = history.state?.entry ?? entry;
    view.requery(query);
    return;
  }
  leaveEntry();
  const known = Object.hasOwn(VIEWS, parts[0] ?? "") ? VIEWS[parts[0] ?? ""] : { view: unknownView };
  view?.close?.();
  path = before;
  document.body.dataset.view = parts[0] ?? "overview";
  view = known.view({ path: parts.slice(1), query, setQuery });
  main.replaceChildren(view.node);
  scrollTo(0, 0);
  for (const a of nav.querySelectorAll("a")) {
    const here = a.dataset.name === (parts[0] ?? "") || a.dataset.name === "probes" && parts[0] === "probe" || a.dataset.name === "pods" && parts[0] === "pod";
    if (here) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  if (routed) main.focus({ preventScroll: true });
  routed = true;
  update();
  enterEntry();
}
let routed = false;

// The places in the views of this tab's history, by the number of the history entry. The back button returns to them.
/** @type {Map<number, {y: number, grid?: {top: number, key: string}}>} */
const places = new Map();
const PLACES = 100; // limit
let entry = Date.now();

/** leaveEntry keeps the place in the present view. */
function leaveEntry() {
  if (view) places.set(entry, { y: shownAt, grid: view.grid?.present() });
  if (places.size > PLACES) places.delete(/** @type {number} */ (places.keys().next().value));
}

/** enterEntry returns to the place in the view of an entry that was seen before, and numbers a new one. */
function enterEntry() {
  const known = history.state?.entry, place = places.get(known);
  entry = known ?? Math.max(Date.now(), entry + 1);
  if (known === undefined) history.replaceState({ entry }, "");
  if (place?.grid) view?.grid?.restore(place.grid);
  if (place) scrollTo(0, place.y);
  shownAt = scrollY;
}

let shownAt = 0; // how far the page is scrolled; a browser scrolls before it tells of another entry
addEventListener("scroll", () => { if (history.state?.entry === entry) shownAt = scrollY; }, { passive: true });
history.scrollRestoration = "manual";

/**
 * setQuery changes the query in the address, so that links to the view include it. An empty value removes a parameter.
 * @param {Record<string, string>} changes
 * @param {boolean} push adds a history entry, so that the back button undoes it
 */
function setQuery(changes, push = false) {
  const { query } = parse(location.hash);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  const hash = `#/${path}${text && "?" + text}`;
  if (hash === location.hash) return;
  if (push) entry = Math.max(Date.now(), entry + 1);
  history[push ? "pushState" : "replaceState"]({ entry }, "", hash);
  view?.requery?.(query);
}

function update() {
  view?.update?.();
  showLink();
}

/** showLink shows the connection and the worst state, in the bar, the title and the icon. */
function showLink() {
  const { state, text } = store.link;
  put(byId("link-text"), state);
  attr(byId("link"), "data-link", state);
  attr(byId("link"), "title", text);
  const failing = store.counts.failure;
  const title = `${failing ? `(${failing}) ` : ""}${view?.title ? view.title + " · " : ""}prober${state === "live" ? "" : ` · ${state}`}`;
  if (document.title !== title) document.title = title;
  attr(byId("icon"), "href", `page/${state === "live" ? store.worst() : "unknown"}.svg`);
  showLost();
}

const GRACE = 2000; // ms in which an agent may restart

/** showLost says that the agent does not answer, and makes what it has sent grey. */
function showLost() {
  const { heard, lost, text } = store.link, node = byId("lost"), is = lost > 0 && Date.now() - lost > GRACE;
  node.hidden = !is;
  document.body.classList.toggle("stale", is);
  if (is) put(node, `The agent does not answer${text ? `: ${line(text, 200)}` : ""}. ${heard ? `This is what it said until ${clock(heard)}.` : "Nothing is known yet."} The page tries again.`);
}

// Announce changes to screen readers at most every five seconds.
/** @type {Map<string, {from: string, to: string}>} */
let unsaid = new Map();
let saying = 0;
store.onStates((changes) => {
  for (const c of changes) unsaid.set(c.name, { from: unsaid.get(c.name)?.from ?? c.from, to: c.to });
  if (!saying) saying = setTimeout(say, 1000);
  showLink();
});

function say() {
  saying = setTimeout(() => { saying = 0; if (unsaid.size) say(); }, 5000);
  const said = [...unsaid].filter(([, c]) => c.from !== c.to);
  unsaid = new Map();
  if (!said.length) return;
  put(byId("live"), said.length <= 3 ? said.map(([name, c]) => `${name} is now ${c.to}`).join(", ") : `${plural(said.length, "probe")} changed, ${store.counts.failure} fail`);
}

// Colours.
const THEMES = ["auto", "light", "dark"];
function theme() {
  try {
    return localStorage.getItem("prober-theme") ?? "auto";
  } catch {
    return "auto";
  }
}
function showTheme() {
  const name = theme();
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  const button = byId("theme");
  put(button, { auto: "◐", light: "○", dark: "●" }[name] ?? "◐");
  attr(button, "aria-label", `Colours: ${name === "auto" ? "as the system" : name}`);
  readColours();
  view?.update?.();
  view?.tick?.();
}
byId("theme").addEventListener("click", () => {
  try {
    localStorage.setItem("prober-theme", THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length]);
  } catch { /* the system's theme stays */ }
  showTheme();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);

// Keys.
byId("help").addEventListener("click", showKeys);
byId("skip").addEventListener("click", (e) => { e.preventDefault(); main.focus(); }); // a link would change the hash, and so the view
const GO = { o: "", p: "probes", d: "pods", t: "targets", l: "plugins", e: "events", c: "certificates", a: "availability", w: "wall" };
let going = 0;
let seeking = false; // "/" is down: its own character is not for the search field
function seek() {
  seeking = false;
  /** @type {HTMLInputElement | null} */ (main.querySelector("input[type=search]"))?.focus();
}
addEventListener("keyup", () => { if (seeking) seek(); });
addEventListener("keydown", (e) => {
  if (seeking && e.key !== "/") return seek();
  const typing = e.target instanceof HTMLElement && e.target.matches("input, select, textarea");
  if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return;
  if (e.key === "Escape" && typing) return void (/** @type {HTMLElement} */ (e.target).blur());
  if (typing) return;
  if (e.key === "/") {
    e.preventDefault();
    if (!main.querySelector("input[type=search]")) {
      location.hash = "#/probes";
      route(); // at once, as what is typed next is for the field
    }
    seeking = true;
  } else if (e.key === "?") showKeys();
  else if (e.key === "g") going = Date.now();
  else if (Date.now() - going < 1500 && Object.hasOwn(GO, e.key)) {
    location.hash = `#/${GO[/** @type {keyof typeof GO} */ (e.key)]}`;
    going = 0;
  }
});

nav.append(...Object.entries(VIEWS).filter(([, v]) => v.title).map(([name, v]) => h("a", { href: `#/${name}`, "data-name": name }, v.title)));
takeToken();
addEventListener("hashchange", () => { takeToken(); route(); });
showTheme();
store.watch(update);
route();
start();
setInterval(() => {
  if (document.hidden) return;
  view?.tick?.();
  showLink();
}, 1000);
// Measurements for the browser tests.
Object.assign(globalThis, { proberStats: store.stats, proberCounts: store.counts });
