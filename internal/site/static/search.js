// Searches the texts of all pages. index.js sets window.pages.
(() => {
  const form = document.getElementById("search"), box = form.elements.q, results = document.getElementById("results");
  const root = form.dataset.root.replace(/index\.html$/, "");
  const lower = text => text.toLowerCase();

  // score returns how well a page matches words: 0 if one of them is nowhere.
  function score(page, words) {
    let sum = 0;
    for (const w of words) {
      let s = 0;
      if (lower(page.title).includes(w)) s += 20;
      if (lower(page.description).includes(w)) s += 8;
      if (page.headings.some(h => lower(h.text).includes(w))) s += 8;
      s += Math.min(5, lower(page.text).split(w).length - 1);
      if (s === 0) return 0;
      sum += s;
    }
    return sum;
  }

  // excerpt returns the text around the first word, as nodes.
  function excerpt(text, words) {
    const at = Math.max(0, lower(text).indexOf(words[0]));
    const start = Math.max(0, at - 60), part = text.slice(start, at + 140);
    const node = document.createElement("small");
    const i = at - start;
    node.append(start > 0 ? "… " : "", part.slice(0, i));
    const mark = document.createElement("mark");
    mark.textContent = part.slice(i, i + words[0].length);
    node.append(mark, part.slice(i + words[0].length), " …");
    return node;
  }

  function show() {
    const words = lower(box.value).split(/\s+/).filter(Boolean);
    results.hidden = words.length === 0;
    results.replaceChildren();
    if (words.length === 0) return;
    const found = window.pages.map(page => ({page, score: score(page, words)})).filter(f => f.score > 0);
    found.sort((a, b) => b.score - a.score);
    if (found.length === 0) {
      results.textContent = "No page has all of these words.";
      return;
    }
    const list = document.createElement("ol");
    for (const {page} of found.slice(0, 12)) {
      const item = document.createElement("li"), link = document.createElement("a");
      const heading = page.headings.find(h => words.every(w => lower(h.text).includes(w)));
      link.href = root + page.url + (heading ? "#" + heading.id : "");
      link.textContent = page.section + ": " + page.title + (heading && heading.text !== page.title ? " › " + heading.text : "");
      item.append(link, excerpt(page.text, words));
      list.append(item);
    }
    results.append(list);
  }

  box.addEventListener("input", show);
  form.addEventListener("submit", event => {
    event.preventDefault();
    results.querySelector("a")?.click();
  });
  document.addEventListener("keydown", event => {
    if (event.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      box.focus();
    } else if (event.key === "Escape" && document.activeElement === box) {
      box.value = "";
      show();
    }
  });
})();
