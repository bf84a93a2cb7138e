// Draws the figures of the page when they are first seen, in the colours of the reader's light or dark mode.
"use strict";
(function () {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const narrow = window.matchMedia("(max-width: 600px)");
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const drawn = new Set(), blocks = window.ascendTimelines;
  const ONE_LINE = 19, TWO_COLUMNS = 2;  // pixels and entries of a line of a legend

  function template() {
    const [text, line, hover] = dark.matches ? ["#e4e8ec", "#353e48", "#252d36"] : ["#1f2328", "#dfe4e9", "#ffffff"];
    const axis = { gridcolor: line, linecolor: line, zerolinecolor: line, tickcolor: line };
    return { layout: {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", xaxis: axis, yaxis: axis,
      font: { color: text, size: narrow.matches ? 10 : 12, family: "system-ui, sans-serif" },
      hoverlabel: { bgcolor: hover, bordercolor: line, font: { color: text, size: 12 }, align: "left" },
    } };
  }

  function draw(place) {
    const figure = figures[place.dataset.figure];
    const layout = Object.assign({}, figure.layout, { template: template() });
    const config = { responsive: true, displayModeBar: false };
    drawn.add(place);
    makeRoom(place, figure, layout);
    Plotly.newPlot(place, figure.data, layout, config).then(() => {
      const range = blocks?.range(place.dataset.time);
      if (range) { showAll(place.dataset.time, range); }
      if (place.dataset.time) { place.on("plotly_relayout", () => follow(place)); }
    });
  }

  // On a narrow screen a legend takes several lines: they get room of their own above the figure.
  function makeRoom(place, figure, layout) {
    const entries = figure.data.filter((one) => one.name && one.showlegend !== false).length;
    if (!narrow.matches || !layout.legend || entries <= TWO_COLUMNS) { return; }
    layout.height += ONE_LINE * (Math.ceil(entries / TWO_COLUMNS) - 1);
    layout.legend = Object.assign({}, layout.legend, { maxheight: layout.height });
    place.style.height = `${layout.height}px`;
  }

  // Figures of one time show the same cycles: a timeline and the curves below it.
  function follow(place) {
    const range = place._fullLayout.xaxis.range.map(Number);
    showAll(place.dataset.time, range);
    blocks?.show(place.dataset.time, range);
  }

  function showAll(time, range) {
    for (const other of document.querySelectorAll(`.figure[data-time="${time}"]`)) {
      if (other._fullLayout && other._fullLayout.xaxis.range.map(Number).join() !== range.join()) {
        Plotly.relayout(other, { "xaxis.range": range.slice() });
      }
    }
  }

  // What belongs to one block only is shown with it; the figures of the same time follow the timeline, not at every step.
  let waiting = 0;
  document.addEventListener("range", (event) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => showAll(event.target.dataset.task, event.detail), 60);
  });
  document.addEventListener("block", (event) => {
    for (const part of event.target.parentNode.querySelectorAll("[data-block-only]")) {
      part.hidden = part.dataset.blockOnly !== String(event.detail);
    }
    drawVisible();
  });

  function drawVisible() {
    for (const place of document.querySelectorAll(".figure")) {
      if (!drawn.has(place) && place.offsetParent !== null) { draw(place); }
    }
    blocks?.seen();
  }

  function choose(kernel) {
    for (const part of document.querySelectorAll("section.kernel")) { part.hidden = part.dataset.kernel !== kernel; }
    for (const row of document.querySelectorAll("tr[data-kernel]")) {
      row.classList.toggle("chosen", row.dataset.kernel === kernel);
    }
    const select = document.getElementById("kernel");
    if (select) { select.value = kernel; }
    drawVisible();
  }

  // The rows of a table by a column: largest figures first, words from A; a second click turns it around.
  function sort(head) {
    const body = head.closest("table").tBodies[0], figures = head.classList.contains("n");
    const [first, then] = figures ? ["descending", "ascending"] : ["ascending", "descending"];
    const order = head.ariaSort === first ? then : first;
    const value = (row) => {
      const text = row.cells[head.cellIndex].textContent;
      return figures ? parseFloat(text.replaceAll(",", "")) : text;
    };
    const known = (row) => !Number.isNaN(value(row)), rows = Array.from(body.rows), least = order === "ascending" ? 1 : -1;
    const sorted = rows.filter(known).sort((a, b) => least * (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0));
    body.append(...sorted, ...rows.filter((row) => !known(row)));
    for (const other of head.parentNode.cells) { other.ariaSort = other === head ? order : null; }
  }

  document.addEventListener("click", (event) => {
    const head = event.target.closest("table[data-sort] th");
    if (head) { sort(head); }
    const row = event.target.closest("tr[data-kernel]");
    if (row && document.querySelector(`section.kernel[data-kernel="${row.dataset.kernel}"]`)) {
      choose(row.dataset.kernel);
      document.getElementById("one-kernel").scrollIntoView({ behavior: "smooth" });
    }
    const shown = event.target.closest("button[data-block]");
    if (shown) {
      blocks.reveal(shown.closest("section.kernel").dataset.kernel, Number(shown.dataset.block), Number(shown.dataset.row));
    }
    const race = event.target.closest("button[data-clash]");
    if (race) {
      const kernel = blocks.kernelOf(Number(race.dataset.clash));
      choose(kernel);
      blocks.race(kernel, Number(race.dataset.clash));
    }
  });
  // Commands are copied by a button; rows and heads that take a click take Enter and Space too.
  for (const command of document.querySelectorAll("code.command")) {
    const button = document.createElement("button");
    button.className = "copy";
    button.type = "button";
    button.textContent = "copy";
    button.setAttribute("aria-label", `copy ${command.textContent}`);
    button.addEventListener("click", () => copy(command, button));
    command.after(button);
    command.replaceChildren(...command.textContent.split(/( )/).map(whole));
  }
  // A line ends between words alone, not after the hyphen of an option.
  function whole(word) {
    if (word === " ") { return word; }
    const span = document.createElement("span");
    span.textContent = word;
    return span;
  }
  async function copy(command, button) {
    try {
      await navigator.clipboard.writeText(command.textContent);
      button.textContent = "copied";
    } catch {  // a page from a file may not write there: the command is marked for the reader's own keys
      getSelection().selectAllChildren(command);
      button.textContent = "marked";
    }
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  }
  for (const part of document.querySelectorAll("table[data-sort] th, tr[data-kernel]")) { part.tabIndex = 0; }
  document.addEventListener("keydown", (event) => {
    if ((event.key === "Enter" || event.key === " ") && event.target.matches("table[data-sort] th, tr[data-kernel]")) {
      event.preventDefault();
      event.target.click();
    }
  });
  document.addEventListener("toggle", drawVisible, true);
  const select = document.getElementById("kernel");
  if (select) {
    select.addEventListener("change", () => choose(select.value));
    choose(select.value);
  }
  drawVisible();
  const recolor = () => { drawn.forEach((place) => Plotly.relayout(place, { template: template() })); blocks?.seen(); };
  dark.addEventListener("change", recolor);
  narrow.addEventListener("change", recolor);
  document.body.dataset.ready = "yes";
})();
