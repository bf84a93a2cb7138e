// The site's search: a field in the head; it looks in the sections of find_index.js, which needs no server.
const base = new URL(".", document.currentScript.src);

function matches(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [];
  for (const [link, page, head, text] of words.length ? window.findIndex : []) {
    const titles = `${page} ${head}`.toLowerCase(), body = text.toLowerCase();
    if (!words.every(word => titles.includes(word) || body.includes(word))) { continue; }
    const score = words.reduce((sum, word) => sum + (head.toLowerCase().includes(word) ? 20 : titles.includes(word) ? 5 : 0) +
      Math.min(body.split(word).length - 1, 4), 0);
    found.push({link, page, head, text, score, at: Math.max(body.indexOf(words[0]), 0)});
  }
  return found.sort((a, b) => b.score - a.score).slice(0, 12);
}

function show(list, query) {
  const found = matches(query);
  list.replaceChildren(...found.map(one => {
    const row = document.createElement("a"), title = document.createElement("b"), text = document.createElement("span");
    row.href = new URL(one.link, base);
    title.textContent = one.page === one.head ? one.page : `${one.page}: ${one.head}`;
    text.textContent = one.text.slice(Math.max(one.at - 40, 0), one.at + 100);
    row.append(title, text);
    return row;
  }));
  if (query.trim() && !found.length) { list.textContent = "no page has all these words"; }
  list.hidden = !query.trim();
}

document.addEventListener("DOMContentLoaded", () => {
  const box = document.createElement("div"), field = document.createElement("input"), list = document.createElement("div");
  box.id = "find";
  field.type = "search"; field.placeholder = "Search"; field.setAttribute("aria-label", "search the pages");
  list.hidden = true;
  box.append(field, list);
  document.querySelector(".md-header__inner").append(box);
  field.addEventListener("input", () => show(list, field.value));
  document.addEventListener("keydown", event => {
    const busy = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
    if (event.key === "/" && !busy) { event.preventDefault(); field.focus(); }
    if (event.key === "Escape") { field.value = ""; show(list, ""); }
    if (event.key === "Enter" && document.activeElement === field) { list.querySelector("a")?.click(); }
  });
});
