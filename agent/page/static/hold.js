// @ts-check A list holds still while someone points at it or moves in it by keys, so that a click meets the row
// that it is meant for. It moves again REST after the last sign of use, as a pointer may be left on a wall.

const REST = 20_000; // ms

export class Hold {
  /**
   * @param {HTMLElement} node
   * @param {() => void} released is called when the list may move again
   */
  constructor(node, released) {
    this.node = node;
    this.released = released;
    this.until = 0;
    this.timer = 0;
    for (const type of ["pointermove", "pointerdown", "keydown", "focusin"]) node.addEventListener(type, () => this.touch());
    node.addEventListener("pointerleave", () => this.leave(node.contains(document.activeElement)));
    node.addEventListener("focusout", (e) => this.leave(node.contains(/** @type {Node | null} */ (e.relatedTarget)) || node.matches(":hover")));
  }

  get on() {
    return Date.now() < this.until;
  }

  touch() {
    this.until = Date.now() + REST;
    if (!this.timer) this.timer = setTimeout(() => this.rest(), REST);
  }

  rest() {
    const left = this.until - Date.now();
    this.timer = left > 0 ? setTimeout(() => this.rest(), left) : 0;
    if (left <= 0) this.released();
  }

  /** @param {boolean} used in another way */
  leave(used) {
    if (used) return;
    this.close();
    this.released();
  }

  close() {
    this.until = 0;
    clearTimeout(this.timer);
    this.timer = 0;
  }
}
