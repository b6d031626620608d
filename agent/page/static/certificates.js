// @ts-check The certificates that servers show to probes: a view of all of them, and a section on the page of a probe.

import { ask, Failed, list, unanswered } from "./api.js";
import { badge, fill, h, icon, link, linkOf, put, refill, said, section } from "./dom.js";
import { Grid } from "./grid.js";
import { searchBox } from "./lists.js";
import * as store from "./store.js";
import { clock, count, line, now, objects, plural, span, when } from "./text.js";

const EACH = 10_000; // ms between requests; more if they take long
const MOST = 200; // limit of probes of a certificate that are requested
const FEW = 12; // limit of probes of a certificate that are shown

/** left returns how many seconds are left until the end of a certificate. @param {any} c */
const left = (c) => (when(c.notAfter) - now()) / 1000;

/** @param {any} c */
const ends = (c) => (left(c) < 0 ? `ended ${span(-left(c))} ago` : `in ${span(left(c))}`);

/** @param {any} c */
const stateOf = (c) => (left(c) < 0 || c.verification === "not verified" ? "failure" : c.endsSoon ? "warning" : "success");

/** @param {any} c */
const nameOf = (c) => line(c.names?.[0] || c.subject || `serial number ${c.serial}`, 160);

/** @param {any} c */
const probesOf = (c) => objects(c.probes);

/** placeOf returns the place of a certificate among those that the server of a probe sends. @param {any} p */
const placeOf = (p) => `${count(p.position)} of ${count(p.sent)}`;

/** @param {any} p */
const textOf = (p) => `${p.namespace}/${p.pod} ${p.container} ${p.kind}`;

/** @param {(c: any) => string} of */
const text = (of) => (/** @type {HTMLElement} */ cell) => {
  const into = h("bdi");
  cell.append(into);
  return (/** @type {any} */ c) => put(into, of(c));
};

/** @type {import("./grid.js").Column<any>[]} */
const COLUMNS = [
  { title: "Certificate", name: "probe", order: "name", by: nameOf, make: (cell) => {
    const mark = h("span.mark"), name = h("bdi.where");
    cell.append(mark, h("span.name", {}, name));
    return (c) => { fill(mark, icon(stateOf(c))); put(name, nameOf(c)); };
  } },
  { title: "Ends", name: "state", order: "ends", by: left, make: (cell) => (c) => put(cell, ends(c)) },
  { title: "Verification", name: "handler", order: "verification", by: (c) => String(c.verification), make: (cell) => (c) => put(cell, line(c.verification, 20)) },
  { title: "Reason or probes", name: "output", order: "probes", by: (c) => Number(c.probeCount) || 0, down: true, make: text((c) => line(c.why || `${probesOf(c).slice(0, 1).map(textOf).join()}${c.probeCount > 1 ? ` and ${plural(c.probeCount - 1, "more probe")}` : ""}`, 400)) },
  { title: "Issuer", name: "address", order: "issuer", by: (c) => String(c.issuer), make: text((c) => line(c.issuer, 160)) },
  { title: "Place", name: "source", make: (cell) => (c) => put(cell, probesOf(c).slice(0, 1).map(placeOf).join()) },
];

/**
 * card shows all that is known of a certificate.
 * @param {any} c
 * @param {boolean} own it is on the page of its only probe
 */
function card(c, own) {
  const fact = (/** @type {string} */ name, /** @type {any} */ value) => (value ? [h("dt", {}, name), h("dd", {}, value)] : []);
  const names = (Array.isArray(c.names) ? c.names : []).map((/** @type {any} */ n) => line(n, 160)).join(", ");
  const words = [left(c) < 0 ? ends(c) : `ends ${ends(c)}`, line(c.verification, 20)];
  if (left(c) >= 0 && c.verification === "not verified") words.reverse(); // the worst is first
  const seen = probesOf(c).slice(0, FEW), rest = c.probeCount - seen.length;
  return h("article.card.certificate", { "aria-label": nameOf(c), "data-state": stateOf(c) },
    h(own ? "h3" : "h2", {}, said(nameOf(c), 160)),
    h("p", {}, badge(stateOf(c), words[0]), " ", h("span.kind", {}, words[1], own ? probesOf(c).slice(0, 1).map((p) => ` · ${placeOf(p)}`) : "")),
    c.why ? h("p.error", {}, said(c.why, 500)) : null,
    h("dl.facts", {}, [
      fact("Valid", `${clock(when(c.notBefore))} to ${clock(when(c.notAfter))}`), fact("Names", names && h("bdi", {}, names, c.moreNames ? ` and ${count(c.moreNames)} more` : "")),
      fact("Subject", c.subject && said(c.subject, 160)), fact("Issuer", said(c.issuer || "–", 160)), fact("Serial", h("code", {}, line(c.serial, 80))), fact("SHA-256", h("code", {}, line(c.sha256, 80))),
      own ? [] : fact("Seen by", h("ul", {}, seen.map((p) => h("li", {}, h("a", { href: linkOf(p) }, said(textOf(p), 200)), h("span.kind", {}, ` ${placeOf(p)} · ${line(p.verification, 20)} · ${clock(when(p.seen))}`))),
        rest > 0 ? h("li", {}, `and ${count(rest)} more`) : null)),
    ].flat()));
}

