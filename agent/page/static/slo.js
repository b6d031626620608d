// @ts-check The SLOs of prober.yaml: what is left of their error budgets, and how fast they are spent.

import { ask, unanswered } from "./api.js";
import { fill, h, icon, said, section } from "./dom.js";
import { clock, count, objects, percent, plural, span, when } from "./text.js";

const EACH = 30_000; // ms between requests

/** budgetOf returns the state of a budget: a failure if nothing is left, a warning while it is spent too fast. @param {any} slo */
function budgetOf(slo) {
  const left = slo.budget?.left, fast = objects(slo.burnRates).some((b) => (b.window === "1h" || b.window === "6h") && b.rate > 1);
  return typeof left !== "number" ? "unknown" : left <= 0 ? "failure" : fast ? "warning" : "success";
}

/** leftOf returns what is left of a budget, in words. @param {any} slo */
function leftOf(slo) {
  const { left, leftSeconds, totalSeconds } = slo.budget ?? {};
  if (typeof left !== "number") return "nothing is measured yet";
  const part = `${Math.floor(left * 100 + 1e-9).toLocaleString("en")} % of the budget left`;
  return left < 0 ? `${part}, ${span(-leftSeconds)} more than the ${span(totalSeconds)} that are allowed` : `${part}, ${span(leftSeconds)} of ${span(totalSeconds)}`;
}

/** burnsOf returns the burn rates, in words. @param {any} slo */
function burnsOf(slo) {
  const all = objects(slo.burnRates).filter((b) => typeof b.rate === "number");
  return all.length ? `burns ${all.map((b) => `${b.rate.toLocaleString("en", { maximumFractionDigits: 1 })}x in ${b.window}`).join(", ")}` : "";
}

/** itemOf returns the row of an SLO. @param {any} slo */
function itemOf(slo) {
  const state = budgetOf(slo), words = [leftOf(slo), burnsOf(slo), slo.since ? `measured since ${clock(when(slo.since))}` : "", `${count(slo.failing ?? 0)} of ${plural(slo.probes ?? 0, "probe")} ${slo.failing === 1 ? "fails" : "fail"}`];
  return h("li", {}, h("div.item", { "data-state": state, "data-slo": slo.name }, icon(state),
    h("span.what", {}, h("b", {}, said(slo.name, 80)), h("span.kind", {}, ` ${percent(slo.availability)} of ${count(slo.objective)} % in `, said(slo.window, 20))),
    h("span.why", {}, said(words.filter(Boolean).join(" · "), 500))));
}

/** Slos lists SLOs. It is hidden without one. */
export class Slos {
  /** @param {{namespace: string, pod: string, container: string, kind: string}} [of] the probe; all SLOs without it */
  constructor(of) {
    this.path = `api/v1/slos${of ? `?${new URLSearchParams(of)}` : ""}`;
    this.due = 0;
    this.closed = false;
    this.list = h("ul.items");
    this.node = section(of ? "Error budget" : "Error budgets", this.list);
    this.node.hidden = true;
    this.tick();
  }

  /** tick requests the SLOs again after a while. */
  async tick() {
    if (this.closed || Date.now() < this.due) return;
    this.due = Date.now() + EACH;
    try {
      const all = objects((await ask(this.path))?.items);
      if (this.closed) return;
      fill(this.list, ...all.slice(0, 100).map(itemOf));
      this.node.hidden = !all.length;
    } catch (e) {
      if (!unanswered(e)) this.node.hidden = true; // an older agent has no SLOs
    }
  }

  close() {
    this.closed = true;
  }
}
