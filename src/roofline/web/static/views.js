// The views: each asks what it shows, and fills a node with it.
import { ask } from "./api.js";
import * as bars from "./bars.js";
import { colour } from "./colours.js";
import * as draw from "./draw.js";
import { asks, middle, now, state } from "./state.js";
import { table } from "./table.js";
import { address, commands, csv, python, save, savePicture, saveState } from "./take.js";
import { between, make, share, si, t, time, usd, whole } from "./words.js";

export const panel = (title, note, ...children) => make("section", { class: "panel" }, make("h2", {}, title), note ? make("p", {}, note) : null, ...children);
const two = (...children) => make("div", { class: "two" }, ...children);
const pictured = (title, note, kind = "plot") => { const plot = draw.frame(title, kind); return [panel(title, note, plot, actions(plot)), plot]; };
const button = (text, onclick) => make("button", { type: "button", onclick }, text);
const actions = (plot) => make("div", { class: "actions" }, ...["png", "svg"].map((f) => button(f.toUpperCase(), () => savePicture(plot, f))));

export function card(title, value, note, kind = "") {
  return make("div", { class: "card" }, make("h3", {}, title), make("b", { class: kind }, value), make("span", {}, note ?? ""));
}

export function cards(served, fit) {
  const memory = served.memory, p = served.percentiles;
  return make("div", { class: "cards" },
    card("TTFT", time(served.ttft.expected), between(served.ttft) + (p ? ` · p99 ${time(p.ttft.p99)}` : "")),
    card("TPOT", time(served.tpot.expected), between(served.tpot) + (p ? ` · p99 ${time(p.tpot.p99)}` : "")),
    card(t("latency"), time(served.latency.expected), between(served.latency)),
    card(t("throughput"), whole(served.tokens_per_second), `${whole(served.tokens_per_second_per_user)} ${t("each")}`),
    card(t("memory"), si(memory.total, "B"), `${t("ofcapacity")} ${si(memory.budget ?? memory.capacity, "B")}`, memory.fits ? "" : "bad"),
    card(t("most"), whole(served.capacity), fit ? `${whole(fit.gpu_kv_cache_size)} KV tokens` : ""),
    card("USD", usd(served.usd_per_million_tokens), t("price")),
    card(t("energy"), served.joules_per_token === null ? "–" : `${served.joules_per_token.toPrecision(3)} J`, served.power ? `${whole(served.power)} W` : ""));
}

function opRows(estimate, analysis) {
  const work = new Map(analysis.ops.map((o) => [o.name + o.block, o])), total = estimate.ops.reduce((sum, o) => sum + o.time.expected, 0);
  return estimate.ops.map((o) => { const w = work.get(o.name + o.block); return { ...o, flops: w?.flops ?? null, bytes: w?.bytes ?? null, share: o.time.expected / total, seconds: o.time.expected }; });
}

async function explained(node, op, signal) {
  const { phase, batch, context, model, precision } = asks.analyze(now());
  const e = await ask("explain", { model, precision, phase, batch, context, op }, signal);
  const lines = e.figures.flatMap((f) => [make("dt", {}, f.name), make("dd", {}, make("code", {}, `${f.formula} = ${f.filled} = ${typeof f.per_layer === "number" ? whole(f.per_layer) : f.per_layer}`), make("div", { class: "note" }, f.source))]);
  node.replaceChildren(panel(`${e.op} · ${e.block} · ${e.layers} ×`, "", make("dl", { class: "formula" }, ...lines)));
  node.scrollIntoView({ block: "nearest" });
}

async function overview(node, s, signal) {
  const [estimate, fit] = await Promise.all([ask("estimate", asks.estimate(s), signal), ask("fit", asks.fit(s), signal)]);
  const [times, plot] = pictured(t("where"), `${s.phase} · ${s.concurrency} × ${middle(s)}`, "bars"), [terms, bar] = pictured(t("terms"), "", "bars");
  const facts = make("div", { class: "cards" }, card(t("step"), time(estimate.time.expected), `${t("floor")} ${time(estimate.time.floor)}`), card(t("bound"), estimate.bound, `MFU ${share(estimate.mfu)}`), card("FLOPs", si(estimate.flops), `${si(estimate.bytes, "B")} · ${estimate.intensity.toFixed(1)} FLOP/B`), card("grade", estimate.grade, estimate.engine));
  node.replaceChildren(facts, make("p"), two(times, terms));
  bars.shares(plot, estimate.ops);
  bars.memoryBar(bar, fit.memory);
}