/**
 * certificatesOf returns the section of the certificates of a probe. It is hidden without any, and follows them while
 * it is on the page.
 * @param {{namespace: string, pod: string, container: string, kind: string}} of
 */
export function certificatesOf({ namespace, pod, container, kind }) {
  const cards = h("div"), node = section("Certificates", cards);
  let seen = "";
  node.hidden = true;
  async function load() {
    // After an error, what is shown stays: the summary of the page says that the agent does not answer.
    const answer = await ask(`api/v1/certificates?${new URLSearchParams({ namespace, pod, container, kind, probes: "1" })}`).catch(() => null);
    const all = objects(answer?.items), now = JSON.stringify(all.map((c) => [c.sha256, c.verification, c.why, ends(c), c.probes]));
    if (!answer || now === seen) return;
    seen = now;
    node.hidden = !all.length;
    refill(cards, all.map((c) => card(c, true)));
  }
  const timer = setInterval(() => {
    if (!node.isConnected) clearInterval(timer);
    else if (!document.hidden) load();
  }, EACH);
  load();
  return node;
}

/**
 * @param {import("./app.js").Route} route
 * @returns {import("./app.js").View}
 */
export function certificates(route) {
  const box = searchBox(route, "Search certificates"), summary = h("span.summary"), note = h("div"), whole = h("div.cards");
  const grid = new Grid({
    route, label: "Certificates", name: "certificates", columns: COLUMNS, key: (c) => String(c.sha256), empty: "No certificate matches.",
    href: (c) => (c.probeCount === 1 && probesOf(c).length ? linkOf(probesOf(c)[0]) : link(["certificates"], { q: c.sha256 })),
  });
  let all = /** @type {any[]} */ ([]), due = 0, query = route.query, loading = false;
  /** @param {any} c */
  const matches = (c) => {
    const own = [nameOf(c), c.subject, ...(Array.isArray(c.names) ? c.names : []), c.issuer, c.serial, c.sha256, c.verification, c.why ?? ""].join(" ");
    return probesOf(c).some((p) => box.matches(`${own} ${textOf(p)}`, store.labelsOfName(p.namespace, p.pod)));
  };
  /** @param {boolean} asked by the user */
  function show(asked) {
    const rows = grid.arrange(all.filter(matches), query, "ends");
    if (asked) grid.set(rows);
    else grid.renew(rows);
    refill(whole, rows.length > 3 ? [] : rows.map((c) => card(c, false))); // a few rows have room for all
    put(summary, grid.summary(all.length, "certificates"));
  }
  async function load() {
    if (loading) return;
    loading = true;
    const asked = Date.now();
    try {
      all = objects((await list(`api/v1/certificates?probes=${MOST}`)).items);
      fill(note, all.length ? "" : h("p.none", {}, "No server has shown a certificate to a probe."));
      show(false);
    } catch (e) {
      if (!unanswered(e) || !all.length) fill(note, h("p.none", {}, e instanceof Failed && e.status === 404 ? "This agent does not list certificates." : line(e instanceof Error ? e.message : e)));
    }
    loading = false;
    due = Date.now() + Math.max(EACH, 20 * (Date.now() - asked));
  }
  load();
  return {
    title: "Certificates", grid, node: h("div.table-view", {}, h("h1.unseen", {}, "Certificates"), h("div.filters", { role: "search" }, box.node, summary), note, whole, grid.frame),
    requery(q) { query = q; box.read(q); show(true); }, tick() { if (Date.now() > due) load(); }, close() { grid.close(); },
  };
}
