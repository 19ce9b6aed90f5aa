// -------------------------------------------------------------------------------------- rows on factors, and cards

const CARDS = 8; // shown at first

function showCards() {
  const grid = byId("cards-grid"), cards = report.cards;
  const listed = (title, items) => {
    const part = element("div");
    part.append(element("h4", title));
    const list = element("ul");
    items.forEach((text) => list.append(element("li", text)));
    part.append(list);
    return part;
  };
  cards.forEach((card, k) => {
    const box = element("article", undefined, "card");
    box.append(element("h3", card.name));
    box.append(element("p", card.explains.length ? `explains ${card.explains.map(([view, share]) => `${share} of ${view}`).join(", ")}` : "explains less than 1 % of any view"));
    if (card.features.length) box.append(listed("Largest weights", card.features.map(([feature, view, weight]) => `${feature} (${view}) ${weight}`)));
    if (card.associations.length) box.append(listed("Associated with", card.associations.map(([name, words]) => `${name}: ${words}`)));
    box.append(button("Show below", () => {
      choose(k, card.explains.length ? card.explains[0][0] : report.weights.views[0].view);
      byId("factors").scrollIntoView();
    }));
    box.hidden = k >= CARDS;
    grid.append(box);
  });
  byId("cards").querySelector(".words").textContent = "What each factor explains, its largest weights, and the columns it is associated with: " +
    "rank correlations r of numbers, AUCs of labels, with 95 % intervals (not corrected for multiple comparisons). Signs of factors are arbitrary.";
  if (cards.length > CARDS) {
    const more = button(`Show all ${cards.length} factors`, () => {
      grid.querySelectorAll("[hidden]").forEach((box) => { box.hidden = false; });
      more.remove();
    });
    grid.after(more);
  }
}

function showFactors() {
  const part = report.factors, names = part.names, n = part.rows.length, values = unpacked(part.values), several = names.length > 1;
  const factor = (k) => values.subarray(k * n, (k + 1) * n);
  let found = null; // the row that was searched
  say("factors");
  choices(byId("factor-x"), names, 0);
  choices(byId("factor-y"), several ? names : ["moved apart"], several ? 1 : 0);
  byId("factor-y").parentElement.hidden = !several;
  choices(byId("factor-colour"), ["nothing", ...part.colours.map((c) => c.name), ...names]);
  if (part.colours.length) byId("factor-colour").value = "1"; // the surest association
  const chosen = () => ["factor-x", "factor-y", "factor-colour"].map((id) => Number(byId(id).value));
  const update = () => {
    const [x, y, c] = chosen();
    draw("factors-plot", (look) => scatter(look, { part, factor, x, y, c, found }));
  };
  ["factor-x", "factor-y", "factor-colour"].forEach((id) => byId(id).addEventListener("change", update));
  finder(byId("row-search"), byId("row-matches"), part.rows, (place) => part.rows[place], (place, text) => {
    found = place;
    const [x, y] = chosen();
    const at = (k) => `${names[k]} ${number(factor(k)[place])}`;
    byId("row-words").textContent = place === null ? (text ? `No row is called ${byId("row-search").value.trim()}.` : "")
      : `${part.rows[place]}: ${[...new Set(several ? [x, y] : [x])].map(at).join(", ")}.`;
    update();
  });
  update();
  tools("factors-plot", "factors", () => {
    const colour = part.colours[chosen()[2] - 1];
    const heads = ["row", ...names, ...(colour ? [colour.name] : [])];
    return [heads, part.rows.map((row, i) => [row, ...names.map((_, k) => factor(k)[i]), ...(colour ? [(colour.labels || colour.values)[i] ?? ""] : [])])];
  });
}

