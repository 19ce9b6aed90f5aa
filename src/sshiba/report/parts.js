// ------------------------------------------------------------------------------------------------------- parts

function say(part) {
  byId(part).querySelector(".words").textContent = report[part].words.replaceAll(" %", "\u00a0%"); // a number keeps its unit
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
      colorbar: colourBar(look, "observed", { tickvals: [0, 0.5, 1], ticktext: ["0 %", "50 %", "100 %"], ...(look.narrow ? { y: -0.5 } : {}) }),
      text: part.shares.map((row) => row.map((share) => (100 * share).toFixed(0))), hovertemplate: "%{text} % of the row is observed<extra></extra>",
    }],
    layout: {
      xaxis: { title: { text: "rows, the complete ones first" }, showticklabels: false, ticks: "", zeroline: false },
      yaxis: { tickvals: part.views.map((_, i) => i), ticktext: part.views.map((v) => short(v, look.narrow ? 14 : NAME)), autorange: "reversed", showgrid: false, zeroline: false },
    },
  }));
  tools("overview-plot", "observed");
}

// Factors x columns, with the scale that shows weak ones; `values` are shown as `%{z...}` says.
function factorHeat(id, words, values, columns, ticks, title, hover) {
  const names = report.factors.names, places = columns.map((_, i) => i);
  byId(id).style.height = `${Math.max(340, 130 + 16 * names.length)}px`;
  byId(id).hidden = !names.length;
  if (names.length) draw(id, (look) => ({
    words,
    traces: [{
      type: "heatmap", z: values, x: places, y: names, zmin: 0, zmax: Math.max(1, ...values.map((row) => Math.max(...row))), colorscale: powerScale(look),
      customdata: values.map(() => columns.map(plain)), xgap: 2, ygap: names.length > 60 ? 0 : 2,
      colorbar: colourBar(look, title), hovertemplate: hover,
    }],
    layout: {
      xaxis: { tickvals: places, ticktext: ticks(look), showgrid: false, zeroline: false },
      yaxis: { autorange: "reversed", showgrid: false, zeroline: false, dtick: Math.max(1, Math.ceil(names.length / 20)) },
    },
  }));
}

function showVariance() {
  const part = report.variance, names = report.factors.names, percent = part.shares.map((row) => row.map((x) => 100 * x));
  say("variance");
  const ticks = (look) => part.views.map((v, i) => `${short(v, look.narrow ? 10 : NAME)}<br>all: ${(100 * part.all[i]).toFixed(0)} %`);
  factorHeat("variance-plot", part.words, percent, part.views, ticks, "% of variance", "%{y}, %{customdata}: %{z:.1f} %<extra></extra>");
  const rows = percent.map((row, k) => [names[k], ...row.map((x) => x.toFixed(1) + " %")]);
  rows.push(["all", ...part.all.map((x) => (100 * x).toFixed(1) + " %")]);
  fill(byId("variance-table"), ["factor", ...part.views], rows, (i) => i > 0);
  if (!names.length) return;
  tools("variance-plot", "variance-explained", () => [["factor", ...part.views], [...part.shares.map((row, k) => [names[k], ...row]), ["all", ...part.all]]]);
  byId("variance-plot").on("plotly_click", (event) => {
    const [factor, view] = event.points[0].pointIndex;
    choose(factor, part.views[view]);
  });
}

// What is shown below: a factor, and a view where it has weights.
function choose(factor, view) {
  const place = report.weights.views.findIndex((v) => v.view === view);
  const set = (id, value) => {
    byId(id).value = String(value);
    byId(id).dispatchEvent(new Event("change"));
  };
  if (place >= 0) set("weights-view", place);
  set("weights-factor", factor);
  set("factor-x", factor);
  if (report.factors.names.length > 1 && byId("factor-y").value === String(factor)) set("factor-y", factor ? 0 : 1);
  byId("chosen").textContent = `Below, factors and weights show ${report.factors.names[factor]}${place >= 0 ? ` in ${view}` : ""}.`;
}

function showGroups() {
  const part = report.groups, names = report.factors.names;
  if (!part) return;
  byId("groups").hidden = false;
  say("groups");
  const ticks = (look) => part.names.map((name) => short(name, look.narrow ? 10 : NAME));
  factorHeat("groups-plot", part.words, part.activity, part.names, ticks, "variance of the factor", "%{y}, %{customdata}: %{z:.2f}<extra></extra>");
  const rows = part.shares.map((row, k) => [names[k], ...row.map((x) => (100 * x).toFixed(1) + " %")]);
  byId("groups").querySelector("details").hidden = !part.columns.length; // the fit was ended before it was known
  fill(byId("groups").querySelector("table"), ["factor", ...part.columns], rows, (i) => i > 0);
  if (names.length) tools("groups-plot", "activity", () => [["factor", ...part.names], part.activity.map((row, k) => [names[k], ...row])]);
}

