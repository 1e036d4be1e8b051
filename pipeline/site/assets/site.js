"use strict";
// Data come from a script beside the page (window.SITE), because pages opened from a file can't fetch.
// Texts reach the page by textContent alone.
(() => {
  const site = window.SITE || {};
  const root = document.body.dataset.root;

  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  // What stands behind a cell.
  const dialog = document.querySelector("dialog");
  const RUN = ["run", "seed", "status", "accuracy", "spec", "data", "partition", "code", "commit", "finished", "seconds"];

  function open(cell) {
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
        const link = name === "run" && run.page ? element("a", { href: `${root}runs/${run.page}.html` }, text) : short;
        return element("td", { class: "tight" }, /^(spec|data|code|commit)$/.test(name) ? element("code", {}, text) : link);
      })));
    }
    const content = dialog.querySelector(".content");
    dialog.querySelector("h2").textContent = cell.title;
    content.replaceChildren(
      facts,
      element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "runs" }, runs),
    );
    if (cell.command) content.append(element("p", { class: "soft" }, "The same on the command line: ", element("code", {}, cell.command)));
    dialog.showModal();
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-cell]");
    if (button) open(site.cells[button.dataset.target][Number(button.dataset.cell)]);
    if (event.target === dialog) dialog.close();
  });

  // n and deviation on hover and focus.
  const tip = element("div", { id: "tip", role: "tooltip", hidden: "" });
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
    const MOST = 200;
    let most = MOST;

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

    function list(fits) {
      const found = site.runs.filter((run) => fits(run.text, (key) => [].concat(run[key])));
      table.replaceChildren(...found.slice(0, most).map((run) => element("tr", {},
        element("th", { scope: "row" }, element("a", { href: `runs/${run.name}.html` }, run.algorithm)),
        ...["seed", "setting", "paper", "scale", "status", "accuracy", "finished"].map((key) => element("td", {}, String(run[key] ?? "–"))),
      )));
      count.textContent = `${Math.min(most, found.length)} of ${found.length} shown`;
      const more = document.getElementById("more");
      more.hidden = found.length <= most;
      more.onclick = () => { most += 5 * MOST; apply(); };
    }

    form.addEventListener("input", () => { most = MOST; apply(); });
    form.addEventListener("submit", (event) => event.preventDefault());
    for (const [key, value] of new URLSearchParams(location.hash.slice(1)))
      if (form.elements[key]) form.elements[key].value = value;
    if (listed) site.runs.forEach((run) => { run.text = Object.values(run).flat().join(" ").toLowerCase(); });
    apply();
  }

  // A link to a folded part opens it.
  function unfold() {
    const part = document.getElementById(location.hash.slice(1));
    part?.querySelectorAll(":scope > details").forEach((fold) => { fold.open = true; });
  }
  window.addEventListener("hashchange", unfold);
  unfold();

  // Curves: drawn when they come into view, on white in the colours of the printed figures; a style turns both dark.
  const INK = "#1b1f24";
  function traces(chart) {
    const made = [];
    for (const one of chart.traces) {
      const band = one.std?.some((value) => value);
      if (band) {
        const edge = (sign) => one.mean.map((value, at) => value === null ? null : value + sign * (one.std[at] ?? 0));
        made.push({
          x: [...one.x, ...[...one.x].reverse()], y: [...edge(1), ...edge(-1).reverse()],
          fill: "toself", fillcolor: one.colour + "26", line: { width: 0 }, mode: "lines", hoverinfo: "skip", series: one.name,
          legendgroup: one.name, showlegend: false,
        });
      }
      const step = Math.max(1, Math.ceil(one.x.length / 10));
      made.push({
        x: one.x, y: one.mean, name: one.name, mode: "lines+markers", legendgroup: one.name, connectgaps: true,
        line: { color: one.colour, dash: one.dash, width: 2 },
        marker: { symbol: one.symbol, color: one.colour, size: one.x.map((_, at) => (at % step ? 0.01 : 7)) },
        customdata: one.x.map((_, at) => one.n ? `± ${one.std[at] ?? "–"} (n = ${one.n[at]})` : ""),
        hovertemplate: "round %{x}: %{y} %{customdata}<extra>%{fullData.name}</extra>",
      });
    }
    return made;
  }

  function draw(place) {
    const chart = site.charts[place.dataset.chart][Number(place.dataset.index)];
    const axis = { gridcolor: "#e4e8ec", zerolinecolor: "#c8ced4", linecolor: "#8a939d", automargin: true };
    const notes = place.dataset.watermark
      ? [{ text: place.dataset.watermark, x: 0.5, y: 0.5, xref: "paper", yref: "paper", showarrow: false, textangle: -14, opacity: 0.16, font: { size: 22, color: "#9a3412" } }]
      : [];
    const several = site.series?.[place.dataset.chart] === undefined && chart.traces.length > 1;
    Plotly.newPlot(place, traces(chart), {
      title: { text: "", font: { size: 14 } }, annotations: notes,
      font: { family: "system-ui, sans-serif", size: 13, color: INK }, paper_bgcolor: "#fff", plot_bgcolor: "#fff",
      margin: { l: 56, r: 12, t: 12, b: 44 }, showlegend: several, legend: { orientation: "h", y: 1.12 },
      xaxis: { ...axis, ...(Math.max(...chart.traces.flatMap((one) => one.x)) <= 10 ? { dtick: 1 } : {}), title: { text: chart.x || "communication round" } }, yaxis: { ...axis, title: { text: chart.y } },
      hovermode: "closest",
    }, { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d"] });
    place.dataset.drawn = "";
    document.querySelectorAll(`.series button[data-of="${place.dataset.chart}"][aria-pressed=false]`).forEach((button) => show(place, button.dataset.series, false));
  }
  function show(place, name, visible) {
    const own = place.data.map((trace, at) => (trace.legendgroup === name ? at : -1)).filter((at) => at >= 0);
    if (own.length) Plotly.restyle(place, { visible }, own);
  }

  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries)
      if (entry.isIntersecting) { seen.unobserve(entry.target); draw(entry.target); }
  }, { rootMargin: "400px" });
  document.querySelectorAll("[data-chart]").forEach((place) => seen.observe(place));

  document.querySelectorAll(".series button").forEach((button) => {
    button.addEventListener("click", () => {
      const shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(shown));
      for (const place of document.querySelectorAll(`[data-chart="${button.dataset.of}"][data-drawn]`))
        show(place, button.dataset.series, shown);
    });
  });
})();
