"use strict";
// All numbers were made in Python; here they are only drawn. Nothing is fetched.

const report = JSON.parse(document.getElementById("data").textContent);
const PALETTE = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#B8A900", "#7f7f7f"];
const RISING = [[92, 1, 166], [156, 23, 158], [204, 71, 120], [237, 121, 83], [253, 180, 47]]; // of ordered levels
const BARS = 20, MATCHES = 20, NAME = 28, LABELS = 2 * PALETTE.length;
const byId = (id) => document.getElementById(id);
const drawn = new Map(); // plot id -> how to draw it again, in another theme

function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}
// What plotly would take for marks or, between dollars, for mathematics.
const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/\$/g, "&#36;");
const short = (text) => plain(text.length > NAME ? text.slice(0, NAME - 1) + "…" : text);
const number = (x) => (Math.abs(x) >= 100 ? x.toFixed(0) : x.toPrecision(3));

// ---------------------------------------------------------------------------------------------------- drawing

function theme() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(name).trim();
  return { ink: get("--ink"), line: get("--line"), soft: get("--soft"), dark: document.documentElement.dataset.theme === "dark" };
}

function draw(id, make) {
  drawn.set(id, make);
  const look = theme(), { traces, layout, words } = make(look), div = byId(id);
  const axis = { gridcolor: look.line, zerolinecolor: look.soft, linecolor: look.line, automargin: true };
  const whole = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: look.ink, family: "system-ui, sans-serif" },
    margin: { l: 50, r: 10, t: 20, b: 50 }, hoverlabel: { namelength: -1 }, ...layout,
    xaxis: { ...axis, ...(layout.xaxis || {}) }, yaxis: { ...axis, ...(layout.yaxis || {}) },
  };
  div.setAttribute("role", "img");
  div.setAttribute("aria-label", words);
  return Plotly.react(div, traces, whole, { responsive: true, displaylogo: false, displayModeBar: "hover" });
}

function scale(look) {
  return look.dark ? [[0, "#1b212a"], [0.5, "#2f6fa3"], [1, "#d6ecff"]] : [[0, "#f7fbff"], [0.5, "#6baed6"], [1, "#08306b"]];
}

function bars(names, values, stds, title) {
  return (look) => ({
    words: title,
    traces: [{
      type: "bar", orientation: "h", x: values, y: names.map((_, i) => i), hovertext: names.map(plain),
      hovertemplate: "%{hovertext}: %{x:.3g}<extra></extra>",
      error_x: stds && { type: "data", array: stds.map((s) => 2 * s), color: look.soft, thickness: 1 },
      marker: { color: values.map((v) => (v >= 0 ? PALETTE[0] : PALETTE[3])) },
    }],
    layout: {
      xaxis: { title: { text: title } },
      yaxis: { tickvals: names.map((_, i) => i), ticktext: names.map(short), autorange: "reversed", showgrid: false, zeroline: false },
    },
  });
}

// ----------------------------------------------------------------------------------------------------- tables

function fill(table, heads, rows, numeric) {
  const line = (cells, tag) => {
    const row = document.createElement("tr");
    cells.forEach((cell, i) => {
      const box = document.createElement(tag);
      box.textContent = cell;
      if (tag === "th") box.scope = "col";
      if (numeric(i)) box.className = "number";
      row.append(box);
    });
    return row;
  };
  const head = document.createElement("thead"), body = document.createElement("tbody");
  head.append(line(heads, "th"));
  rows.forEach((row) => body.append(line(row, "td")));
  table.replaceChildren(head, body);
}

function choices(select, names, chosen = 0) {
  names.forEach((name, i) => select.append(new Option(name, String(i), false, i === chosen)));
}

// ------------------------------------------------------------------------------------------------------- parts

function say(part) {
  byId(part).querySelector(".words").textContent = report[part].words;
}

function showViews() {
  say("views");
  fill(byId("views").querySelector("table"), ["view", "type", "size", "missing", "explained"], report.views.rows, (i) => i > 2);
}