// Only views whose features were selected have a relevance that was learned.
function showRelevance() {
  if (!report.relevance.length) {
    byId("relevance").hidden = true;
    return;
  }
  choices(byId("relevance-view"), report.relevance.map((v) => v.view));
  const chosen = () => report.relevance[Number(byId("relevance-view").value)];
  const update = () => {
    const view = chosen();
    byId("relevance").querySelector(".words").textContent = view.words;
    byId("relevance-plot").style.height = `${90 + BAR_HEIGHT * view.features.length}px`;
    draw("relevance-plot", bars(view.features, view.values, null, "relevance", 1));
  };
  byId("relevance-view").addEventListener("change", update);
  update();
  tools("relevance-plot", "relevance", () => [["feature", "relevance"], chosen().features.map((f, i) => [f, chosen().values[i]])]);
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
  byId("check-plot").hidden = !part.rows;
  if (!part.rows) return; // none was made
  const grouped = (cell, i) => (i > 1 && /^\d{4,}$/.test(cell) ? Number(cell).toLocaleString("en") : cell); // 67,732
  fill(byId("check").querySelector("table"), part.columns, part.rows.map((row) => row.map(grouped)), (i) => i > 1);
  const views = part.calibration.filter((one) => one.points.length);
  draw("check-plot", (look) => {
    const across = look.narrow ? 2 : 4, down = Math.ceil(views.length / across); // squares, also where there are few
    const side = look.narrow ? 145 : 190, gap = 75, inner = side * down + gap * (down - 1); // pixels; titles stand in the gaps
    byId("check-plot").style.height = `${85 + inner}px`;
    const traces = [], layout = { showlegend: false, annotations: [], margin: { l: 45, r: 10, t: 40, b: 45 } };
    views.forEach((one, i) => {
      const name = i ? String(i + 1) : "", column = i % across, row = Math.floor(i / across), wide = (1 - 0.06 * (across - 1)) / across;
      const axes = { xaxis: `x${name}`, yaxis: `y${name}` }, x = one.points.map((p) => p[0]), colour = PALETTE[0];
      const box = [column * (wide + 0.06), column * (wide + 0.06) + wide];
      const top = Math.max(1 - (row * (side + gap)) / inner, 0), bottom = Math.max(top - side / inner, 0);
      layout[`xaxis${name}`] = { domain: box, anchor: `y${name}`, range: [0, 1], constrain: "domain", constraintoward: "left", tickvals: [0, 0.5, 1], title: { text: one.line ? "level of intervals" : "probability", font: { size: 11 } } };
      layout[`yaxis${name}`] = { domain: [bottom, top], anchor: `x${name}`, range: [0, 1], scaleanchor: `x${name}`, constrain: "domain", constraintoward: "top", tickvals: [0, 0.5, 1], title: { text: column ? "" : "observed", font: { size: 11 } } };
      layout.annotations.push({ text: short(one.view, 18), x: (box[0] + box[1]) / 2, y: top, xref: "paper", yref: "paper", yanchor: "bottom", showarrow: false, font: { size: 12 } });
      traces.push({ type: "scatter", mode: "lines", x: [0, 1], y: [0, 1], line: { color: look.soft, width: 1, dash: "dot" }, hoverinfo: "skip", ...axes });
      const hover = "predicted %{customdata[0]} %, observed %{customdata[1]} %<extra></extra>", y = one.points.map((p) => p[1]);
      const customdata = one.points.map((p) => [(100 * p[0]).toFixed(0), (100 * p[1]).toFixed(0)]);
      if (one.line) {
        traces.push({ type: "scatter", mode: "lines", x: [...x, ...x.slice().reverse()], y: [...one.points.map((p) => p[2]), ...one.points.map((p) => p[3]).reverse()], fill: "toself", fillcolor: "rgba(0,114,178,0.25)", line: { width: 0 }, hoverinfo: "skip", ...axes });
        traces.push({ type: "scatter", mode: "lines", x, y, name: plain(one.view), line: { color: colour }, customdata, hovertemplate: hover, ...axes });
      } else {
        const bar = { type: "data", symmetric: false, array: one.points.map((p) => p[3] - p[1]), arrayminus: one.points.map((p) => p[1] - p[2]), thickness: 1, width: 0 };
        traces.push({ type: "scatter", mode: "markers", x, y, name: plain(one.view), marker: { color: colour, size: 7 }, cliponaxis: false, error_y: bar, customdata, hovertemplate: hover, ...axes });
      }
    });
    return { words: "Predicted against observed on hidden cells, with 95 % intervals", traces, layout };
  });
  tools("check-plot", "held-out-check", () => [part.columns, part.rows]);
}

function showConvergence() {
  const part = report.convergence, ends = part.paths.map((p) => p[p.length - 1][1]), best = Math.max(...ends), first = part.best;
  const finest = Math.max(1e-6 * Math.abs(best), 1e-3), below = Math.max(...part.paths.flatMap((path) => path.map((p) => best - p[1])));
  const decades = below > 100 * finest ? { dtick: 1 } : {}; // powers of ten only, where there are several
  say("convergence");
  draw("convergence-plot", (look) => ({
    words: part.words,
    traces: part.paths.map((path, i) => ({
      type: "scatter", mode: "lines", x: path.map((p) => p[0]), y: path.map((p) => Math.max(best - p[1], 0) + finest),
      customdata: path.map((p) => p[1]), line: { color: i === first ? PALETTE[0] : look.soft, width: i === first ? 2.5 : 1 },
      name: `start ${i + 1}`, showlegend: false, hovertemplate: `start ${i + 1}, sweep %{x}: %{customdata:,.1f}<extra></extra>`,
    })),
    layout: { xaxis: { title: { text: "sweep" } }, yaxis: { type: "log", title: { text: "nats below the best bound" }, exponentformat: "power", ...decades } },
  }));
  tools("convergence-plot", "convergence");
  fill(byId("convergence").querySelector("table"), part.columns, part.restarts, (i) => part.columns[i] !== "converged");
}

function showProvenance() {
  say("provenance");
  fill(byId("provenance").querySelector("table"), ["setting", "value"], report.provenance.settings, () => false);
}
