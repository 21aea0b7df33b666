"use strict";
// The page's program: tables that sort and search, charts, downloads. Texts of the table reach the page by textContent
// only; what a chart shows of them goes through plain().
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { columns, pairs, scatter, components } = data;
  const by = (id) => document.getElementById(id);
  const root = document.documentElement;
  const short = (name, longest = 40) => {
    const letters = Array.from(name.slice(0, 2 * longest + 2));
    return letters.length > longest ? letters.slice(0, longest - 1).join("") + "…" : letters.join("");
  };
  // Names of one table often differ at their ends only.
  const middle = (name, longest) => {
    const letters = Array.from(name.slice(0, 4 * longest).concat(name.slice(4 * longest).slice(-4 * longest)));
    const end = Math.floor((longest - 1) / 2);
    return letters.length <= longest ? letters.join("") : letters.slice(0, longest - 1 - end).join("") + "…" + letters.slice(-end).join("");
  };
  // The chart library reads some tags in labels: none is left.
  const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const shown = (value, digits = 3) => {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    const size = Math.abs(value), far = size >= 1e6 || (size > 0 && size < 1e-4);
    const text = far ? value.toExponential(digits - 1).replace("e+", "e") : String(Number(value.toPrecision(digits)));
    return text.replace(/^-/, "−");
  };

  // --- columns --------------------------------------------------------------------------------------
  const body = document.querySelector("#column-table tbody");
  const rows = Array.from(body.rows);
  const names = columns.name.map((name) => name.toLocaleLowerCase());
  const order = new Intl.Collator(undefined, { numeric: true });
  const keys = {
    name: (j) => columns.name[j],
    p: (j) => data.check.column_adjusted_p_values[j],
    median_shift: (j) => {
      const [a, b, sd] = [columns.median[j], columns.naive_median[j], columns.std[j]];
      return a === null || b === null || !sd ? null : (a - b) / sd;
    },
  };
  const value = (key, j) => (keys[key] ? keys[key](j) : columns[key][j]);
  const compare = (a, b) => {
    if (a === null || b === null) return a === b ? 0 : a === null ? Infinity : -Infinity; // none comes last, always
    return typeof a === "string" ? order.compare(a, b) : a - b;
  };
  const heads = Array.from(document.querySelectorAll("#column-table th[data-key]"));
  heads.forEach((head) => head.firstElementChild.addEventListener("click", () => {
    const key = head.dataset.key;
    const down = head.getAttribute("aria-sort") === "none" ? key !== "name" && key !== "p" : head.getAttribute("aria-sort") === "ascending";
    heads.forEach((other) => other.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const sorted = rows.map((row) => [value(key, +row.dataset.column), row]).sort((a, b) => {
      const apart = compare(a[0], b[0]);
      return Number.isFinite(apart) && down ? -apart : apart;
    });
    sorted.forEach(([, row], place) => row.classList.toggle("more", place >= 100));
    body.append(...sorted.map(([, row]) => row));
  }));
  const search = by("search");
  const look = () => {
    const wanted = search.value.trim().toLocaleLowerCase();
    let count = 0;
    rows.forEach((row) => {
      const here = names[+row.dataset.column].includes(wanted);
      row.classList.toggle("away", !here);
      row.classList.toggle("every", every || wanted !== "");
      count += here;
    });
    by("found").textContent = wanted === "" ? "" : `${count.toLocaleString("en")} of ${rows.length.toLocaleString("en")} columns`;
  };
  let every = false;
  search.addEventListener("input", look);
  if (by("show-all")) by("show-all").addEventListener("click", () => { every = true; look(); by("show-all").remove(); });

  // --- downloads ------------------------------------------------------------------------------------
  const save = (name, kind, text) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: kind }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  // A spreadsheet takes a text that starts with one of these for a formula.
  const cell = (item) => {
    if (item === null || item === undefined) return "";
    if (typeof item === "number") return String(item);
    const text = /^[=+\-@\t\r]/.test(item) ? "'" + item : item;
    return `"${text.replace(/"/g, '""')}"`;
  };
  const csv = (lines) => "\ufeff" + lines.map((line) => line.map(cell).join(",")).join("\r\n") + "\r\n";
  const columnLines = () => {
    const fields = Object.keys(columns);
    return csv([fields, ...columns.name.map((_, j) => fields.map((field) => columns[field][j]))]);
  };
  by("columns-csv").addEventListener("click", () => save("columns.csv", "text/csv", columnLines()));
  by("all-json").addEventListener("click", () => save("report.json", "application/json", by("data").textContent));

  // --- correlations ---------------------------------------------------------------------------------
  const numbers = (text) => {
    if (text === undefined) return null;
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return Array.from(new Int16Array(bytes.buffer), (step) => (step === 32767 ? null : step / 10000));
  };
  let lines = 0, triangle = {}, chosen = null;
  const cells = new Map(); // of the heat map: where a pair is
  if (pairs) {
    lines = pairs.lines;
    triangle = { latent: numbers(pairs.latent), naive: numbers(pairs.naive), stderr: numbers(pairs.stderr) };
    if (triangle.naive) triangle.difference = triangle.latent.map((r, k) => (r === null || triangle.naive[k] === null ? null : r - triangle.naive[k]));
  }
  const grouped = Boolean(pairs && pairs.first);
  const at = (i, j) => { // place in the triangles of the heat map's cell (i, j)
    if (i > j) [i, j] = [j, i];
    if (grouped) return i * lines - (i * (i - 1)) / 2 + j - i;
    return i === j ? -1 : i * lines - (i * (i + 1)) / 2 + j - i - 1;
  };
  const columnsAt = (i, j) => (grouped ? [pairs.first[at(i, j)], pairs.second[at(i, j)]] : [pairs.order[j], pairs.order[i]]);
  if (pairs && !grouped) pairs.order.forEach((column, place) => cells.set(column, place));
  const placeOf = (first, second) => {
    if (!grouped) return at(cells.get(first), cells.get(second));
    for (let k = 0; k < pairs.first.length; k++)
      if ((pairs.first[k] === first && pairs.second[k] === second) || (pairs.first[k] === second && pairs.second[k] === first)) return k;
    return -1;
  };
  const sentence = (first, second) => {
    const k = placeOf(first, second);
    const strongest = pairs.strongest.find((p) => (p.first === first && p.second === second) || (p.first === second && p.second === first));
    if (k < 0 && !strongest) return "This pair's numbers are not in the page: it has too many columns.";
    const of = (kind) => (k >= 0 ? triangle[kind] && triangle[kind][k] : strongest[kind]);
    const error = of("stderr") === null || of("stderr") === undefined ? "" : ` ± ${shown(of("stderr"), 2)}`;
    const naive = of("naive") === null || of("naive") === undefined ? "" : `, naive ${shown(of("naive"))}, difference ${shown(of("latent") - of("naive"), 2)}`;
    return `latent ${shown(of("latent"))}${error}${naive}`;
  };
  const latentOf = (first, second) => {
    const k = placeOf(first, second);
    if (k >= 0) return triangle.latent[k];
    const strongest = pairs.strongest.find((p) => (p.first === first && p.second === second) || (p.first === second && p.second === first));
    return strongest ? strongest.latent : null;
  };
  if (pairs) {
    const choices = columns.name.map((name, j) => [short(name), j]);
    [by("first"), by("second")].forEach((list) => choices.forEach(([name, j]) => list.add(new Option(name, j))));
    [by("first"), by("second")].forEach((list) => list.addEventListener("change", () => pick(+by("first").value, +by("second").value)));
    document.querySelectorAll(".pick").forEach((button) => button.addEventListener("click", () => {
      pick(+button.dataset.first, +button.dataset.second);
      by("pairs").scrollIntoView();
    }));
    by("which").addEventListener("change", () => drawHeat());
    by("pairs-csv").addEventListener("click", () => {
      const kinds = ["latent", "stderr", "naive"].filter((kind) => triangle[kind]);
      const found = [["first", "second", ...kinds]];
      for (let i = 0; i < lines; i++)
        for (let j = grouped ? i : i + 1; j < lines; j++) {
          const [a, b] = columnsAt(i, j);
          found.push([columns.name[a], columns.name[b], ...kinds.map((kind) => triangle[kind][at(i, j)])]);
        }
      save("correlations.csv", "text/csv", csv(found));
    });
  }
  const pick = (first, second) => {
    chosen = [first, second];
    [by("first").value, by("second").value] = [first, second];
    const title = document.createElement("strong"), words = document.createElement("span");
    const bdi = (name) => Object.assign(document.createElement("bdi"), { textContent: short(name, 60) });
    title.append(bdi(columns.name[first]), " and ", bdi(columns.name[second]));
    words.textContent = first === second ? "one column: choose two" : sentence(first, second);
    by("pair").replaceChildren(title, words);
    drawScatter();
  };

  // --- charts ---------------------------------------------------------------------------------------
  const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
  const settings = { displayModeBar: false, responsive: true, showTips: false };
  const axis = (more = {}) => ({ gridcolor: colour("line"), zerolinecolor: colour("line"), linecolor: colour("line"), automargin: true, ...more });
  const layout = (more) => ({
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin: { l: 8, r: 14, t: 14, b: 8 }, hovermode: "closest", dragmode: false,
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour("ink") }, showlegend: false, ...more,
  });
  const drawHeat = () => {
    const kind = document.querySelector("#which :checked").value;
    const from = triangle[kind];
    const own = kind === "difference" ? 0 : 1;
    const z = Array.from({ length: lines }, (_, i) => Array.from({ length: lines }, (_, j) => {
      const k = at(i, j);
      return k < 0 ? own : from[k];
    }));
    const labelled = lines <= 45 && !grouped;
    const labels = labelled ? pairs.order.map((j) => plain(middle(columns.name[j], 16))) : [];
    const ticks = labelled ? { tickvals: labels.map((_, i) => i), ticktext: labels, tickangle: -90, tickfont: { size: lines > 30 ? 9 : 11 } } : { showticklabels: false };
    const scale = [[0, "minus-end"], [0.25, "minus"], [0.5, "middle"], [0.75, "plus"], [1, "plus-end"]].map(([share, name]) => [share, colour(name)]);
    const trace = {
      type: "heatmap", z, zmin: -1, zmax: 1, colorscale: scale, hoverinfo: "none", xgap: lines <= 40 ? 1 : 0, ygap: lines <= 40 ? 1 : 0,
      colorbar: { orientation: "h", thickness: 8, outlinewidth: 0, tickvals: [-1, -0.5, 0, 0.5, 1], y: 1.0, yanchor: "bottom", len: 0.6, tickfont: { size: 11 } },
    };
    const still = { showgrid: false, zeroline: false, ticks: "", fixedrange: true };
    const heat = by("heat");
    Plotly.react(heat, [trace], layout({ margin: { l: 8, r: 8, t: 44, b: 8 }, xaxis: axis({ ...still, ...ticks }), yaxis: axis({ ...still, ...ticks, tickangle: 0, autorange: "reversed" }) }), settings);
    if (heat.dataset.ready) return;
    heat.dataset.ready = "yes";
    const tip = by("tip");
    heat.on("plotly_hover", (event) => {
      const { x, y } = event.points[0];
      const [first, second] = columnsAt(y, x);
      tip.textContent = x === y && !grouped ? short(columns.name[first]) : `${short(columns.name[first])}\n${short(columns.name[second])}\n${sentence(first, second)}`;
      tip.hidden = false;
      const box = heat.getBoundingClientRect();
      const [left, top] = [event.event.clientX - box.left, event.event.clientY - box.top];
      tip.style.left = `${Math.max(0, Math.min(left + 14, box.width - tip.offsetWidth - 4))}px`;
      tip.style.top = `${top + tip.offsetHeight + 24 > box.height ? top - tip.offsetHeight - 10 : top + 16}px`;
    });
    heat.on("plotly_unhover", () => { tip.hidden = true; });
    heat.on("plotly_click", (event) => {
      const { x, y } = event.points[0];
      if (x !== y || grouped) pick(...columnsAt(y, x));
    });
  };
  // Axes are in the table's units for a normal column; for others in standard deviations of what is normal, with ticks in
  // the table's units: place() leads from a value to the axis.
  const bent = (j) => Boolean(scatter.curve[j]);
  const place = (j, value) => {
    const curve = scatter.curve[j];
    if (!curve) return value;
    const step = 8 / (curve.length - 1);
    if (value <= curve[0]) return -4;
    for (let k = 1; k < curve.length; k++)
      if (curve[k] >= value && curve[k] > curve[k - 1]) return -4 + step * (k - 1 + (value - curve[k - 1]) / (curve[k] - curve[k - 1]));
    return 4;
  };
  const onAxis = (j, z) => (bent(j) ? z : scatter.mean[j] + scatter.std[j] * z);
  const ticksOf = (j) => {
    if (!bent(j)) return {};
    const at = [-3, -2, -1, 0, 1, 2, 3];
    return { tickvals: at, ticktext: at.map((z) => shown(scatter.curve[j][((z + 4) / 8) * (scatter.curve[j].length - 1)])) };
  };
  const ellipse = (first, second, r, radius) => {
    const turns = Array.from({ length: 121 }, (_, k) => (2 * Math.PI * k) / 120);
    const rest = Math.sqrt(Math.max(0, 1 - r * r));
    return {
      type: "scatter", mode: "lines", hoverinfo: "skip", line: { color: colour("blue"), width: 1.8 },
      x: turns.map((t) => onAxis(first, radius * Math.cos(t))), y: turns.map((t) => onAxis(second, radius * (r * Math.cos(t) + rest * Math.sin(t)))),
    };
  };
  const limitsOf = (j, across) => [columns.floor[j], columns.ceiling[j]].filter((limit) => limit !== null).map((limit) => place(j, limit)).map((limit) => ({
    type: "line", line: { color: colour("ink"), width: 1, dash: "dash" },
    ...(across ? { yref: "y", y0: limit, y1: limit, xref: "paper", x0: 0, x1: 1 } : { xref: "x", x0: limit, x1: limit, yref: "paper", y0: 0, y1: 1 }),
  }));
  const drawScatter = () => {
    if (!scatter || !chosen || !window.Plotly) return;
    const [first, second] = chosen;
    const groups = { seen: [[], [], []], cut: [[], [], []] };
    for (let i = 0; i < scatter.rows; i++) {
      const marks = scatter.marks[first][i] + scatter.marks[second][i];
      if (marks.includes("m")) continue;
      const group = marks === "ss" ? groups.seen : groups.cut;
      const [x, y] = [scatter.values[first][i], scatter.values[second][i]];
      group[0].push(place(first, x));
      group[1].push(place(second, y));
      group[2].push(`${shown(x, 4)}, ${shown(y, 4)}`);
    }
    const points = ([x, y, text], symbol) => ({ type: "scatter", mode: "markers", x, y, text, marker: { symbol, size: 6, color: colour("muted"), opacity: 0.7, line: { width: 1 } }, hoverinfo: "text" });
    const r = first === second ? null : latentOf(first, second);
    const curves = r === null ? [] : [ellipse(first, second, r, 1.1774), ellipse(first, second, r, 2.4477)];
    const named = (j) => ({ title: { text: plain(short(columns.name[j], 36)), font: { size: 12 }, standoff: 8 }, fixedrange: true, zeroline: false, ...ticksOf(j) });
    Plotly.react(by("scatter"), [points(groups.seen, "circle"), points(groups.cut, "circle-open"), ...curves],
      layout({ margin: { l: 12, r: 14, t: 14, b: 12 }, xaxis: axis(named(first)), yaxis: axis(named(second)), shapes: [...limitsOf(first, false), ...limitsOf(second, true)] }), settings);
  };
  const drawScree = () => {
    const x = components.shares.map((_, k) => k + 1);
    const percent = (share) => (share === null ? null : 100 * share);
    const traces = [{ type: "bar", name: "latent", x, y: components.shares.map(percent), marker: { color: colour("plus") }, hovertemplate: "latent %{y:.1f} %<extra></extra>" }];
    if (components.naive_shares) traces.push({ type: "scatter", mode: "lines+markers", name: "naive", x, y: components.naive_shares.map(percent), line: { color: colour("minus"), width: 1.6 }, marker: { size: 6 }, hovertemplate: "naive %{y:.1f} %<extra></extra>" });
    Plotly.react(by("scree"), traces, layout({
      margin: { l: 12, r: 14, t: 30, b: 12 }, showlegend: true, legend: { orientation: "h", x: 1, xanchor: "right", y: 1.02, yanchor: "bottom" }, bargap: 0.35,
      xaxis: axis({ title: { text: "factor" }, dtick: x.length > 8 ? 2 : 1, tick0: 1, fixedrange: true, showgrid: false }), yaxis: axis({ title: { text: "share of variance, %" }, fixedrange: true, rangemode: "tozero" }),
    }), settings);
  };
  const draw = () => {
    if (!window.Plotly) return;
    if (pairs) drawHeat();
    if (pairs) drawScatter();
    if (components) drawScree();
  };

  // --- light and dark, paper ------------------------------------------------------------------------
  const system = matchMedia("(prefers-color-scheme: dark)");
  const theme = by("theme");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const label = () => { theme.textContent = dark() ? "Light" : "Dark"; theme.setAttribute("aria-pressed", String(dark())); };
  theme.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; label(); draw(); });
  system.addEventListener("change", () => { label(); draw(); });
  // Paper is narrower than a screen: charts keep their size there, and the style scales them down.
  const charts = Array.from(document.querySelectorAll(".chart"));
  const fix = (chart) => { [chart.style.width, chart.style.height] = [`${chart.offsetWidth}px`, `${chart.offsetHeight}px`]; };
  const loosen = (chart) => { chart.style.width = chart.style.height = ""; };
  let before;
  addEventListener("beforeprint", () => { before = root.dataset.theme; root.dataset.theme = "light"; draw(); charts.forEach(fix); });
  addEventListener("afterprint", () => { charts.forEach(loosen); if (before) root.dataset.theme = before; else delete root.dataset.theme; draw(); });
  label();

  // --- the chart library, which is packed -------------------------------------------------------------
  const unpacked = async () => {
    const bytes = Uint8Array.from(atob(by("chart-library").textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
  };
  const start = async () => {
    if (!pairs && !components) return;
    try {
      await unpacked();
    } catch (error) {
      document.querySelectorAll(".chart").forEach((chart) => { chart.textContent = "Charts need a browser of 2023 or later."; });
      throw error;
    }
    draw();
    if (pairs && pairs.strongest.length) pick(pairs.strongest[0].first, pairs.strongest[0].second);
  };
  const drawn = () => { root.dataset.drawn = String(Math.round(performance.now())); };
  start().finally(() => requestAnimationFrame(() => requestAnimationFrame(drawn))); // when all has been painted
})();