function showOverview() {
  const part = report.overview;
  if (!part) return;
  byId("overview").hidden = false;
  say("overview");
  byId("overview-plot").style.height = `${Math.max(240, 110 + 24 * part.views.length)}px`;
  draw("overview-plot", (look) => ({
    words: part.words,
    traces: [{
      type: "heatmap", z: part.shares, y: part.views.map((_, i) => i), zmin: 0, zmax: 1, colorscale: scale(look),
      colorbar: { title: { text: "observed", side: "right" }, tickformat: ".0%", thickness: 12 },
      hovertemplate: "%{z:.0%} of the row is there<extra></extra>",
    }],
    layout: {
      xaxis: { title: { text: "rows, the complete ones first" }, showticklabels: false, zeroline: false },
      yaxis: { tickvals: part.views.map((_, i) => i), ticktext: part.views.map(short), autorange: "reversed", showgrid: false, zeroline: false },
    },
  }));
}

function showVariance() {
  const part = report.variance, names = report.factors.names, percent = part.shares.map((row) => row.map((x) => 100 * x));
  say("variance");
  byId("variance-plot").style.height = `${Math.max(340, 130 + 14 * percent.length)}px`;
  byId("variance-plot").hidden = !names.length;
  if (names.length) draw("variance-plot", (look) => ({
    words: part.words,
    traces: [{
      type: "heatmap", z: percent, x: part.views.map((_, i) => i), y: names, zmin: 0, zmax: Math.max(1, ...percent.map((row) => Math.max(...row))), colorscale: scale(look),
      customdata: percent.map(() => part.views.map(plain)), xgap: 2, ygap: percent.length > 60 ? 0 : 2,
      colorbar: { title: { text: "% of variance", side: "right" }, thickness: 12 },
      hovertemplate: "%{y}, %{customdata}: %{z:.1f} %<extra></extra>",
    }],
    layout: {
      xaxis: { tickvals: part.views.map((_, i) => i), ticktext: part.views.map((v, i) => `${short(v)}<br>all: ${(100 * part.all[i]).toFixed(0)} %`), showgrid: false, zeroline: false },
      yaxis: { autorange: "reversed", showgrid: false, zeroline: false, dtick: Math.max(1, Math.ceil(percent.length / 20)) },
    },
  }));
  const rows = percent.map((row, k) => [names[k], ...row.map((x) => x.toFixed(1) + " %")]);
  rows.push(["all", ...part.all.map((x) => (100 * x).toFixed(1) + " %")]);
  fill(byId("variance-table"), ["factor", ...part.views], rows, (i) => i > 0);
}

function showGroups() {
  const part = report.groups, names = report.factors.names;
  if (!part) return;
  byId("groups").hidden = false;
  say("groups");
  byId("groups-plot").style.height = `${Math.max(300, 120 + 14 * names.length)}px`;
  byId("groups-plot").hidden = !names.length;
  if (names.length) draw("groups-plot", (look) => ({
    words: part.words,
    traces: [{
      type: "heatmap", z: part.activity, x: part.names.map((_, i) => i), y: names, zmin: 0, colorscale: scale(look),
      customdata: names.map(() => part.names.map(plain)), xgap: 2, ygap: names.length > 60 ? 0 : 2,
      colorbar: { title: { text: "variance of the factor", side: "right" }, thickness: 12 },
      hovertemplate: "%{y}, %{customdata}: %{z:.2f}<extra></extra>",
    }],
    layout: {
      xaxis: { tickvals: part.names.map((_, i) => i), ticktext: part.names.map(short), showgrid: false, zeroline: false },
      yaxis: { autorange: "reversed", showgrid: false, zeroline: false, dtick: Math.max(1, Math.ceil(names.length / 20)) },
    },
  }));
  const rows = part.shares.map((row, k) => [names[k], ...row.map((x) => (100 * x).toFixed(1) + " %")]);
  fill(byId("groups").querySelector("table"), ["factor", ...part.columns], rows, (i) => i > 0);
}

function showFactors() {
  const part = report.factors, names = part.names, n = part.rows.length, values = unpacked(part.values);
  const factor = (k) => values.subarray(k * n, (k + 1) * n);
  say("factors");
  choices(byId("factor-x"), names, 0);
  choices(byId("factor-y"), names.length > 1 ? names : ["the rows in order"], Math.min(1, names.length - 1));
  choices(byId("factor-colour"), ["nothing", ...part.colours.map((c) => c.name), ...names]);
  if (part.colours.length) byId("factor-colour").value = "1";
  const update = () => {
    const [x, y, c] = ["factor-x", "factor-y", "factor-colour"].map((id) => Number(byId(id).value));
    const several = names.length > 1, up = several ? factor(y) : factor(0).map((_, i) => i);
    draw("factors-plot", (look) => scatter(look, factor(x), up, names[x], several ? names[y] : "row", c, part, factor));
  };
  ["factor-x", "factor-y", "factor-colour"].forEach((id) => byId(id).addEventListener("change", update));
  update();
}

