// @ts-check
// The page of one probe: its state with the cause, the events of its ticks, and its actions.

import { ask, act, Failed, pathOf, setToken, token, unanswered } from "./api.js";
import { certificatesOf } from "./certificates.js";
import { Entry, isEntry, names } from "./checks.js";
import { badge, containerOf, fill, h, icon, keep, labelLinks, link, put, quoted, refill, said, section } from "./dom.js";
import { Compare } from "./compare.js";
import { latencyChart, waterfall } from "./draw.js";
import { Durations } from "./durations.js";
import { Past, Span } from "./past.js";
import { Slos } from "./slo.js";
import * as store from "./store.js";
import { clean, clock, count, holds, line, objects, plural, since, took, when } from "./text.js";

const RESULTS = ["success", "warning", "failure", "unknown"];
const word = (/** @type {any} */ r) => (RESULTS.includes(r) ? r : "unknown");

/**
 * find returns the newest row of the probe, as there are two while its pod is replaced.
 * @param {Record<string, string>} of
 */
function find(of) {
  let newest = null;
  for (const r of store.probes.values()) {
    const p = r.p;
    if (p.namespace === of.namespace && p.pod === of.pod && p.container === of.container && p.kind === of.kind &&
      (!newest || when(p.last?.time) > (when(newest.p.last?.time) || 0))) newest = r;
  }
  return newest;
}

/**
 * @param {import("./app.js").Route} route
 * @returns {import("./app.js").View}
 */