async function roofline(node, s, signal) {
  const [plot, estimate, analysis] = await Promise.all([ask("plot", asks.plot(s), signal), ask("estimate", asks.estimate(s), signal), ask("analyze", asks.analyze(s), signal)]);
  const [drawn, frame] = pictured("Roofline", plot.note), formula = make("div", { "aria-live": "polite" });
  const show = (op) => explained(formula, op).catch((error) => formula.replaceChildren(panel(op, error.message)));
  const rows = opRows(estimate, analysis);
  const ops = table([
    { name: "op", of: (r) => r.name }, { name: "kind", of: (r) => r.kind }, { name: "block", of: (r) => r.block }, { name: "layers", of: (r) => r.layers, text: whole },
    { name: "FLOPs", of: (r) => r.flops, text: (v) => si(v) }, { name: "bytes", of: (r) => r.bytes, text: (v) => si(v, "B") }, { name: t("step"), of: (r) => r.seconds, text: time },
    { name: "share", of: (r) => r.share, text: share, bar: true }, { name: t("bound"), of: (r) => r.bound }, { name: "grade", of: (r) => r.grade },
  ], rows, { click: (r) => show(r.name), filter: true, by: 6, name: "operations" });
  const taken = rows.map((r) => ({ op: r.name, kind: r.kind, block: r.block, layers: r.layers, flops: r.flops, bytes: r.bytes, seconds: r.seconds, bound: r.bound, grade: r.grade }));
  node.replaceChildren(drawn, formula, panel("Operations", t("clickop"), ops, make("div", { class: "actions" }, button("CSV", () => save("operations.csv", csv(taken), "text/csv")))));
  await draw.roofline(frame, plot, show);
}

async function memory(node, s, signal) {
  const fit = await ask("fit", asks.fit(s), signal), [bar, plot] = pictured(t("terms"), `${fit.batch} × ${fit.context} tokens`, "bars");
  const facts = make("div", { class: "cards" }, card("largest batch", whole(fit.largest_batch), `${whole(fit.context)} tokens each`), card("longest context", whole(fit.longest_context), `batch ${fit.batch}`), card("fewest chips", whole(fit.fewest_chips), fit.fewest_layout ?? ""), card(t("most"), whole(fit.most_running), fit.engine));
  const rows = Object.entries(fit.memory).filter(([k, v]) => typeof v === "number" && v > 0);
  node.replaceChildren(bar, facts, make("p"), panel(t("memory"), "", table([{ name: "term", of: (r) => r[0] }, { name: "bytes", of: (r) => r[1], text: whole }, { name: "", of: (r) => r[1], text: (v) => si(v, "B") }], rows)));
  bars.memoryBar(plot, fit.memory);
}

async function serving(node, s, signal) {
  const served = await ask("serve", asks.front(s), signal);
  const [left, a] = pictured(t("serving"), `${s.input} → ${s.output} tokens`), [right, b] = pictured("TTFT · TPOT", "");
  node.replaceChildren(two(left, right));
  await draw.front(a, served, s);
  await draw.ttfts(b, served, s);
}

async function sweep(node, s, signal) {
  const body = asks.sweep(s), swept = await ask("sweep", body, signal), [one, plot] = pictured(t("sweep"), `${s.phase}: batch × context`);
  node.replaceChildren(one);
  await draw.sweep(plot, swept, body);
}

function number(key, label, least, most, changed) {
  const field = make("input", { type: "number", min: least, max: most, value: now()[key], id: `more-${key}`, onchange: () => { if (field.checkValidity() && field.value) { now()[key] = Number(field.value); changed(); } } });
  return make("div", {}, make("label", { for: `more-${key}`, class: "note" }, label), field);
}