function scatter(look, xs, ys, across, up, c, part, factor) {
  const rows = part.rows.map(plain), size = rows.length > 1500 ? 4 : 7;
  const base = (places) => ({
    type: "scatter", mode: "markers", x: places.map((i) => xs[i]), y: places.map((i) => ys[i]), text: places.map((i) => rows[i]),
  });
  const all = rows.map((_, i) => i), colour = part.colours[c - 1], k = c - 1 - part.colours.length;
  const title = c === 0 ? "" : colour ? colour.name : part.names[k];
  let traces;
  if (colour && colour.labels) traces = labelled(base, all, colour.labels, size, colour.levels);
  else {
    const values = c === 0 ? null : colour ? colour.values : Array.from(factor(k));
    const seen = values ? all.filter((i) => values[i] !== null) : all, unseen = values ? all.filter((i) => values[i] === null) : [];
    const marker = values
      ? { size, color: seen.map((i) => values[i]), colorscale: "Viridis", colorbar: { thickness: 12, title: { text: short(title), side: "right" } } }
      : { size, color: PALETTE[0], opacity: 0.75 };
    traces = [{ ...base(seen), marker, showlegend: false, hovertemplate: "%{text}<extra></extra>" }];
    if (unseen.length) traces.push({ ...base(unseen), marker: { size, color: look.line }, name: "unknown", hovertemplate: "%{text}<extra>unknown</extra>" });
  }
  return {
    words: `Rows on ${across} and ${up}` + (title ? `, coloured by ${title}.` : "."), traces,
    layout: { xaxis: { title: { text: across } }, yaxis: { title: { text: up } }, legend: { orientation: "h", y: 1.12 }, hovermode: "closest" },
  };
}

function rising(i, n) {
  const at = (n > 1 ? i / (n - 1) : 0) * (RISING.length - 1), k = Math.min(Math.floor(at), RISING.length - 2);
  return `rgb(${RISING[k].map((c, j) => Math.round(c + (at - k) * (RISING[k + 1][j] - c))).join(",")})`;
}

// `levels` are the labels in their order, where they have one: then colours rise with them.
function labelled(base, all, labels, size, levels) {
  const counts = new Map();
  labels.forEach((label) => counts.set(label, (counts.get(label) || 0) + 1));
  const known = [...counts.keys()].filter((label) => label !== null).sort((a, b) => counts.get(b) - counts.get(a));
  const named = levels ? levels.filter((label) => counts.has(label)) : (known.length > LABELS ? known.slice(0, LABELS - 1) : known).sort();
  const look = (i) => levels ? { color: rising(levels.indexOf(named[i]), levels.length) }
    : { color: PALETTE[i % PALETTE.length], symbol: i < PALETTE.length ? "circle" : "triangle-up" };
  const rest = all.filter((i) => !named.includes(labels[i]));
  const traces = rest.length
    ? [{ ...base(rest), name: known.length > named.length ? "others" : "unknown", marker: { size, color: "#9a9a9a", opacity: 0.5 }, hovertemplate: "%{text}<extra></extra>" }] : [];
  named.forEach((label, i) => traces.push({
    ...base(all.filter((j) => labels[j] === label)), name: short(label),
    marker: { size, ...look(i) },
    hovertemplate: `%{text}<extra>${short(label)}</extra>`,
  }));
  return traces;
}

