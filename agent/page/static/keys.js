// @ts-check
// The dialog that lists the keys.

import { fill, h } from "./dom.js";

const KEYS = [
  ["/", "search"], ["?", "this list"], ["Tab, Shift+Tab", "next and previous control"], ["↑ ↓ PgUp PgDn Home End", "move in a table"], ["Enter", "open a row"],
  ["Esc", "leave a field"], ["g o", "overview"], ["g p", "probes"], ["g d", "pods"], ["g t", "targets"], ["g l", "plugins"], ["g e", "events"], ["g c", "certificates"], ["g a", "availability"], ["g w", "wall screen"],
];

export function showKeys() {
  const dialog = /** @type {HTMLDialogElement} */ (document.getElementById("keys"));
  fill(dialog, 
    h("h2", { id: "keys-title" }, "Keys"),
    h("dl", {}, KEYS.map(([key, does]) => [h("dt", {}, key.split(" ").map((k) => h("kbd", {}, k))), h("dd", {}, does)]).flat()),
    h("button", { type: "button", onclick: () => dialog.close() }, "Close"));
  if (!dialog.open) dialog.showModal();
}
