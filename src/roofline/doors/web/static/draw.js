// Pictures: converts data of the API to Plotly traces in the page's colours.
import { colour, css, palette } from "./colours.js";
import { form, given } from "./state.js";
import { make, seconds, separators, share, si, t, time, whole } from "./words.js";

let loading = null;
// Loads Plotly for the first picture that needs it, or when the page is idle.
export function plotly() {
  loading ??= new Promise((done, fail) => {
    const script = make("script", { src: document.documentElement.dataset.plotly });
    script.addEventListener("load", () => done(globalThis.Plotly));
    script.addEventListener("error", () => { loading = null; fail(new Error("plotly.js: not loaded")); });
    document.head.append(script);
  });
  return loading;
}

const titled = (axis) => (axis.title ? { ...axis, title: { standoff: 12, ...axis.title } } : axis);

export async function picture(node, traces, layout = {}) {
  const axis = { gridcolor: css("--line"), linecolor: css("--line"), zeroline: false, automargin: true };
  const full = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: css("--ink"), size: 12, family: "system-ui, sans-serif" },
    margin: { l: 56, r: 16, t: 12, b: 48 }, legend: { orientation: "h", y: 1.12, x: 0 }, colorway: palette(), hovermode: "closest", separators: separators(), ...layout,
    xaxis: titled({ ...axis, ...layout.xaxis }), yaxis: titled({ ...axis, ...layout.yaxis }),
  };
  await (await plotly()).react(node, traces, full, { displaylogo: false, responsive: true, displayModeBar: false });
  return node;
}

// Reuses a picture that is already shown, as updating it is much faster than drawing a new one.
export function frame(label, kind = "plot") {
  const shown = [...document.querySelectorAll(`#view .${kind}`)].find((node) => node.getAttribute("aria-label") === label);
  return shown ?? make("div", { class: kind, role: "img", "aria-label": label });
}

export async function roofline(node, plot, click) {
  const panel = plot.panels[0], roof = panel.roof, slope = roof.slopes[0];
  const xs = panel.points.map((p) => p.intensity), peak = Math.max(...roof.ceilings.map((c) => c.peak));
  const low = Math.min(1, ...xs) / 4, high = Math.max(...xs, ...roof.ceilings.map((c) => c.ridge)) * 6;
  const muted = css("--muted");
  const lines = roof.ceilings.map((c) => ({
    x: [low, c.peak / slope.bandwidth, high], y: [low * slope.bandwidth, c.peak, c.peak], mode: "lines", name: `${c.label} ${si(c.peak, "FLOP/s")}`,
    line: { width: 2, color: muted, dash: c.vector ? "dot" : "solid" }, hoverinfo: "name",
  }));
  await underRoof(node, lines, panel.points, "FLOP/s", [low, high], peak, click);
}

export async function energy(node, plot, click) {
  const panel = plot.panels[0], muted = css("--muted");
  const lines = panel.arches.map((a) => ({ x: a.intensity, y: a.work_per_joule, mode: "lines", name: `${a.label} ${si(a.most, "FLOP/J")}`, line: { width: 2, color: muted }, hoverinfo: "name" }));
  const { intensity } = panel.arches[0];
  await underRoof(node, lines, panel.points, "FLOP/J", [intensity[0], intensity.at(-1)], Math.max(...panel.arches.map((a) => a.most)), click);
}

// Points under the lines of a roof, by group; a click on one names its op.
async function underRoof(node, lines, points, unit, [low, high], peak, click) {
  const groups = [...new Set(points.map((p) => p.group))], named = spaced(points);
  const dots = groups.map((group) => {
    const of = points.filter((p) => p.group === group);
    return {
      x: of.map((p) => p.intensity), y: of.map((p) => p.performance), mode: "markers+text", name: group, text: of.map((p) => (named.has(p) ? p.label : "")), textposition: "bottom right",
      textfont: { size: 11 }, marker: { size: of.map((p) => 9 + 26 * Math.sqrt(p.share)), color: colour(group), opacity: 0.85, line: { width: 1, color: css("--card") } },
      customdata: of.map((p) => [si(p.intensity, "FLOP/B"), si(p.performance, unit), share(p.share), si(p.light, unit), p.label]),
      hovertemplate: "<b>%{customdata[4]}</b><br>%{customdata[0]}<br>%{customdata[1]} (≤ %{customdata[3]})<br>%{customdata[2]}<extra></extra>",
    };
  });
  const ticks = { type: "log", tickformat: "~s" };
  await picture(node, [...lines, ...dots], {
    xaxis: { ...ticks, title: { text: "FLOP/B" }, range: [Math.log10(low), Math.log10(high)] },
    yaxis: { ...ticks, title: { text: unit }, range: [Math.log10(Math.min(...points.map((p) => p.performance)) / 6), Math.log10(peak * 3)] },
  });
  node.removeAllListeners("plotly_click");
  node.on("plotly_click", (event) => event.points[0].customdata && click(event.points[0].customdata[4]));
}