function showWeights() {
  const names = report.factors.names, K = names.length;
  const views = report.weights.views.map((v) => ({ ...v, mean: unpacked(v.mean), std: unpacked(v.std) }));
  choices(byId("weights-view"), views.map((v) => v.view));
  choices(byId("weights-factor"), names);
  const update = () => {
    const view = views[Number(byId("weights-view").value)], k = Number(byId("weights-factor").value);
    const order = view.features.map((_, d) => d).sort((a, b) => Math.abs(view.mean[b * K + k]) - Math.abs(view.mean[a * K + k]));
    const top = order.slice(0, BARS), first = top[0];
    const title = "weight ± 2 std";
    if (Math.abs(view.mean[first * K + k]) < 1e-6) {
      byId("weights-words").textContent = `In ${view.view}, ${names[k]} has no weight.`;
      draw("weights-plot", bars(top.map((d) => view.features[d]), top.map(() => 0), top.map((d) => view.std[d * K + k]), title));
      return;
    }
    const sure = order.filter((d) => Math.abs(view.mean[d * K + k]) > 2 * view.std[d * K + k]).length;
    byId("weights-words").textContent = `In ${view.view}, ${names[k]} weighs most on ${view.features[first]} ` +
      `(${number(view.mean[first * K + k])}, give or take ${number(2 * view.std[first * K + k])}, two standard deviations); ` +
      `${sure.toLocaleString("en")} of ${view.features.length.toLocaleString("en")} weights are further than two standard deviations from 0.` +
      (view.left_out ? ` The ${view.left_out.toLocaleString("en")} features with the smallest weights are left out of this page.` : "");
    draw("weights-plot", bars(top.map((d) => view.features[d]), top.map((d) => view.mean[d * K + k]), top.map((d) => view.std[d * K + k]), title));
  };
  ["weights-view", "weights-factor"].forEach((id) => byId(id).addEventListener("change", update));
  update();
  search(views, names);
}

function search(views, names) {
  const K = names.length, box = byId("search"), list = byId("matches");
  const lower = views.map((v) => v.features.map((f) => f.toLowerCase()));
  const find = (text) => {
    const exact = [], begins = [], inside = [];
    lower.forEach((features, v) => features.forEach((name, d) => {
      if (name === text) exact.push([v, d]);
      else if (name.startsWith(text)) begins.push([v, d]);
      else if (name.includes(text)) inside.push([v, d]);
    }));
    return [...exact, ...begins, ...inside];
  };
  const show = (v, d) => {
    const view = views[v], name = view.features[d], plot = byId("feature-plot");
    const factors = Array.from({ length: K }, (_, k) => k), at = (part) => factors.map((k) => part[d * K + k]);
    const mean = at(view.mean), top = factors.reduce((a, b) => (Math.abs(mean[b]) > Math.abs(mean[a]) ? b : a));
    byId("feature-words").textContent = Math.abs(mean[top]) < 1e-6 ? `${name} (${view.view}) has no weight in any factor.`
      : `${name} (${view.view}) belongs most to ${names[top]}, with a weight of ${number(mean[top])}.`;
    plot.hidden = false;
    draw("feature-plot", (look) => ({
      words: `Weights of ${name} in all factors`,
      traces: [{
        type: "bar", x: names, y: mean, error_y: { type: "data", array: at(view.std).map((s) => 2 * s), color: look.soft, thickness: 1 },
        marker: { color: mean.map((w) => (w >= 0 ? PALETTE[0] : PALETTE[3])) }, hovertemplate: "%{x}: %{y:.3g}<extra></extra>",
      }],
      layout: { xaxis: { zeroline: false, dtick: Math.max(1, Math.ceil(K / 20)) }, yaxis: { title: { text: "weight ± 2 std" } } },
    }));
  };
  const update = () => {
    const text = box.value.trim().toLowerCase(), found = text ? find(text) : [];
    list.replaceChildren();
    found.slice(0, MATCHES).forEach(([v, d]) => {
      const item = document.createElement("li"), button = document.createElement("button");
      button.type = "button";
      button.textContent = `${views[v].features[d]} (${views[v].view})`;
      button.addEventListener("click", () => show(v, d));
      item.append(button);
      list.append(item);
    });
    if (found.length) show(...found[0]);
    else {
      byId("feature-words").textContent = text ? `No feature is called ${box.value.trim()}.` : "";
      byId("feature-plot").hidden = true;
    }
    if (found.length > MATCHES) {
      const item = document.createElement("li");
      item.textContent = `and ${(found.length - MATCHES).toLocaleString("en")} more`;
      list.append(item);
    }
  };
  box.addEventListener("input", update);
}