function scatter(look, { part, factor, x, y, c, found }) {
  const several = part.names.length > 1, rows = part.rows.map(plain), size = rows.length > 1500 ? 4 : 7;
  const all = rows.map((_, i) => i), colour = part.colours[c - 1], k = c - 1 - part.colours.length;
  const xs = factor(x), lanes = several ? null : strip(xs, colour && colour.labels, colour && colour.levels), ys = several ? factor(y) : lanes.places;
  const base = (places) => ({
    type: "scatter", mode: "markers", x: places.map((i) => xs[i]), y: places.map((i) => ys[i]), text: places.map((i) => rows[i]),
  });
  const title = c === 0 ? "" : colour ? colour.name : part.names[k];
  let traces;
  if (colour && colour.labels) traces = labelled(look, base, all, colour.labels, size, colour.levels);
  else {
    const values = c === 0 ? null : colour ? colour.values : Array.from(factor(k));
    const seen = values ? all.filter((i) => values[i] !== null) : all, unseen = values ? all.filter((i) => values[i] === null) : [];
    const marker = values
      ? { size, color: seen.map((i) => values[i]), colorscale: "Viridis", colorbar: colourBar(look, short(title)) }
      : { size, color: PALETTE[0], opacity: 0.75 };
    traces = unseen.length ? [unknown(look, base(unseen), size)] : []; // below the others
    traces.push({ ...base(seen), marker, showlegend: false, hovertemplate: "%{text}<extra></extra>" });
  }
  if (found !== null) traces.push({ ...base([found]), showlegend: false, hovertemplate: "%{text}<extra></extra>", marker: { size: 16, color: "rgba(0,0,0,0)", line: { color: look.ink, width: 2.5 } } });
  const named = (i) => ({ x: xs[i], y: ys[i], text: short(part.rows[i]), showarrow: false, yshift: 22, bgcolor: look.paper, bordercolor: look.line, borderpad: 2 });
  const across = part.names[x], up = several ? part.names[y] : "rows";
  const yaxis = several ? { title: { text: up } } : { title: { text: lanes.names.length ? "" : up }, tickvals: lanes.names.map((_, i) => i), ticktext: lanes.names.map((name) => short(name, look.narrow ? 12 : NAME)), zeroline: false, range: [-0.6, Math.max(lanes.names.length, 1) - 0.4] };
  return {
    words: `Rows on ${across}${several ? ` and ${up}` : ""}` + (title ? `, coloured by ${title}.` : "."), traces,
    layout: { xaxis: { title: { text: across } }, yaxis, annotations: found === null ? [] : [named(found)], hovermode: "closest", legend: { ...legend(look), title: { text: short(title) } } },
  };
}

// One factor alone: points in a lane for each label, moved up and down by the golden ratio so that none lies on another.
function strip(xs, labels, levels) {
  const present = labels ? [...new Set(labels.filter((label) => label !== null))] : [];
  const names = levels ? levels.filter((label) => present.includes(label)) : present.sort();
  if (labels && labels.includes(null)) names.push("unknown");
  const order = Array.from(xs, (_, i) => i).sort((a, b) => xs[a] - xs[b]), places = new Array(xs.length);
  order.forEach((i, rank) => {
    const lane = labels ? names.indexOf(labels[i] === null ? "unknown" : labels[i]) : 0;
    places[i] = lane + 0.7 * (((rank * 0.6180339887) % 1) - 0.5);
  });
  return { names, places };
}

const unknown = (look, points, size) => ({ ...points, name: "unknown", marker: { size, color: look.unknown }, hovertemplate: "%{text}<extra>unknown</extra>" });

function rising(i, n) {
  const at = (n > 1 ? i / (n - 1) : 0) * (RISING.length - 1), k = Math.min(Math.floor(at), RISING.length - 2);
  return `rgb(${RISING[k].map((c, j) => Math.round(c + (at - k) * (RISING[k + 1][j] - c))).join(",")})`;
}

// `levels` are the labels in their order, where they have one: then colours rise with them. What is unknown is grey, and below.
function labelled(look, base, all, labels, size, levels) {
  const counts = new Map();
  labels.forEach((label) => counts.set(label, (counts.get(label) || 0) + 1));
  const known = [...counts.keys()].filter((label) => label !== null).sort((a, b) => counts.get(b) - counts.get(a));
  const named = levels ? levels.filter((label) => counts.has(label)) : (known.length > LABELS ? known.slice(0, LABELS - 1) : known).sort();
  const style = (i) => levels ? { color: rising(levels.indexOf(named[i]), levels.length) }
    : { color: PALETTE[i % PALETTE.length], symbol: i < PALETTE.length ? "circle" : "triangle-up" };
  const unseen = all.filter((i) => labels[i] === null), rest = all.filter((i) => labels[i] !== null && !named.includes(labels[i]));
  const traces = unseen.length ? [unknown(look, base(unseen), size)] : [];
  if (rest.length) traces.push({ ...base(rest), name: `${known.length - named.length} others`, marker: { size, color: OTHERS, symbol: "circle-open" }, hovertemplate: "%{text}<extra></extra>" });
  named.forEach((label, i) => traces.push({
    ...base(all.filter((j) => labels[j] === label)), name: short(label), showlegend: true,
    marker: { size, ...style(i) },
    hovertemplate: `%{text}<extra>${short(label)}</extra>`,
  }));
  return traces;
}
