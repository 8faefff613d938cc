"use strict";
(() => {
  let specs = JSON.parse(document.getElementById("charts").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");

  // The colours of the page, so that style sheet and charts cannot disagree.
  function theme() {
    const computed = getComputedStyle(document.documentElement);
    const colour = (name) => computed.getPropertyValue(`--${name}`).trim();
    const [ink, quiet, line, best, front] = ["ink", "quiet", "line", "best", "front"].map(colour);
    const series = [1, 2, 3, 4, 5].map((index) => colour(`series-${index}`));
    const solid = (value) => ({ color: value, fill: value, stroke: value });
    return {
      background: "transparent",
      font: getComputedStyle(document.body).fontFamily,
      padding: 4,
      view: { stroke: "transparent" },
      axis: {
        labelColor: quiet, titleColor: ink, gridColor: line, domainColor: line, tickColor: line,
        labelFontSize: 12, titleFontSize: 12, titleFontWeight: 500, titlePadding: 8,
      },
      axisBand: { grid: false, labelColor: ink, domain: false, ticks: false },
      legend: { labelColor: ink, titleColor: ink, labelFontSize: 12, symbolSize: 90, offset: 6 },
      text: { color: ink, fontSize: 12 },
      range: { category: series, heatmap: [colour("heat-low"), colour("heat-high")] },
      style: {
        best: solid(best),
        others: solid(colour("others")),
        front: { stroke: front, color: front, strokeWidth: 2 },
        limit: { stroke: colour("limit"), color: colour("limit"), strokeWidth: 2, strokeDash: [6, 4] },
        chosen: { stroke: ink, color: ink, strokeWidth: 1.6, strokeDash: [4, 4] },
        diagonal: { stroke: quiet, color: quiet, strokeWidth: 1.4, strokeDash: [4, 4] },
        words: { fill: ink, color: ink, fontSize: 11.5 },
        tile: { stroke: colour("card"), strokeWidth: 2 },
      },
    };
  }

  // Tooltips are made of text nodes, so that no name can become HTML, and stay inside the window.
  const bubble = document.createElement("div");
  bubble.id = "tooltip";
  bubble.setAttribute("role", "status");
  bubble.hidden = true;
  document.body.append(bubble);

  function show(handler, event, item, value) {
    bubble.hidden = value === null || value === undefined || value === "";
    if (bubble.hidden) return;
    const table = document.createElement("table");
    for (const [name, shown] of Object.entries(Object(value) === value ? value : { "": value })) {
      const row = table.insertRow();
      row.insertCell().textContent = name;
      const cell = row.insertCell();
      String(shown).split("|").forEach((part, index) => { // keys of architectures break between options
        cell.append(...(index ? ["|", document.createElement("wbr")] : []), part);
      });
    }
    bubble.replaceChildren(table);
    const { width, height } = bubble.getBoundingClientRect();
    const beside = event.clientX + 14 + width > innerWidth ? event.clientX - 14 - width : event.clientX + 14;
    const below = event.clientY + 14 + height > innerHeight ? event.clientY - 14 - height : event.clientY + 14;
    bubble.style.left = `${Math.max(4, Math.min(beside, innerWidth - width - 4))}px`;
    bubble.style.top = `${Math.max(4, below)}px`;
  }

  // A point whose data name a part of the page reveals it, and so does a button; its siblings are hidden.
  function reveal(name) {
    const place = document.getElementById(name);
    if (!place) return;
    for (const other of place.parentElement.querySelectorAll(":scope > .shown")) other.hidden = other !== place;
    for (const button of document.querySelectorAll("button[data-shows]")) {
      button.setAttribute("aria-pressed", String(button.dataset.shows === name));
    }
  }

  for (const button of document.querySelectorAll("button[data-shows]")) {
    button.addEventListener("click", () => reveal(button.dataset.shows));
  }

  let drawn = [];

  async function draw() {
    drawn.forEach((chart) => chart.finalize());
    bubble.hidden = true;
    const options = {
      mode: "vega-lite", renderer: "svg", actions: false, config: theme(),
      ast: true, // expressions are interpreted, so that the page may forbid eval
      tooltip: show,
      formatLocale: { decimal: ".", thousands: ",", grouping: [3], currency: ["", ""], percent: "\u00a0%" },
    };
    drawn = await Promise.all(Object.entries(specs).map(async ([name, spec]) => {
      const place = document.getElementById(`chart-${name}`);
      place.style.minHeight = `${place.offsetHeight}px`; // the page does not jump while a chart is drawn again
      try {
        const chart = await window.vegaEmbed(place, spec, options);
        chart.view.addEventListener("click", (event, item) => {
          if (item && item.datum && item.datum.shows) reveal(item.datum.shows);
        });
        return chart;
      } catch (error) {
        place.textContent = `This chart could not be drawn: ${error.message}`;
        return { finalize() {} };
      } finally {
        place.style.minHeight = "";
      }
    }));
    document.documentElement.dataset.charts = dark.matches ? "dark" : "light";
  }

  let queue = draw();
  dark.addEventListener("change", () => { queue = queue.then(draw); });
  // A page that follows a run brings new charts.
  document.addEventListener("charts", (event) => {
    queue = queue.then(() => { specs = event.detail; return draw(); });
  });

  function sort(table, column, ascending) {
    const body = table.tBodies[0];
    const valued = [...body.rows].map((row) => {
      const { number } = row.cells[column].dataset;
      return { row, number: number === undefined ? NaN : Number(number), text: row.cells[column].textContent.trim() };
    });
    const numeric = valued.some((item) => !Number.isNaN(item.number));
    const sign = ascending ? 1 : -1;
    valued.sort((a, b) => {
      if (!numeric) return sign * a.text.localeCompare(b.text);
      if (Number.isNaN(a.number) || Number.isNaN(b.number)) return Number.isNaN(a.number) - Number.isNaN(b.number);
      return sign * (a.number - b.number);
    });
    body.append(...valued.map((item) => item.row));
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    const headings = [...table.tHead.rows[0].cells];
    headings.forEach((heading, column) => {
      heading.querySelector("button").addEventListener("click", () => {
        const ascending = heading.getAttribute("aria-sort") !== "ascending";
        headings.forEach((other) => other.removeAttribute("aria-sort"));
        heading.setAttribute("aria-sort", ascending ? "ascending" : "descending");
        sort(table, column, ascending);
      });
    });
  }

  async function copy(code) {
    try {
      await navigator.clipboard.writeText(code.textContent);
      return true;
    } catch { // a page from a file may not be allowed to use the clipboard; then the text is at least selected
      getSelection().selectAllChildren(code);
      return document.execCommand("copy");
    }
  }

  for (const button of document.querySelectorAll("button.copy")) {
    button.addEventListener("click", async () => {
      const done = await copy(button.closest(".snippet").querySelector("code"));
      button.textContent = done ? "Copied" : "Selected";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }
})();
