"use strict";
// All numbers were made in Python; here they are only drawn. Nothing is fetched.

const report = JSON.parse(document.getElementById("data").textContent);
// No grey among them: that is for what is unknown.
const PALETTE = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#B8A900", "#7B3F98"];
const OTHERS = "#8c564b";
const RISING = [[92, 1, 166], [156, 23, 158], [204, 71, 120], [237, 121, 83], [253, 180, 47]]; // of ordered levels
const BARS = 20, MATCHES = 20, NAME = 28, LABELS = 2 * PALETTE.length, BAR_HEIGHT = 16, NARROW = "(max-width: 600px)";
// Plotly would offer to upload pictures to its servers: a report stays where it is.
const BUTTONS = {
  responsive: true, displaylogo: false, displayModeBar: "hover", showSendToCloud: false, plotlyServerURL: "",
  modeBarButtonsToRemove: ["toImage", "sendChartToCloud", "sendDataToCloud", "select2d", "lasso2d"],
};
const byId = (id) => document.getElementById(id);
const drawn = new Map(); // plot id -> how to draw it again, in another theme

function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}
// What plotly would take for marks or, between dollars, for mathematics.
const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/\$/g, "&#36;");
const short = (text, longest = NAME) => plain(text.length > longest ? text.slice(0, longest - 1) + "…" : text);
const number = (x) => (Math.abs(x) >= 100 ? x.toFixed(0) : x.toPrecision(3));

function theme() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(name).trim();
  return {
    ink: get("--ink"), line: get("--line"), soft: get("--soft"), paper: get("--paper"), unknown: get("--unknown"),
    dark: document.documentElement.dataset.theme === "dark", narrow: matchMedia(NARROW).matches,
  };
}

function draw(id, make) {
  drawn.set(id, make);
  const look = theme(), { traces, layout, words } = make(look), div = byId(id);
  const axis = { gridcolor: look.line, zerolinecolor: look.soft, linecolor: look.line, automargin: true };
  const whole = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: look.ink, family: "system-ui, sans-serif" },
    margin: { l: 50, r: 10, t: 34, b: 50 }, hoverlabel: { namelength: -1 }, legend: legend(look),
    modebar: { bgcolor: "rgba(0,0,0,0)", color: look.soft, activecolor: look.ink }, ...layout, // it stands in the margin above
  };
  ["xaxis", "yaxis", ...Object.keys(layout)].filter((key) => /^[xy]axis/.test(key)).forEach((key) => {
    whole[key] = { ...axis, ...(layout[key] || {}) };
  });
  div.setAttribute("role", "img");
  div.setAttribute("aria-label", words);
  return Plotly.react(div, traces, whole, BUTTONS);
}

// On phones legends and colour bars are below.
const legend = (look) => (look.narrow ? { orientation: "h", y: -0.2, yanchor: "top" } : { orientation: "h", y: 1.02, yanchor: "bottom" });
const colourBar = (look, title, more = {}) => ({
  thickness: 12, ...(look.narrow ? { orientation: "h", y: -0.25, yanchor: "top", title: { text: title, side: "bottom" } } : { title: { text: title, side: "right" } }), ...more,
});

const SCALES = { light: ["#f7fbff", "#6baed6", "#08306b"], dark: ["#1b212a", "#2f6fa3", "#d6ecff"] };

function scale(look) {
  return SCALES[look.dark ? "dark" : "light"].map((colour, i) => [i / 2, colour]);
}

// The root of the value is what the colours follow, so that weak factors are seen beside strong ones.
function powerScale(look) {
  const stops = SCALES[look.dark ? "dark" : "light"].map((hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)));
  return Array.from({ length: 11 }, (_, i) => {
    const at = (i / 10) * 2, k = Math.min(Math.floor(at), 1);
    const mixed = stops[k].map((c, j) => Math.round(c + (at - k) * (stops[k + 1][j] - c)));
    return [(i / 10) ** 2, `rgb(${mixed.join(",")})`];
  });
}

function bars(names, values, stds, title, marked) {
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
      yaxis: { tickvals: names.map((_, i) => i), ticktext: names.map((n) => short(n, look.narrow ? 16 : NAME)), autorange: "reversed", showgrid: false, zeroline: false, tickfont: { size: 11 } },
      shapes: marked === undefined ? [] : [{ type: "line", x0: marked, x1: marked, y0: 0, y1: 1, yref: "paper", line: { color: look.ink, width: 1.5, dash: "dot" } }],
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

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function button(text, act) {
  const made = element("button", text);
  made.type = "button";
  made.addEventListener("click", act);
  return made;
}

// --------------------------------------------------------------------------------------------------- downloads

function download(name, address) {
  const link = element("a");
  link.href = address;
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
}

function saveCsv(name, heads, rows) {
  const cell = (value) => (/[",\n\r]/.test(String(value)) ? `"${String(value).replace(/"/g, '""')}"` : String(value));
  const text = [heads, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
  const address = URL.createObjectURL(new Blob(["\ufeff", text], { type: "text/csv" }));
  download(`${name}.csv`, address);
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

async function savePng(name, id) {
  const div = byId(id), look = theme(), layout = { ...div.layout, paper_bgcolor: look.paper, plot_bgcolor: look.paper };
  const size = { width: div.clientWidth, height: div.clientHeight };
  download(`${name}.png`, await Plotly.toImage({ data: div.data, layout }, { format: "png", scale: 2, ...size }));
}

// Buttons under a picture; `table` gives [heads, rows].
function tools(id, name, table) {
  const line = element("p", undefined, "tools");
  line.append(button("PNG", () => savePng(name, id)));
  if (table) line.append(button("CSV", () => saveCsv(name, ...table())));
  byId(id).after(line);
}

// ------------------------------------------------------------------------------------------------------ searching

// A list of what is found under a search box; `pick` is called with a place, or with null.
function finder(box, list, names, caption, pick) {
  const lower = names.map((name) => name.toLowerCase());
  const find = (text) => {
    const exact = [], begins = [], inside = [];
    lower.forEach((name, i) => {
      if (name === text) exact.push(i);
      else if (name.startsWith(text)) begins.push(i);
      else if (name.includes(text)) inside.push(i);
    });
    return [...exact, ...begins, ...inside];
  };
  box.addEventListener("input", () => {
    const text = box.value.trim().toLowerCase(), found = text ? find(text) : [];
    list.replaceChildren(...found.slice(0, MATCHES).map((place) => {
      const item = element("li");
      item.append(button(caption(place), () => pick(place, text)));
      return item;
    }));
    if (found.length > MATCHES) list.append(element("li", `and ${(found.length - MATCHES).toLocaleString("en")} more`));
    pick(found.length ? found[0] : null, text);
  });
}
