// ------------------------------------------------------------------------------------------- weights of features

function showWeights() {
  const names = report.factors.names, K = names.length;
  const views = report.weights.views.map((v) => ({ ...v, mean: unpacked(v.mean), std: unpacked(v.std) }));
  choices(byId("weights-view"), views.map((v) => v.view));
  choices(byId("weights-factor"), names);
  const chosen = () => views[Number(byId("weights-view").value)];
  const update = () => {
    const view = chosen(), k = Number(byId("weights-factor").value);
    const order = view.features.map((_, d) => d).sort((a, b) => Math.abs(view.mean[b * K + k]) - Math.abs(view.mean[a * K + k]));
    const top = order.slice(0, BARS), first = top[0];
    const title = "weight ± 2 std";
    byId("weights-plot").style.height = `${90 + 20 * top.length}px`;
    if (Math.abs(view.mean[first * K + k]) < 1e-6) {
      byId("weights-words").textContent = `In ${view.view}, ${names[k]} has no weight.`;
      draw("weights-plot", bars(top.map((d) => view.features[d]), top.map(() => 0), top.map((d) => view.std[d * K + k]), title));
      return;
    }
    const sure = order.filter((d) => Math.abs(view.mean[d * K + k]) > 2 * view.std[d * K + k]).length;
    byId("weights-words").textContent = `In ${view.view}, ${names[k]} has its largest weight on ${view.features[first]} ` +
      `(${number(view.mean[first * K + k])} ± ${number(2 * view.std[first * K + k])}, two standard deviations); ` +
      `${sure.toLocaleString("en")} of ${view.features.length.toLocaleString("en")} weights are further than two standard deviations from 0.` +
      (view.left_out ? ` The ${view.left_out.toLocaleString("en")} features with the smallest weights are left out of this page.` : "");
    draw("weights-plot", bars(top.map((d) => view.features[d]), top.map((d) => view.mean[d * K + k]), top.map((d) => view.std[d * K + k]), title));
  };
  ["weights-view", "weights-factor"].forEach((id) => byId(id).addEventListener("change", update));
  update();
  tools("weights-plot", "weights", () => {
    const view = chosen();
    return [["feature", ...names], view.features.map((feature, d) => [feature, ...names.map((_, k) => view.mean[d * K + k])])];
  });
  searchFeatures(views, names);
}

function searchFeatures(views, names) {
  const K = names.length, every = views.flatMap((view) => view.features.map((_, d) => [view, d]));
  const show = ([view, d]) => {
    const name = view.features[d], plot = byId("feature-plot");
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
      layout: { xaxis: { dtick: Math.max(1, Math.ceil(K / 20)) }, yaxis: { title: { text: "weight ± 2 std" } } },
    }));
  };
  const caption = (place) => `${every[place][0].features[every[place][1]]} (${every[place][0].view})`;
  finder(byId("search"), byId("matches"), every.map(([view, d]) => view.features[d]), caption, (place, text) => {
    if (place !== null) show(every[place]);
    else {
      byId("feature-words").textContent = text ? `No feature is called ${byId("search").value.trim()}.` : "";
      byId("feature-plot").hidden = true;
    }
  });
}