function showRelevance() {
  choices(byId("relevance-view"), report.relevance.map((v) => v.view));
  const update = () => {
    const view = report.relevance[Number(byId("relevance-view").value)];
    byId("relevance").querySelector(".words").textContent = view.words;
    draw("relevance-plot", bars(view.features, view.values, null, "relevance"));
  };
  byId("relevance-view").addEventListener("change", update);
  update();
}

function showEffects() {
  const part = report.effects;
  if (!part) return;
  byId("effects").hidden = false;
  say("effects");
  fill(byId("effects").querySelector("table"), part.columns, part.rows, (i) => i > 2);
}

function showCheck() {
  const part = report.check;
  if (!part) return;
  byId("check").hidden = false;
  say("check");
  fill(byId("check").querySelector("table"), part.columns, part.rows, (i) => i > 1);
  draw("check-plot", (look) => ({
    words: "Promised against happened on hidden cells",
    traces: [
      { type: "scatter", mode: "lines", x: [0, 1], y: [0, 1], line: { color: look.soft, width: 1, dash: "dot" }, name: "honest", hoverinfo: "skip" },
      ...part.calibration.map((one, i) => ({
        type: "scatter", mode: "lines+markers", x: one.points.map((p) => p[0]), y: one.points.map((p) => p[1]), name: short(one.view),
        line: { color: PALETTE[i % PALETTE.length] }, hovertemplate: "promised %{x:.0%}, happened %{y:.0%}<extra></extra>",
      })),
    ],
    layout: { xaxis: { title: { text: "promised" }, range: [0, 1] }, yaxis: { title: { text: "happened" }, range: [0, 1] }, legend: { orientation: "h", y: 1.15 } },
  }));
}

function showConvergence() {
  const part = report.convergence, ends = part.paths.map((p) => p[p.length - 1][1]), best = Math.max(...ends), first = part.best;
  const finest = Math.max(1e-6 * Math.abs(best), 1e-3);
  say("convergence");
  draw("convergence-plot", (look) => ({
    words: part.words,
    traces: part.paths.map((path, i) => ({
      type: "scatter", mode: "lines", x: path.map((p) => p[0]), y: path.map((p) => Math.max(best - p[1], 0) + finest),
      customdata: path.map((p) => p[1]), line: { color: i === first ? PALETTE[0] : look.soft, width: i === first ? 2.5 : 1 },
      name: `start ${i}`, showlegend: false, hovertemplate: `start ${i}, sweep %{x}: %{customdata:,.1f}<extra></extra>`,
    })),
    layout: { xaxis: { title: { text: "sweep" } }, yaxis: { type: "log", title: { text: "nats below the best bound" }, exponentformat: "power" } },
  }));
  fill(byId("convergence").querySelector("table"), part.columns, part.restarts, (i) => part.columns[i] !== "converged");
}

function showProvenance() {
  say("provenance");
  fill(byId("provenance").querySelector("table"), ["setting", "value"], report.provenance.settings, () => false);
}

// -------------------------------------------------------------------------------------------- contents, theme

function listParts() {
  document.querySelectorAll("main section:not([hidden])").forEach((section) => {
    const item = document.createElement("li"), link = document.createElement("a");
    link.href = `#${section.id}`;
    link.textContent = section.querySelector("h2").textContent;
    item.append(link);
    byId("contents").append(item);
  });
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  byId("theme").textContent = name === "dark" ? "Light" : "Dark";
  drawn.forEach((make, id) => { if (!byId(id).hidden) draw(id, make); });
}

function start() {
  const preferred = matchMedia("(prefers-color-scheme: dark)");
  setTheme(preferred.matches ? "dark" : "light");
  preferred.addEventListener("change", (event) => setTheme(event.matches ? "dark" : "light"));
  byId("theme").addEventListener("click", () => setTheme(theme().dark ? "light" : "dark"));
  let before = null; // paper is white
  addEventListener("beforeprint", () => { before = document.documentElement.dataset.theme; setTheme("light"); });
  addEventListener("afterprint", () => setTheme(before));
  [showViews, showOverview, showVariance, showGroups].forEach((show) => show());
  if (report.factors.names.length) [showFactors, showWeights, showRelevance].forEach((show) => show());
  else ["factors", "weights", "relevance"].forEach((id) => { byId(id).hidden = true; });
  [showEffects, showCheck, showConvergence, showProvenance].forEach((show) => show());
  listParts();
}

start();