// Points to label: of points close to each other, only the one with the longest time.
function spaced(points) {
  const named = new Set();
  const near = (p, q) => Math.abs(Math.log10(p.intensity / q.intensity)) < 0.35 && Math.abs(Math.log10(p.performance / q.performance)) < 0.18;
  for (const p of [...points].sort((a, b) => b.share - a.share)) if (![...named].some((q) => near(p, q))) named.add(p);
  return named;
}

const line = (given) => ({ type: "line", line: { color: css("--bad"), dash: "dash" }, ...given });
const slo = (text, given) => ({ text, showarrow: false, font: { size: 11, color: css("--bad") }, ...given });

// Seconds that an SLO limits, and their statistic `of`: the percentile of the attainment, rounded up to a known one; the
// mean if attainment is "mean", without a limit, and for pools.
export function promised(served, name, s) {
  const asked = given(s, "attainment") ?? form.settings.attainment.default, percentiles = served.percentiles;
  if (!seconds(s[name]) || !percentiles || !Number.isFinite(Number(asked))) return { ...served[name], of: "" };
  const of = ["p50", "p90", "p95", "p99"].find((q) => Number(q.slice(1)) >= 100 * asked - 1e-9) ?? "p99";
  return { expected: percentiles[name][of], low: percentiles.low[name][of], high: percentiles.high[name][of], of: ` ${of}` };
}

// Points that meet both SLOs are filled, the others open; `at`: indices of the points that fit.
export function front(node, served, s, at) {
  const [first, then] = ["ttft", "tpot"].map((name) => promised(served, name, s));
  const rows = at.map((i) => ({ n: served.in_flight[i], tpot: then.expected[i], low: then.low[i], high: then.high[i], ttft: first.expected[i], out: served.tokens_per_second_per_chip[i] }))
    .filter((r) => Number.isFinite(r.tpot) && Number.isFinite(r.out));
  const highest = Math.max(...rows.map((r) => r.out)), widest = Math.max(...rows.map((r) => r.tpot));
  let last = null;
  const roomy = (r) => { const room = !last || Math.abs(r.out - last.out) > 0.06 * highest || Math.abs(r.tpot - last.tpot) > 0.08 * widest; if (room) last = r; return room; };
  const tpot = seconds(s.tpot), ttft = seconds(s.ttft), limit = tpot * 1e3, keeps = (r) => (!tpot || r.tpot <= tpot) && (!ttft || r.ttft <= ttft);
  return picture(node, [{
    x: rows.map((r) => r.tpot * 1e3), y: rows.map((r) => r.out), mode: "lines+markers+text", text: rows.map((r) => (roomy(r) ? whole(r.n) : "")), textposition: "top left", line: { shape: "spline", width: 2 },
    marker: { size: 9, symbol: rows.map((r) => (keeps(r) ? "circle" : "circle-open")) },
    error_x: { type: "data", symmetric: false, array: rows.map((r) => (r.high - r.tpot) * 1e3), arrayminus: rows.map((r) => (r.tpot - r.low) * 1e3), thickness: 1, color: css("--muted") },
    customdata: rows.map((r) => [time(r.ttft), whole(r.n), time(r.tpot), whole(r.out)]), hovertemplate: `%{customdata[1]}: TPOT${then.of} %{customdata[2]}, %{customdata[3]} tokens/s, TTFT${first.of} %{customdata[0]}<extra></extra>`,
  }], {
    showlegend: false, xaxis: { title: { text: `TPOT${then.of} (ms)` }, rangemode: "tozero" }, yaxis: { title: { text: t("perchip") }, rangemode: "tozero" },
    shapes: tpot ? [line({ x0: limit, x1: limit, y0: 0, y1: 1, yref: "paper" })] : [],
    annotations: tpot ? [slo("TPOT SLO", { x: limit, y: 1, yref: "paper", yanchor: "top", xanchor: "right" })] : [],
  });
}