async function training(node, s, signal, changed) {
  const fields = make("div", { class: "pair" }, number("trainBatch", "batch (sequences)", 1, 1e6, changed), number("trainTokens", "tokens each", 1, 1e7, changed));
  node.replaceChildren(panel(t("training"), "", fields));
  const e = await ask("train", asks.train(s), signal), [bar, plot] = pictured(t("terms"), e.deployment.layout, "bars");
  node.append(make("div", { class: "cards" }, card(t("step"), time(e.time.expected), between(e.time)), card("MFU", share(e.mfu), `bubble ${share(e.bubble)}`), card("tokens/s", whole(e.tokens_per_second), `${whole(e.tokens_per_second_per_chip)} / chip`), card("USD", usd(e.usd_per_million_tokens), t("price"))), make("p"), bar,
    panel("Stages", "", table([{ name: "stage", of: (r) => r.stage }, { name: "layers", of: (r) => r.layers, text: whole }, { name: t("memory"), of: (r) => r.memory.total, text: (v) => si(v, "B") }, { name: "forward", of: (r) => r.passes.forward.expected, text: time }, { name: "backward", of: (r) => r.passes.backward.expected + r.passes.weight.expected, text: time }], e.stages)));
  bars.memoryBar(plot, e.memory);
}

async function simulation(node, s, signal, changed) {
  node.replaceChildren(panel(t("simulation"), "", make("div", { class: "pair" }, number("requests", "requests", 1, 2000, changed), number("seed", "seed", 0, 2 ** 31, changed))));
  const e = await ask("simulate", asks.simulate(s), signal), [over, plot] = pictured("Over time", e.traffic);
  const names = ["ttft", "tpot", "inter_token", "latency", "queue"];
  node.append(make("div", { class: "cards" }, card("requests/s", e.requests_per_second.toFixed(2), `${e.requests} requests`), card("tokens/s", whole(e.tokens_per_second), `${whole(e.tokens_per_second_per_chip)} / chip`), card("utilization", share(e.utilization), `${e.preemptions} preemptions`), card("running", e.running.toFixed(1), e.overloaded ? "overloaded" : "", e.overloaded ? "bad" : "")), make("p"),
    panel("Percentiles", "", table([{ name: "", of: (r) => r }, ...["mean", "p50", "p90", "p95", "p99"].map((q) => ({ name: q, of: (r) => e[r][q], text: time }))], names)), over);
  await draw.course(plot, e.timeline);
}

async function advice(node, s, signal) {
  node.replaceChildren(panel(t("advice"), "…"));
  const [best, ways] = await Promise.all([ask("advice", asks.advice(s), signal), ask("search", asks.search(s), signal)]);
  const factor = (v) => (v === null ? "–" : `× ${v.toFixed(2)}`);
  node.replaceChildren(panel(t("advice"), "tokens/s per chip, TPOT, TTFT: factors over now", make("div", { class: "cards" }, ...best.changes.slice(0, 3).map((c) => card(c.what, factor(c.per_chip), c.option)))),
    panel(t("advice"), "", table([{ name: "change", of: (r) => r.what }, { name: "option", of: (r) => r.option }, { name: "tokens/s per chip", of: (r) => r.per_chip, text: factor }, { name: "TPOT", of: (r) => r.tpot, text: factor }, { name: "TTFT", of: (r) => r.ttft, text: factor }, { name: t("memory"), of: (r) => r.memory, text: (v) => si(v, "B") }], best.changes)),
    panel(t("ways"), `${s.on}: ${ways.considered} considered`, table([{ name: "layout", of: (r) => `${r.replicas} × ${r.layout}` }, { name: "chips", of: (r) => r.chips, text: whole }, { name: "TTFT", of: (r) => r.ttft.expected, text: time }, { name: "TPOT", of: (r) => r.tpot.expected, text: time }, { name: "tokens/s/chip", of: (r) => r.tokens_per_second_per_chip, text: whole }, { name: "USD / M", of: (r) => r.usd_per_million_tokens, text: usd }, { name: t("bound"), of: (r) => r.limit }], ways.plans)));
}

