"use strict";
// Data come from scripts (window.SITE), because pages opened from a file can't fetch; each is loaded when it is asked for.
// Texts of data reach the page by textContent alone; a run's page is HTML that was escaped when it was made.
(() => {
  // The theme's dialog and its buttons beside code have no name, and lists within the table of contents may share one.
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  window.addEventListener("load", () => document.querySelectorAll(".md-nav--secondary nav, .md-code__nav").forEach((one, at) => {
    one.setAttribute("aria-label", `${one.getAttribute("aria-label") ?? "Code"} (${at + 1})`);
  }));
  // The part of the page that its address names; one that can't be decoded, such as #100%, names none.
  function named() {
    try { return decodeURIComponent(location.hash.slice(1)); } catch { return ""; }
  }
  // A link to a folded part, or to a heading above one, opens it.
  function unfold() {
    const id = named();
    const part = id && document.getElementById(id);
    if (!part) return;
    const heading = part.tagName.startsWith("H");
    const after = heading ? [part.nextElementSibling, part.nextElementSibling?.nextElementSibling] : [];
    const own = after[0]?.querySelector(":scope > details") ?? after.find((one) => one?.matches("details.more"))
      ?? (part.hasAttribute("data-group") ? part.querySelector(":scope > details") : null);
    if (own) own.open = true;
    for (let fold = part.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    part.scrollIntoView();
  }
  window.addEventListener("hashchange", unfold);
  document.addEventListener("DOMContentLoaded", unfold);
  const places = document.querySelectorAll(".results");
  if (!places.length) return;
  const { root = "", page = "" } = document.querySelector(".results[data-page]:not([data-page=''])")?.dataset ?? places[0].dataset;

  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  const scripts = {};
  function script(address) {
    return scripts[address] ??= new Promise((done, failed) => {
      const made = element("script", { src: root + address });
      made.onload = done;
      made.onerror = () => failed(new Error(address));
      document.head.append(made);
    });
  }
  const load = (name) => script(`data/${name}.js`).then(() => window.SITE[name]);

  // What stands behind a cell.
  const RUN = ["run", "seed", "status", "accuracy", "spec", "data", "partition", "code", "commit", "finished", "seconds"];
  let dialog;

  function panel() {
    if (dialog) return dialog;
    const close = element("button", { class: "close", type: "button" }, "Close");
    close.addEventListener("click", () => dialog.close());
    dialog = element("dialog", { class: "results md-typeset", "aria-labelledby": "behind" },
      element("div", { class: "head" }, element("h2", { id: "behind" }), close), element("div", { class: "content" }));
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
    document.body.append(dialog);
    return dialog;
  }

  async function open(button) {
    const site = await load(page);
    const cells = site.cells[button.dataset.target];
    const cell = cells[Number(button.dataset.cell)];
    const facts = element("table", { class: "facts" });
    for (const [name, value] of cell.facts)
      facts.append(element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, value)));
    const runs = element("table", { class: "words" });
    const names = cell.partitions ? ["partition", "seed"] : RUN;
    runs.append(element("thead", {}, element("tr", {}, ...names.map((n) => element("th", { scope: "col" }, n)))));
    const body = runs.appendChild(element("tbody"));
    for (const index of cell.runs) {
      const run = site.runs[index];
      body.append(element("tr", {}, ...names.map((name) => {
        const text = String((cell.partitions && name === "partition" ? run.divided : run[name]) || (run[name] === 0 ? 0 : "–"));
        const short = element("span", name === "run" || name === "status" ? {} : { class: "soft" }, text);
        const link = name === "run" && run.page ? element("a", { href: `${root}results/run.html#${run.page}` }, text) : short;
        return element("td", { class: "tight" }, /^(spec|data|code|commit)$/.test(name) ? element("code", {}, text) : link);
      })));
    }
    panel().querySelector("h2").textContent = cell.title;
    dialog.querySelector(".content").replaceChildren(
      facts,
      element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "runs" }, runs),
      ...against(site, cells, cell),
      element("p", { class: "soft" }, "To make these runs again: ", element("code", {}, cell.command)),
    );
    dialog.showModal();
  }

  // The curves of a cell's runs beside those of the other methods in its column, where histories are here.
  function against(site, cells, cell) {
    const column = cells.filter((one) => one.column === cell.column).flatMap((one) => one.runs).map((at) => site.runs[at]);
    if (!cell.runs.some((at) => site.runs[at].curves)) return [];
    const place = element("div", { class: "chart", role: "group", "aria-label": "Curves of the column's methods" });
    const fold = element("details", { class: "curves" }, element("summary", {}, "Curves of all methods in this column"), place);
    fold.addEventListener("toggle", async () => {
      if (!fold.open || place.dataset.drawn !== undefined) return;
      const made = await Promise.all([...new Set(column.filter((run) => run.curves))].map(async (run) => {
        const [first] = (await load(`runs/${run.curves}`)).charts.run;
        return { ...first, traces: first.traces.map((one) => ({ ...one, label: run.method })) };
      }));
      const traces = made.flatMap((one) => one.traces);
      traces.forEach((one, at) => { one.again = traces.findIndex((other) => other.label === one.label) < at; });
      await draw(place, { ...made[0], traces }, true);
    });
    return [fold];
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-cell]");
    if (button) open(button);
  });

  // n and deviation on hover and focus.
  const tip = element("div", { id: "tip", role: "tooltip", hidden: "" });
  tip.hidden = true;
  document.body.append(tip);
  function tell(event) {
    const about = event.target.closest?.("[data-about]");
    tip.hidden = !about;
    if (!about) return;
    tip.textContent = about.dataset.about;
    const box = about.getBoundingClientRect();
    const left = Math.min(box.left, document.documentElement.clientWidth - tip.offsetWidth - 8);
    tip.style.left = `${Math.max(8, left) + window.scrollX}px`;
    tip.style.top = `${box.bottom + window.scrollY + 6}px`;
  }
  document.addEventListener("mouseover", tell);
  document.addEventListener("focusin", tell);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });

  // Filters: every word has to occur, every choice has to be among the item's own.
  for (const form of document.querySelectorAll("form.filters")) {
    // Not form.dataset, which is the choice of that name.
    const listed = form.hasAttribute("data-runs");
    const table = document.getElementById(form.getAttribute("data-list"));
    const count = form.querySelector("output");
    const MOST = 100;
    let most = MOST;
    let runs = [];
    let sorted = ["", 1];

    function wanted() {
      const data = new FormData(form);
      const words = String(data.get("q") || "").toLowerCase().split(/\s+/).filter(Boolean);
      const choices = [...data].filter(([key, value]) => key !== "q" && value);
      return (text, own) =>
        words.every((word) => text.includes(word)) &&
        choices.every(([key, value]) => own(key).includes(value));
    }

    function apply() {
      const fits = wanted();
      if (listed) return list(fits);
      const items = [...table.querySelectorAll("[data-text]")];
      for (const item of items)
        item.hidden = !fits(item.dataset.text, (key) => (item.dataset[key] || "").split(" "));
      for (const group of table.querySelectorAll("[data-group]"))
        group.hidden = !group.querySelector("[data-text]:not([hidden])");
      if ([...new FormData(form).values()].some(Boolean))
        table.querySelectorAll("details").forEach((fold) => { fold.open = true; });
      count.textContent = `${items.filter((item) => !item.hidden).length} of ${items.length}`;
    }

    function order(name) {
      const value = (run) => run[name] ?? "";
      const both = (one, other) => isNaN(value(one)) || isNaN(value(other))
        ? String(value(one)).localeCompare(String(value(other))) : value(one) - value(other);
      sorted = [name, sorted[0] === name ? -sorted[1] : 1];
      runs.sort((one, other) => sorted[1] * both(one, other));
      for (const button of document.querySelectorAll("[data-sort]")) {
        const own = button.dataset.sort === name;
        button.parentElement[own ? "setAttribute" : "removeAttribute"]("aria-sort", sorted[1] > 0 ? "ascending" : "descending");
      }
      apply();
    }

    function list(fits) {
      const found = runs.filter((run) => fits(run.text, (key) => [].concat(run[key])));
      table.replaceChildren(...found.slice(0, most).map((run) => {
        const [paper, target] = (run.targets[0] || "/").split("/");
        const address = run.name ? `run.html#${run.name}` : `${root}papers/${paper}.html#${target}`;
        return element("tr", {},
          element("th", { scope: "row" }, element("a", { href: address }, run.algorithm)),
          ...["seed", "dataset", "partition", "setting", "paper", "scale", "status", "accuracy", "verdict", "finished"].map((key) => element("td", {}, String(run[key] ?? "–"))));
      }));
      count.textContent = `${Math.min(most, found.length)} of ${found.length} shown`;
      const more = document.getElementById("more");
      more.hidden = found.length <= most;
      more.onclick = () => { most += 5 * MOST; apply(); };
    }

    function start() {
      for (const [key, value] of new URLSearchParams(location.hash.slice(1)))
        if (form.elements[key]) form.elements[key].value = value;
      apply();
    }

    form.addEventListener("input", () => { most = MOST; apply(); });
    form.addEventListener("submit", (event) => event.preventDefault());
    if (!listed) start();
    else load(page).then((told) => {
      runs = told.lines.map((line) => Object.fromEntries(line.map((value, at) => [told.columns[at], value])));
      runs.forEach((run) => { run.text = Object.values(run).flat().join(" ").toLowerCase(); });
      for (const choice of form.querySelectorAll("select"))
        for (const value of [...new Set(runs.flatMap((run) => run[choice.name]))].filter(Boolean).sort())
          choice.append(element("option", { value }, value));
      document.querySelectorAll("[data-sort]").forEach((button) => button.addEventListener("click", () => order(button.dataset.sort)));
      start();
    });
  }

  unfold();

  // Curves: drawn when their fold is opened, on white in the colours of the printed figures; a style turns both dark.
  const INK = "#1b1f24";
  const DASHES = { "-": "solid", "--": "dash", ":": "dot", "-.": "dashdot" };
  const SYMBOLS = {
    o: "circle", s: "square", D: "diamond", d: "diamond-tall", P: "cross", X: "x", "*": "star", h: "hexagon", p: "pentagon",
    "^": "triangle-up", v: "triangle-down", "<": "triangle-left", ">": "triangle-right",
  };
  function traces(chart, merged) {
    const made = [];
    for (const one of chart.traces) {
      const band = one.std?.some((value) => value);
      if (band) {
        const edge = (sign) => one.mean.map((value, at) => value === null ? null : value + sign * (one.std[at] ?? 0));
        made.push({
          x: [...one.x, ...[...one.x].reverse()], y: [...edge(1), ...edge(-1).reverse()],
          fill: "toself", fillcolor: one.colour + "26", line: { width: 0 }, mode: "lines", hoverinfo: "skip", series: one.label,
          legendgroup: one.label, showlegend: false,
        });
      }
      const step = Math.max(1, Math.ceil(one.x.length / 10));
      made.push({
        x: one.x, y: one.mean, name: one.label, mode: "lines+markers", legendgroup: one.label, connectgaps: true, showlegend: !(merged && one.again),
        line: { color: one.colour, dash: DASHES[one.line], width: 2 },
        marker: { symbol: SYMBOLS[one.marker], color: one.colour, size: one.x.map((_, at) => (at % step ? 0.01 : 7)) },
        customdata: one.x.map((_, at) => one.n ? `± ${one.std[at] ?? "–"} (n = ${one.n[at]})` : ""),
        hovertemplate: "round %{x}: %{y} %{customdata}<extra>%{fullData.name}</extra>",
      });
    }
    return made;
  }

  const AXIS = { gridcolor: "#e4e8ec", zerolinecolor: "#c8ced4", linecolor: "#8a939d", automargin: true };
  async function plot(place, drawn, layout) {
    place.dataset.drawn = "";
    await script("assets/plotly.min.js");
    await Plotly.newPlot(place, drawn, {
      font: { family: "system-ui, sans-serif", size: 13, color: INK }, paper_bgcolor: "#fff", plot_bgcolor: "#fff",
      margin: { l: 56, r: 12, t: 12, b: 44 }, hovermode: "closest", ...layout,
    }, { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d"] });
  }

  const draw = (place, chart, legend) => plot(place, traces(chart, legend), {
    showlegend: legend, legend: { orientation: "h", y: 1.12 },
    xaxis: { ...AXIS, ...(Math.max(...chart.traces.flatMap((one) => one.x)) <= 10 ? { dtick: 1 } : {}), title: { text: chart.x || "communication round" } }, yaxis: { ...AXIS, title: { text: chart.y } },
  });

  // Who holds what: the share of each class in each client's rows, above the clients' numbers of rows.
  function holds(place, counts) {
    const sizes = counts.map((own) => own.reduce((sum, rows) => sum + rows, 0));
    const rows = counts[0].map((_, label) => counts.map((own) => own[label]));
    const z = rows.map((own) => own.map((count, client) => count / (sizes[client] || 1)));
    return plot(place, [
      { type: "heatmap", z, customdata: rows, zmin: 0, zmax: 1, showscale: false, xgap: 1, colorscale: [[0, "#fff"], [1, "#0b4f8a"]],
        hovertemplate: "client %{x}, class %{y}: %{customdata} rows, %{z:.0%}<extra></extra>" },
      { type: "bar", y: sizes, yaxis: "y2", marker: { color: "#59636e" }, hovertemplate: "client %{x}: %{y} rows<extra></extra>" },
    ], {
      xaxis: { ...AXIS, title: { text: "client" }, anchor: "y2", tickformat: "d" },
      yaxis: { ...AXIS, title: { text: "class" }, domain: [0.4, 1], tickformat: "d" },
      yaxis2: { ...AXIS, title: { text: "rows" }, domain: [0, 0.32] },
    });
  }

  function curves(fold, name) {
    const buttons = fold.querySelectorAll(".series button");
    fold.addEventListener("toggle", async () => {
      if (!fold.open) return;
      const charts = (await load(name)).charts[fold.dataset.charts];
      fold.querySelectorAll(".chart:not([data-drawn])").forEach((place, at) => draw(place, charts[at], !buttons.length && charts[at].traces.length > 1));
    });
    for (const button of buttons)
      button.addEventListener("click", () => {
        const visible = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(visible));
        for (const place of fold.querySelectorAll("[data-drawn]")) {
          const own = place.data.map((trace, at) => (trace.legendgroup === button.dataset.series ? at : -1)).filter((at) => at >= 0);
          if (own.length) Plotly.restyle(place, { visible }, own);
        }
      });
  }
  document.querySelectorAll("details[data-charts]").forEach((fold) => curves(fold, page));

  // One run, which the address names.
  const one = document.getElementById("run");
  async function show() {
    const name = named();
    if (!name || document.getElementById(name)) return;
    const { html, counts } = await load(`runs/${name}`);
    one.innerHTML = html;
    one.querySelectorAll("details[data-charts]").forEach((fold) => curves(fold, `runs/${name}`));
    one.querySelectorAll(".holds").forEach((place) => holds(place, counts));
  }
  if (one) {
    window.addEventListener("hashchange", show);
    show();
  }
})();
