// -------------------------------------------------------------------------------------------- contents, theme

function listParts() {
  const links = new Map();
  document.querySelectorAll("main section:not([hidden])").forEach((section) => {
    const item = element("li"), link = element("a", section.querySelector("h2").textContent);
    link.href = `#${section.id}`;
    links.set(section, link);
    item.append(link);
    byId("contents").append(item);
  });
  const watcher = new IntersectionObserver((entries) => entries.forEach((entry) => {
    if (!entry.isIntersecting) return;
    links.forEach((link) => link.removeAttribute("aria-current"));
    links.get(entry.target).setAttribute("aria-current", "true");
  }), { rootMargin: "-15% 0px -75% 0px" });
  links.forEach((_, section) => watcher.observe(section));
}

function redraw() {
  drawn.forEach((make, id) => { if (!byId(id).hidden) draw(id, make); });
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  byId("theme").textContent = name === "dark" ? "Light" : "Dark";
  redraw();
}

function start() {
  const preferred = matchMedia("(prefers-color-scheme: dark)");
  setTheme(preferred.matches ? "dark" : "light");
  preferred.addEventListener("change", (event) => setTheme(event.matches ? "dark" : "light"));
  matchMedia(NARROW).addEventListener("change", redraw);
  byId("theme").addEventListener("click", () => setTheme(theme().dark ? "light" : "dark"));
  let before = null; // paper is white
  addEventListener("beforeprint", () => { before = document.documentElement.dataset.theme; setTheme("light"); });
  addEventListener("afterprint", () => setTheme(before));
  [showViews, showOverview, showVariance, showGroups].forEach((show) => show());
  if (report.factors.names.length) [showCards, showFactors, showWeights, showRelevance].forEach((show) => show());
  else ["cards", "factors", "weights", "relevance"].forEach((id) => { byId(id).hidden = true; });
  [showEffects, showCheck, showConvergence, showProvenance].forEach((show) => show());
  listParts();
}

start();
