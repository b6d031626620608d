// @ts-check
// Sends requests to the agent. Actions need its token, which is in the link that the terminal shows.

import { line, setClock } from "./text.js";

const TOKEN = "prober-token";

/** Failed is an unsuccessful response. */
export class Failed extends Error {
  /**
   * @param {number} status HTTP status; 0 if the agent was not reached
   * @param {string} message
   */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** unanswered reports whether a request has not reached the agent: then what it said before stays on the screen. @param {unknown} e */
export const unanswered = (e) => e instanceof Failed && [0, 502, 504].includes(e.status);

/** takeToken moves the token from the address into the storage of this tab. */
export function takeToken() {
  const found = /^#token=([^&]+)/.exec(location.hash);
  if (!found) return;
  setToken(decodeURIComponent(found[1]));
  history.replaceState(null, "", `${location.pathname}${location.search}#/`);
}

export function token() {
  try {
    return sessionStorage.getItem(TOKEN) ?? "";
  } catch {
    return "";
  }
}

/** @param {string} value */
export function setToken(value) {
  try {
    if (value) sessionStorage.setItem(TOKEN, value);
    else sessionStorage.removeItem(TOKEN);
  } catch { /* the browser has no storage: actions stay disabled */ }
}

/**
 * ask requests a path and returns its JSON. The path has no leading slash, as the page may be behind a prefix.
 * @param {string} path
 * @param {RequestInit} options
 * @returns {Promise<any>}
 */
export async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { cache: "no-store", credentials: "same-origin", ...options });
  } catch (e) {
    if (e instanceof DOMException && e.name === "AbortError") throw e;
    throw new Failed(0, "the agent does not answer");
  }
  setClock(response.headers.get("date"));
  if (!response.ok) throw new Failed(response.status, await reasonOf(response));
  try {
    return await response.json();
  } catch {
    throw new Failed(response.status, "the answer is not JSON");
  }
}

/** @param {Response} response */
export async function reasonOf(response) {
  const text = (await response.text().catch(() => "")).slice(0, 10000);
  try {
    const status = JSON.parse(text);
    if (typeof status.message === "string") return line(status.message, 1000);
  } catch { /* not a Status */ }
  return line(text, 300) || `HTTP status ${response.status}`;
}

/**
 * act sends an action with the token.
 * @param {string} path
 * @param {object} [body]
 */
export function act(path, body) {
  return ask(path, {
    method: "POST", headers: { "X-Prober-Token": token(), "Content-Type": "application/json" }, body: body ? JSON.stringify(body) : undefined,
  });
}

/**
 * pathOf returns the path of a probe.
 * @param {{namespace: string, pod: string, container: string, kind: string}} p
 */
export const pathOf = (p) => `api/v1/probes/${[p.namespace, p.pod, p.container, p.kind].map(encodeURIComponent).join("/")}`;

/**
 * list requests a list page by page, and returns at most most items.
 * @param {string} path with a query
 * @param {number} most
 */
export async function list(path, most = 20000) {
  /** @type {any[]} */
  const items = [];
  let next = "", head = null;
  do {
    const page = await ask(`${path}${path.includes("?") ? "&" : "?"}limit=1000${next && "&continue=" + encodeURIComponent(next)}`);
    head ??= page;
    if (Array.isArray(page.items)) items.push(...page.items);
    next = page.metadata?.continue ?? "";
  } while (next && items.length < most);
  return { ...head, items };
}