export function ttfts(node, served, s, at) {
  const x = at.map((i) => served.in_flight[i]), lines = ["ttft", "tpot"].map((name) => ({ name: name.toUpperCase(), ...promised(served, name, s) }));
  const limits = [[seconds(s.ttft) * 1e3, "TTFT"], [seconds(s.tpot) * 1e3, "TPOT"]].filter(([v]) => v);
  return picture(node, lines.map((each) => ({ x, y: at.map((i) => each.expected[i] * 1e3), mode: "lines+markers", name: `${each.name}${each.of}` })), {
    xaxis: { type: "log", title: { text: t("concurrency") } }, yaxis: { type: "log", title: { text: "ms" } },
    shapes: limits.map(([v]) => line({ x0: 0, x1: 1, xref: "paper", y0: v, y1: v })),
    annotations: limits.map(([v, name]) => slo(`${name} SLO`, { x: 1, xref: "paper", xanchor: "right", y: Math.log10(v), yanchor: "bottom" })),
  });
}

// Draws only steps that fit.
export function sweep(node, e, body) {
  return picture(node, body.context.map((context, j) => ({ x: body.batch, y: body.batch.map((b, i) => (e.memory.fits[i][j] ? e.time.expected[i][j] * 1e3 : null)), mode: "lines+markers", name: `${whole(context)} tokens` })), {
    xaxis: { type: "log", title: { text: t("batch") } }, yaxis: { type: "log", title: { text: `${t("step")} (ms)` } },
  });
}

// Each cell shows its time, coloured on a logarithmic scale, as times span decades. A cell that does not fit is crossed
// out, without colour and time; its bytes are shown on hover.
export const CROSSED = "✕";
export function map(node, e, body) {
  const every = body.context.map((_, j) => body.batch.map((_, i) => ({ fits: e.memory.fits[i][j], time: e.time.expected[i][j], bytes: e.memory.total[i][j] })));
  const cells = (of) => every.map((row) => row.map(of)), wide = node.clientWidth > 620, x = body.batch.map(whole), y = body.context.map(whole);
  const over = (cell) => `${t("misfits")}: ${si(cell.bytes, "B")} ${t("ofcapacity")} ${si(e.memory.capacity, "B")}`;
  const cell = { type: "heatmap", x, y, xgap: 1, ygap: 1, textfont: { size: 11 }, showscale: false, hovertemplate: "%{x} × %{y}: %{customdata}<extra></extra>" };
  return picture(node, [{
    ...cell, text: cells((c) => (c.fits ? "" : CROSSED)), texttemplate: "%{text}", textfont: { size: 11, color: css("--ink") }, customdata: cells((c) => (c.fits ? "" : over(c))), z: cells((c) => (c.fits ? null : 0)), hoverongaps: false, colorscale: [[0, css("--soft")], [1, css("--soft")]],
  }, {
    ...cell, z: cells((c) => (c.fits ? Math.log10(c.time) : null)), text: cells((c) => (c.fits ? time(c.time) : "")), texttemplate: wide ? "%{text}" : "", customdata: cells((c) => (c.fits ? time(c.time) : "")), hoverongaps: false, colorscale: "Viridis", reversescale: true,
  }], { xaxis: { type: "category", title: { text: t("batch") } }, yaxis: { type: "category", title: { text: `${t("context")} (tokens)` } } });
}

const PASSES = { F: "forward", B: "backward", W: "weightgrads" };
export function timeline(node, given) {
  const traces = Object.entries(PASSES).map(([kind, name], i) => {
    const items = given.items.filter((item) => item[1] === kind);
    return {
      type: "bar", orientation: "h", name: t(name), base: items.map((item) => item[3] * 1e3), x: items.map((item) => (item[4] - item[3]) * 1e3), y: items.map((item) => item[0]), width: 0.8,
      marker: { color: palette()[i], line: { width: 0.5, color: css("--card") } }, customdata: items.map((item) => `${t(name)} ${item[2]}: ${time(item[4] - item[3])}`), hovertemplate: "%{customdata}<extra></extra>",
    };
  }).filter((trace) => trace.y.length);
  return picture(node, traces, { barmode: "overlay", xaxis: { title: { text: "ms" } }, yaxis: { title: { text: t("stage") }, autorange: "reversed", dtick: 1, tick0: 0 } });
}

export function course(node, timeline) {
  return picture(node, [["running", "atonce"], ["waiting", "queue"]].map(([name, word]) => ({ x: timeline.seconds, y: timeline[name], mode: "lines", name: t(word), line: { width: 1.5 } })), { xaxis: { title: { text: "s" } }, yaxis: { title: { text: t("requests") }, rangemode: "tozero" } });
}
