// @ts-check What a search box accepts: words, and label selectors as kubectl has them, such as "team=shop",
// "tier in (front, back)", "!team", and "label:team" for a label with any value.

const PART = /\s*,?\s*(?:(?:label:)?([\w./-]+)\s+(in|notin)\s*\(([^)]*)\)|(?:label:)?([\w./-]+)(==?|!=)([^\s,]*)(?=[\s,]|$)|(!|label:)([\w./-]+)(?=[\s,]|$)|(\S+))/gy;

/** @typedef {(text: string, labels: Record<string, string> | undefined) => boolean} Part */

/**
 * parse returns a function that reports whether something with a text, in lower case, and labels matches a query.
 * @param {string} query
 * @returns {Part}
 */
export function parse(query) {
  const parts = [...query.matchAll(PART)].map(partOf);
  return (text, labels) => parts.every((part) => part(text, labels));
}

/** @param {RegExpMatchArray} m @returns {Part} */
function partOf([all, setKey, verb, values, key, sign, value, mark, name, word]) {
  const of = (/** @type {Record<string, string> | undefined} */ labels, /** @type {string} */ k) => (labels && Object.hasOwn(labels, k) ? labels[k] : undefined);
  if (setKey) {
    const set = values.split(",").map((v) => v.trim());
    return (_, labels) => set.includes(of(labels, setKey) ?? "\0") === (verb === "in");
  }
  if (sign === "!=") return (_, labels) => of(labels, key) !== value;
  const literal = all.trim().toLowerCase();
  if (key) return (text, labels) => of(labels, key) === value || text.includes(literal); // a word may have "="
  if (name) return (_, labels) => (of(labels, name) !== undefined) === (mark !== "!");
  const lower = word.toLowerCase();
  return (text) => text.includes(lower);
}