async function structure(node, s, signal) {
  const [plot, estimate] = await Promise.all([ask("plot", asks.diagram(s), signal), ask("estimate", asks.estimate(s), signal)]);
  const each = (o) => o.time.expected / Math.max(1, o.layers), alone = (o) => estimate.ops.filter((p) => p.name === o.name).length === 1;
  const times = new Map(estimate.ops.flatMap((o) => [[`${o.block}/${o.name}`, each(o)], ...(alone(o) ? [[o.name, each(o)]] : [])]));
  const box = (b, block) => { const node = make("div", { class: "box" }, make("b", {}, (b.adds ? "+ " : "") + b.label), make("small", {}, [b.detail, time(times.get(`${block}/${b.label}`) ?? times.get(b.label) ?? null)].filter(Boolean).join(" · "))); node.style.borderLeftColor = colour(b.group); return node; };
  node.replaceChildren(two(...[plot.model, ...plot.layers].map((stack) => panel(stack.title, "", make("div", { class: "stack" }, ...stack.boxes.map((b) => box(b, stack.title.split(" · ")[0])))))), make("p", { class: "note" }, plot.note));
}

async function compare(node, s, signal) {
  if (state.scenarios.length < 2) return node.replaceChildren(panel(t("compare"), t("nothing")));
  const all = await Promise.all(state.scenarios.map((one) => ask("serve", asks.serve(one), signal)));
  const rows = [["TTFT", (r) => r.ttft.expected, time], ["TPOT", (r) => r.tpot.expected, time], [t("latency"), (r) => r.latency.expected, time], [t("throughput"), (r) => r.tokens_per_second, whole], ["tokens/s / chip", (r) => r.tokens_per_second_per_chip, whole], [t("memory"), (r) => r.memory.total, (v) => si(v, "B")], [t("most"), (r) => r.capacity, whole], ["USD / M", (r) => r.usd_per_million_tokens, usd], [t("energy"), (r) => r.joules_per_token, (v) => (v === null ? "–" : `${v.toPrecision(3)} J`)]];
  const keys = ["model", "on", "layout", "precision", "engine", "input", "output", "concurrency", "rate"].filter((k) => new Set(state.scenarios.map((x) => x[k])).size > 1);
  const value = (of, text, i) => { const v = of(all[i]), first = of(all[0]); const change = i && first && v !== null ? ` (${v >= first ? "+" : "−"}${Math.abs(100 * (v / first - 1)).toFixed(0)} %)` : ""; return text(v) + change; };
  const cells = [...keys.map((k) => [k, ...state.scenarios.map((x) => String(x[k] ?? "–") || "–")]), ...rows.map(([name, of, text]) => [name, ...all.map((_, i) => value(of, text, i))])];
  node.replaceChildren(panel(t("compare"), "", make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("compare") }, make("table", {}, make("thead", {}, make("tr", {}, ...["", ...state.scenarios.map((_, i) => "ABCD"[i])].map((h) => make("th", { scope: "col" }, h)))), make("tbody", {}, ...cells.map((c) => make("tr", {}, ...c.map((x, i) => make(i ? "td" : "th", i ? {} : { scope: "row" }, x)))))))));
  return undefined;
}

async function away(node, s, signal) {
  const served = await ask("serve", asks.serve(s), signal), link = await address();
  node.replaceChildren(panel("Command line", s.config ? "The config stands beside it as config.json." : "", make("pre", { tabindex: "0", role: "region", "aria-label": "command line" }, commands(s))), panel("Python", "", make("pre", { tabindex: "0", role: "region", "aria-label": "Python" }, python(s))),
    panel("Files", `${link.length} characters of address hold everything shown.`, make("div", { class: "actions" }, button("JSON", () => save("serve.json", JSON.stringify(served, null, 1), "application/json")), button("scenario.json", saveState), s.config ? button("config.json", () => save("config.json", JSON.stringify(s.config, null, 1), "application/json")) : null, button("print", () => window.print()))));
}

export const LONG_VIEWS = new Set(["sweep", "simulation", "advice"]);
export const VIEWS = { overview, roofline, memory, serving, sweep, training, simulation, advice, structure, compare, away };