export function probeView(route) {
  const [namespace = "", pod = "", container = "", kind = ""] = route.path;
  const of = { namespace, pod, container, kind };
  const head = h("div.head-state"), why = h("p.why-box", { "data-part": "summary" }, "…"), agent = h("ul.items"), agentSection = section("The agent itself", agent);
  const cause = h("div"), causeSection = section("Cause", cause);
  const ticks = h("div.ticks"), ticksSection = section("Ticks", ticks);
  const facts = h("dl.facts"), chart = h("div"), metrics = h("div"), slos = new Slos(of), entry = new Entry(of), span = new Span(route), past = new Past(of, span);
  const compare = new Compare(of, route, span), durations = new Durations(of, span, (d) => compare.show(d));
  const own = containerOf({ container });
  const heading = h("h1", {}, said(own || pod, 80), " ", h("span", {}, said(kind, 20)));
  const chartSection = section("Latency", chart), metricsSection = section("Metrics", metrics);
  const actions = new Actions(of, () => refresh(true));
  let row = find(of), seen = "", asked = 0, running = false, closed = false, lastSummary = 0, timer = 0;

  async function refresh(force = false) {
    if (closed || running && !force) return;
    running = true;
    asked = Date.now();
    try {
      const x = await ask(`${pathOf(of)}/explain`);
      if (!closed) show(x);
    } catch (e) {
      if (!closed) failed(e);
    }
    running = false;
  }

  /** @param {any} e */
  function failed(e) {
    if (unanswered(e)) return;
    put(why, clean(e?.message));
    if (e instanceof Failed && e.status === 404) {
      fill(head, badge("unknown", "no such probe"));
      for (const part of [entry.checks, entry.reports, causeSection, ticksSection, chartSection, metricsSection]) part.hidden = true;
      actions.node.hidden = true;
    }
  }

  /** @param {any} x */
  function show(x) {
    const p = x.probe ?? {}, state = word(p.state ?? p.result), list = objects(x.ticks);
    lastSummary = Date.now();
    actions.node.hidden = false;
    put(why, clean(x.summary));
    why.dataset.state = p.paused ? "paused" : p.maintenance ? "maintenance" : state;
    fill(head, badge(why.dataset.state, state), p.stateSince ? h("span", {}, `since ${clock(when(p.stateSince))} (${since(p.stateSince)})`) : null,
      p.paused ? h("span.pill", {}, p.pausedUntil ? `${holds(p)} until ${clock(when(p.pausedUntil))}` : holds(p), p.pauseReason ? h("span", {}, ": ", said(p.pauseReason)) : null) : null,
      p.maintenance ? h("span.pill", {}, `maintenance until ${clock(when(p.maintenance.until))}`, p.maintenance.reason ? h("span", {}, ": ", said(p.maintenance.reason)) : null) : null,
      p.onHold ? h("span.pill", {}, "on hold") : null, p.gate && !p.paused ? h("span.pill", {}, said(p.gate)) : null);
    agentSection.hidden = !objects(x.agent).length;
    fill(agent, ...objects(x.agent).map((c) => h("li", {}, h("div.item", { "data-state": "warning" }, icon("warning"), h("span.what", {}, h("b", {}, said(c.name, 80)), h("span.kind", {}, " agent")), h("span.why", {}, said(c.text, 500))))));
    if (isEntry(p) && heading.dataset.entry !== pod) fill(heading, said(pod, 80), " ", h("span", {}, container));
    if (isEntry(p)) heading.dataset.entry = pod;
    showFacts(p, objects(x.partOf));
    const bad = list.find((/** @type {any} */ t) => word(t.result) !== "success");
    causeSection.hidden = !bad;
    if (bad) fill(cause, causeOf(bad));
    showTicks(list, bad);
    chartSection.hidden = list.length < 1;
    fill(chart, latencyChart([...list].reverse().map((t) => ({ result: word(t.result), durationSeconds: t.durationSeconds || 0, time: when(t.time) })), `Durations of the last ${list.length} ticks`, chart));
    const values = objects(list[0]?.metrics ?? p.last?.metrics);
    metricsSection.hidden = !values.length;
    fill(metrics, metricsTable(values));
    actions.show(p);
  }

  /** @param {any} p @param {any[]} partOf */
  function showFacts(p, partOf) {
    const spec = p.spec ?? {}, labels = labelLinks(store.labelsOfName(namespace, pod));
    const fact = (/** @type {string} */ name, /** @type {any} */ value) => [h("dt", {}, name), h("dd", {}, value)];
    refill(facts, ...[
      partOf.length ? fact("Part of", names(partOf.slice(0, 200))) : [],
      fact("Target", said(p.target || "–", 300)), fact("Handler", said(p.handler, 80)), fact("Decided", h("span", {}, word(p.result), ` · ${plural(p.run ?? 0, "equal result")} in a row`)),
      fact("Period", said(spec.period, 30)), fact("Timeout", said(spec.timeout, 30)), fact("Initial delay", said(spec.initialDelay, 30)),
      fact("Thresholds", `${count(spec.successThreshold ?? 1)} to succeed, ${count(spec.failureThreshold ?? 1)} to fail`),
      p.next ? fact("Next attempt", clock(when(p.next))) : [], p.pausedBy ? fact(p.forced ? "Forced by" : "Paused by", said(p.pausedBy)) : [],
      fact("Container", said(p.containerID || "–", 100)), fact("Pod", h("a", { href: link(["pod", namespace, pod]) }, said(`${namespace}/${pod}`, 120))), ...responsible(store.labelsOfName(namespace, pod)).map(([name, value]) => fact(name, value)), labels ? fact("Labels", labels) : []].flat());
  }

  /** @param {any[]} list @param {any} bad */
  function showTicks(list, bad) {
    ticksSection.hidden = !list.length;
    const had = new Map([...ticks.children].map((n) => [/** @type {HTMLElement} */ (n).dataset.time, n]));
    const wanted = list.map((t) => /** @type {any} */ (had.get(t.time)) ?? tickOf(t));
    const first = bad ?? list[0]; // open, unless the user has opened or closed others
    wanted.forEach((node, i) => { if (!node.dataset.touched) node.open = list[i] === first; });
    keep(ticks, wanted);
  }

  function update() {
    row = find(of) ?? (row && store.probes.has(row.key) ? row : null);
    const p = row?.p, version = p ? `${row?.state}${p.last?.time}${p.paused}${p.maintenance?.until}${p.gate?.replace(/\d+/g, "")}${p.onHold}${p.run}` : `none ${store.version.members}`;
    if (version === seen && asked) return;
    const wait = 1000 - (Date.now() - asked); // a probe may tick ten times a second
    if (wait > 0 && asked) {
      if (!timer) timer = setTimeout(() => { timer = 0; update(); }, wait);
      return;
    }
    seen = version;
    refresh();
    entry.follow(p);
  }

  const node = h("div.probe-view", {},
    h("nav.crumbs", { "aria-label": "Path" }, h("a", { href: "#/probes" }, "Probes"), h("a", { href: link(["pod", namespace, pod]) }, said(`${namespace}/${pod}`, 120))),
    h("div.title", {}, heading, head), why,
    actions.node, h("div.columns", {}, h("div", {}, entry.checks, entry.reports, causeSection, ticksSection), h("div", {}, section("Probe", facts), agentSection, slos.node, chartSection, past.node, certificatesOf(of), metricsSection)),
    h("div.wide", {}, durations.node, compare.node));
  agentSection.hidden = causeSection.hidden = ticksSection.hidden = chartSection.hidden = metricsSection.hidden = true;
  return {
    title: [line(pod, 40), line(own, 40), line(kind, 20)].filter(Boolean).join(" "), node, update,
    tick() { if (Date.now() - lastSummary > 5000) refresh(); past.tick(row?.p.state ?? ""); durations.tick(); slos.tick(); entry.tick(); },
    requery(query) { if (span.requery(query)) { past.load(); durations.load(); } compare.requery(query); },
    close() { closed = true; for (const part of [past, durations, compare, slos, entry]) part.close(); clearTimeout(timer); },
  };
}

