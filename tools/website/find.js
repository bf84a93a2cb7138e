// The site's search: a field in the head; it looks in the sections of find_index.js, which needs no server.
const base = new URL(".", document.currentScript.src);

// Places where a word of the text begins with `word`: "race" is in "races", and not in "trace".
function begins(text, word) {
  const escaped = word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return [...text.matchAll(new RegExp(`(?<![\\p{L}\\p{N}])${escaped}`, "gu"))].map(one => one.index);
}

// Sections with all words of the query, the best first. Words inside other words find a section, and rank it last.
function matches(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [];
  for (const [link, page, head, text] of words.length ? window.findIndex : []) {
    const heading = head.toLowerCase(), titles = `${page.toLowerCase()} ${heading}`, body = text.toLowerCase();
    if (!words.every(word => titles.includes(word) || body.includes(word))) { continue; }
    const places = words.map(word => begins(body, word));
    const score = words.reduce((sum, word, number) => {
      const count = places[number].length, share = count * word.length / Math.max(body.length, 1);
      return sum + (begins(heading, word).length ? 20 : begins(titles, word).length ? 5 : 0) + Math.min(count, 4) + 10 * share;
    }, 0);
    const today = page === "Changelog" ? 0.2 : 1;  // what changed stands behind what is
    found.push({link, page, head, text, score: score * today, at: places[0][0] ?? Math.max(body.indexOf(words[0]), 0)});
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