/** metricsTable has the metrics of a tick. @param {any[]} values */
function metricsTable(values) {
  const labels = (/** @type {any} */ m) => (m.labels ? h("small", {}, " ", said(Object.entries(m.labels).map(([k, v]) => `${k}=${v}`).join(" "), 200)) : null);
  const row = (/** @type {any} */ m) => h("tr", {}, h("td", {}, said(m.name, 120), labels(m)), h("td.num", {}, `${Number(m.value).toLocaleString("en", { maximumFractionDigits: 6 })} `, said(m.unit ?? "", 20)));
  return h("table.plain", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Metric"), h("th.num", { scope: "col" }, "Value"))), h("tbody", {}, values.slice(0, 200).map(row)));
}

/** responsible returns the owner and the runbook of a probe, from the labels that messages use. @param {Record<string, string> | undefined} labels */
function responsible(labels) {
  const of = (/** @type {string[]} */ ...names) => names.map((name) => (labels && Object.hasOwn(labels, name) ? labels[name] : "")).find(Boolean);
  const owner = of("owner", "team"), runbook = of("runbook", "runbook_url");
  return /** @type {[string, any][]} */ ([["Owner", owner && said(owner, 140)], ["Runbook", runbook && webLink(runbook)]]).filter(([, value]) => value);
}

/** webLink returns a link if a text is a web address, else the text. @param {string} text */
function webLink(text) {
  const protocol = URL.canParse(text) ? new URL(text).protocol : "";
  return ["http:", "https:"].includes(protocol) ? h("a", { href: text, rel: "noreferrer noopener", target: "_blank" }, said(text, 300)) : said(text, 300);
}

/** detailsOf returns details that prober's own handlers set in an outcome. @param {any} t */
function detailsOf(t) {
  const d = t.details && typeof t.details === "object" ? t.details : {};
  const text = (/** @type {any} */ v) => (typeof v === "string" ? v : "");
  return { body: text(d.body), waiting: text(d.waiting) };
}

/** causeOf shows the output or the error of an unsuccessful tick. @param {any} t */
function causeOf(t) {
  const { body, waiting } = detailsOf(t);
  const kept = body || (t.reason === "http_status" ? "not kept: --show-output of the agent keeps the beginning" : "");
  const fields = [["Output", t.output], ["Error", t.error], ["Reason", t.reason], ["Waiting", waiting], ["Body", kept]];
  return h("div.cause", { "data-state": word(t.result), "data-part": "cause" },
    h("p", {}, badge(word(t.result), t.error ? "error" : word(t.result)), ` ${clock(when(t.time))}, ${since(t.time)} ago, in ${took(t.durationSeconds)}${t.deferredSeconds > 0 ? ` after ${took(t.deferredSeconds)} without a slot` : ""}`),
    h("dl.facts", {}, fields.filter(([, v]) => v).map(([name, v]) => [h("dt", {}, name), h("dd", {}, name === "Reason" ? h("code", {}, line(v, 60)) : quoted(v))]).flat()));
}

/** tickOf returns a node for a tick, which opens to its events. @param {any} t */
function tickOf(t) {
  const result = word(t.result);
  const counted = t.counted ? `${t.countedAs} ${t.run}${t.run < t.threshold ? ` of ${t.threshold}` : ""}${t.after !== t.before ? `: ${t.before} → ${t.after}` : ""}` : "not counted";
  const events = objects(t.events);
  return h("details.tick-row", { "data-time": t.time },
    h("summary", { onclick: (/** @type {any} */ e) => { e.currentTarget.parentNode.dataset.touched = "yes"; } }, icon(result), h("time", {}, clock(when(t.time))), h("span.word", {}, result), h("span.num", {}, took(t.durationSeconds)), h("span.counted", {}, line(counted, 80), t.attempts > 1 ? `, ${t.attempts} attempts` : ""), h("span.text", {}, said(t.error || t.output, 160))),
    events.length ? h("ol.falls", { "aria-label": "What happened" }, waterfall(events, t.durationSeconds).map(({ event: e, svg }) =>
      h("li", { "data-type": line(e.type, 12) }, h("span.type", {}, line(e.type, 12)), h("span.name", {}, said(e.name, 40)), svg, h("span.num", {}, e.durationSeconds > 0 ? took(e.durationSeconds) : ""), h("span.detail", {}, said(e.detail ?? "", 500)))))
      : h("p.none", {}, result === "success" ? "Nothing is kept of this success." : "Nothing is kept of what happened inside this tick."),
    t.droppedEvents ? h("p.none", {}, `${plural(t.droppedEvents, "more event")} beyond the limits of a tick`) : null);
}

/** Actions are the buttons of a probe. */
class Actions {
  /**
   * @param {{namespace: string, pod: string, container: string, kind: string}} of
   * @param {() => void} done
   */
  constructor(of, done) {
    this.of = of;
    this.done = done;
    this.paused = false;
    const button = (/** @type {string} */ words, /** @type {() => void} */ f) => h("button", { type: "button", onclick: f }, words);
    this.trigger = button("Probe now", () => this.send("trigger"));
    this.pause = button("Pause…", () => this.ask());
    this.resume = button("Resume", () => this.send("resume"));
    this.result = h("span.result", { role: "status" });
    this.for = h("input", { placeholder: "until resumed", "aria-label": "For how long, such as 10m", size: 12, maxlength: 20, autocomplete: "off" });
    this.reason = h("input", { placeholder: "why", "aria-label": "Reason", maxlength: 256, autocomplete: "off" });
    this.state = h("select", { "aria-label": "State while it is paused" }, h("option", { value: "" }, "as it is"), ...["up", "down", "drained"].map((s) => h("option", { value: s }, s)));
    this.stateLabel = h("label", {}, "state ", this.state);
    this.form = h("form.pause", { hidden: true, "aria-label": "Pause", onsubmit: (/** @type {Event} */ e) => { e.preventDefault(); this.submit(); } },
      this.stateLabel, h("label", {}, "for ", this.for), h("label", {}, "reason ", this.reason), h("button.primary", { type: "submit" }, "Pause"), h("button", { type: "button", onclick: () => this.hide() }, "Cancel"));
    this.form.addEventListener("keydown", (/** @type {KeyboardEvent} */ e) => { if (e.key === "Escape") { e.stopPropagation(); this.hide(); } });
    this.key = h("input", { type: "password", "aria-label": "Token", placeholder: "token", autocomplete: "off", size: 18 });
    this.keyForm = h("form.pause", { "aria-label": "Token", onsubmit: (/** @type {Event} */ e) => { e.preventDefault(); setToken(this.key.value.trim()); this.key.value = ""; this.enable(); this.trigger.focus(); } },
      h("span", { id: "no-token" }, "Actions need the agent's token: open the link that its terminal shows, or paste it here."), this.key, h("button", { type: "submit" }, "Use"));
    this.node = h("div.actions", { hidden: true, role: "group", "aria-label": "Actions" }, this.trigger, this.pause, this.resume, this.form, this.keyForm, this.result);
    this.enable();
  }

  enable() {
    const off = !token();
    this.keyForm.hidden = !off;
    for (const b of [this.trigger, this.pause, this.resume]) {
      b.disabled = off;
      if (off) b.setAttribute("aria-describedby", "no-token");
      else b.removeAttribute("aria-describedby");
    }
  }

  /** @param {any} p */
  show(p) {
    const had = document.activeElement;
    this.paused = Boolean(p.paused);
    this.stateLabel.hidden = p.kind !== "readiness"; // others restart their containers
    if (this.stateLabel.hidden) this.state.value = "";
    this.pause.hidden = this.paused || !this.form.hidden;
    this.resume.hidden = !this.paused;
    if (this.paused) this.form.hidden = true;
    if (had === this.pause && this.pause.hidden || had && this.form.contains(had) && this.form.hidden) this.resume.focus();
    if (had === this.resume && this.resume.hidden) this.pause.focus();
  }

  submit() {
    const asked = { for: this.for.value.trim(), reason: this.reason.value.trim() }, state = this.state.value;
    if (state) this.send("force", { state, ...asked });
    else this.send("pause", asked);
  }

  ask() {
    this.form.hidden = false;
    this.pause.hidden = true;
    this.for.focus();
  }

  hide() {
    this.form.hidden = true;
    this.pause.hidden = this.paused;
    this.pause.focus();
  }

  /** @param {string} action @param {any} [body] */
  async send(action, body) {
    put(this.result, "…");
    const inForm = this.form.contains(document.activeElement);
    try {
      const sent = body && Object.fromEntries(Object.entries(body).filter(([, v]) => v));
      const answer = await act(`${pathOf(this.of)}/${action}`, sent && Object.keys(sent).length ? sent : undefined);
      put(this.result, { trigger: "An attempt is made now.", pause: "Paused.", force: "The state is forced.", resume: "Resumed." }[action] ?? "");
      const p = answer.items?.[0];
      if (p) this.show(p);
      if (inForm && action !== "trigger") this.resume.focus();
      this.done();
    } catch (e) {
      put(this.result, line(e instanceof Error ? e.message : e, 500));
      if (e instanceof Failed && e.status === 401) {
        setToken("");
        this.enable();
      }
    }
  }
}

