// The main views: each requests its data and fills a node.
import { ask } from "./api.js";
import { away } from "./away.js";
import * as bars from "./bars.js";
import { colour } from "./colours.js";
import { compare } from "./compare.js";
import * as draw from "./draw.js";
import { basis, button, cardOf, cardsOf, fitted, gap, given, misfit, number, panel, pictured, remedies, struck, two, unreal, would } from "./kit.js";
import { advice, running, simulation, training } from "./long.js";
import { machines } from "./machines.js";
import { asks, learn, middle, now, readsWhole } from "./state.js";
import { table } from "./table.js";
import { csv, save } from "./take.js";
import { between, decimals, formatted, localised, make, share, si, significant, t, time, usd, whole } from "./words.js";

export function cards(served, fit) {
  const memory = served.memory, p = served.percentiles, co2 = served.co2_per_million_tokens, card = cardOf(memory.fits), real = cardOf(true);
  const energy = [served.power ? `${whole(served.power)} W` : null, co2 === null ? null : `${significant(co2, 3)} g CO₂ ${t("price")}`];
  const apart = served.usd_per_million_input === null ? "" : `${t("apart")}: ${usd(served.usd_per_million_input)} ${t("perprompt")}, ${usd(served.usd_per_million_output)} ${t("generated")}`;
  return cardsOf(
    card("TTFT", time(served.ttft.expected), between(served.ttft) + (p ? ` · p99 ${time(p.ttft.p99)}` : "")),
    card("TPOT", time(served.tpot.expected), between(served.tpot) + (p ? ` · p99 ${time(p.tpot.p99)}` : "")),
    card(t("latency"), time(served.latency.expected), between(served.latency)),
    card(t("throughput"), whole(served.tokens_per_second), `${whole(served.tokens_per_second_per_user)} ${t("each")}`),
    real(t("memory"), si(memory.total, "B"), `${t("ofcapacity")} ${si(memory.capacity, "B")}${memory.budget === null ? "" : ` · ${t("kvcache")} ≤ ${si(Math.max(0, memory.budget), "B")}`}`, memory.fits ? "" : "bad"),
    real(t("most"), whole(served.capacity), fit ? `${whole(fit.gpu_kv_cache_size)} ${t("kvtokens")}` : ""),
    card(`USD ${t("price")}`, usd(served.usd_per_million_tokens), apart),
    card(t("energy"), served.joules_per_token === null ? "–" : `${significant(served.joules_per_token, 3)} J`, energy.filter(Boolean).join(" · ")));
}

function opRows(estimate, analysis) {
  const work = new Map(analysis.ops.map((o) => [o.name + o.block, o])), total = estimate.ops.reduce((sum, o) => sum + o.time.expected, 0);
  return estimate.ops.map((o) => { const w = work.get(o.name + o.block); return { ...o, flops: w?.flops ?? null, bytes: w?.bytes ?? null, share: o.time.expected / total, seconds: o.time.expected }; });
}

async function explained(node, op, signal) {
  const e = await ask("explain", { ...asks.explain(now()), op }, signal);
  const lines = e.figures.flatMap((f) => [make("dt", {}, f.name), make("dd", {}, make("code", {}, `${f.formula} = ${f.filled} = ${typeof f.per_layer === "number" ? whole(f.per_layer) : f.per_layer}`), make("div", { class: "note" }, f.source))]);
  node.replaceChildren(panel(given(`${e.op} · ${e.block} · ${e.layers} ×`), "", make("dl", { class: "formula" }, ...lines)));
  node.scrollIntoView({ block: "nearest" });
}

export function readCards(e) {
  const card = cardOf(e.memory.fits), real = cardOf(true), passes = e.passes > 1 ? ` · ${whole(e.passes)} ${t("passes")}` : "";
  return cardsOf(
    card(t("latencyofbatch"), time(e.latency.expected), between(e.latency)),
    ...(e.input_latency === null ? [] : [card(t("latencyofinput"), time(e.input_latency.mean), `p99 ${time(e.input_latency.p99)} · ${t("meanbatch")} ${significant(e.mean_batch, 3)}`)]),
    card(t("inputrate"), significant(e.inputs_per_second, 3), `${whole(e.batch)} × ${whole(e.positions)} ${t("positions")}${passes}`),
    real(t("memory"), si(e.memory.total, "B"), `${t("ofcapacity")} ${si(e.memory.capacity, "B")}`, e.memory.fits ? "" : "bad"),
    card(`USD ${t("perinputs")}`, usd(e.usd_per_million_inputs), e.usd_per_hour === null ? "" : `${usd(e.usd_per_hour)} ${t("anhour")}`),
    card(t("energyofinput"), e.joules_per_input === null ? "–" : `${significant(e.joules_per_input, 3)} J`, e.power === null ? "" : `${whole(e.power)} W`),
    card(t("bound"), e.bound, ""));
}

async function encoding(node, s, signal, changed) {
  const known = await ask("limits", asks.limits(s), signal);
  learn(known);
  const fields = make("div", { class: "pair" }, number("encodeBatch", t("inputsatonce"), 1, 1e6, changed), number("encodeRate", t("inputsarriving"), 0, 1e9, changed), ...(known.positions === null ? [number("encodeTokens", t("tokensofeach"), 1, 1e6, changed)] : []), ...(known.steps.includes("denoise") ? [number("passes", t("passes"), 1, 1000, changed)] : []));
  const top = panel(t("encoding"), t("encodingnote"), fields);
  if (!document.querySelector("#view #more-encodeBatch")) node.replaceChildren(top);
  const e = await ask("encode", asks.encode(s), signal), fits = e.memory.fits;
  const shares = table([{ name: t("kind"), of: (r) => r[0] }, { name: t("share"), of: (r) => r[1], text: share, bar: true }], Object.entries(e.shares), { name: t("where") });
  const parts = Object.entries(e.parts), each = table([{ name: t("block"), of: (r) => r[0] }, { name: t("latencyofbatch"), of: (r) => r[1].expected ?? r[1], text: (v) => struck(fits, time(v)) }], parts, { name: t("latencyofbatch") });
  const [terms, bar] = pictured(t("terms"), [fitted(fits)], "bars");
  node.replaceChildren(top, ...(fits ? [] : [misfit(e.memory, would([]))]), ...(readsWhole(known) ? [] : [readCards(e), basis(e)]), two(panel(t("where"), "", shares), terms), ...(parts.length > 1 ? [panel(t("latencyofbatch"), "", each)] : []));
  bars.memoryBar(bar, e.memory);
}

async function overview(node, s, signal) {
  const [estimate, fit] = await Promise.all([ask("estimate", asks.estimate(s), signal), ask("fit", asks.fit(s), signal)]);
  const fits = estimate.memory.fits, card = cardOf(fits), real = cardOf(true);
  const [times, plot] = pictured(t("where"), unreal(fits, `${s.phase} · ${whole(s.concurrency)} × ${whole(middle(s))}`), "bars"), [terms, bar] = pictured(t("terms"), [fitted(fit.fits)], "bars");
  node.replaceChildren(cardsOf(
    card(t("step"), time(estimate.time.expected), `${t("floor")} ${time(estimate.time.floor)}`), card(t("bound"), estimate.bound, `MFU ${share(estimate.mfu)}`),
    real("FLOPs", si(estimate.flops), `${si(estimate.bytes, "B")} · ${decimals(estimate.intensity, 1)} FLOP/B`), card(t("grade"), estimate.grade, estimate.engine)), basis(estimate), two(times, terms));
  bars.shares(plot, estimate.ops, fits);
  bars.memoryBar(bar, fit.memory);
}

async function roofline(node, s, signal) {
  const unknown = (error) => { if (signal.aborted) throw error; return null; };  // of a chip whose power is not known
  const [plot, estimate, analysis, joules] = await Promise.all([ask("plot", asks.plot(s), signal), ask("estimate", asks.estimate(s), signal), ask("analyze", asks.analyze(s), signal), ask("plot", asks.energy(s), signal).catch(unknown)]);
  const fits = estimate.memory.fits;
  const [drawn, frame] = pictured("Roofline", unreal(fits, localised(plot.note))), formula = make("div", { "aria-live": "polite" });
  const show = (op) => explained(formula, op).catch((error) => formula.replaceChildren(panel(given(op), error.message)));
  const [burnt, arch] = pictured(t("energyroofline"), unreal(fits, localised(joules?.note ?? "")));
  const rows = opRows(estimate, analysis);
  const ops = table([
    { name: t("op"), of: (r) => r.name }, { name: t("kind"), of: (r) => r.kind }, { name: t("block"), of: (r) => r.block }, { name: t("layers"), of: (r) => r.layers, text: whole },
    { name: "FLOPs", of: (r) => r.flops, text: (v) => si(v) }, { name: t("bytes"), of: (r) => r.bytes, text: (v) => si(v, "B") }, { name: t("step"), of: (r) => r.seconds, text: (v) => struck(fits, time(v)) },
    { name: t("share"), of: (r) => r.share, text: share, bar: true }, { name: t("bound"), of: (r) => r.bound }, { name: t("grade"), of: (r) => r.grade, text: (v) => struck(fits, v), word: true },
  ], rows, { click: (r) => show(r.name), filter: true, by: 6, name: t("operations") });
  const taken = rows.map((r) => ({ op: r.name, kind: r.kind, block: r.block, layers: r.layers, flops: r.flops, bytes: r.bytes, seconds: r.seconds, bound: r.bound, grade: r.grade }));
  node.replaceChildren(basis(estimate), drawn, formula, ...(joules ? [burnt] : []), panel(t("operations"), t("clickop"), ops, make("div", { class: "actions" }, button("CSV", () => save("operations.csv", csv(taken), "text/csv")))));
  await Promise.all([draw.roofline(frame, plot, show), joules ? draw.energy(arch, joules, show) : null]);
}

async function memory(node, s, signal) {
  const fit = await ask("fit", asks.fit(s), signal), [bar, plot] = pictured(t("terms"), [fitted(fit.fits), ` · ${whole(fit.batch)} × ${whole(fit.context)} tokens`], "bars"), card = cardOf(true);
  const facts = cardsOf(card(t("largestbatch"), whole(fit.largest_batch), `${whole(fit.context)} tokens`), card(t("longestcontext"), whole(fit.longest_context), `${t("batch")} ${whole(fit.batch)}`), card(t("fewestchips"), whole(fit.fewest_chips), fit.fewest_layout ?? ""), card(t("kvcache"), `${whole(fit.gpu_kv_cache_size)}`, `tokens · ${fit.engine}`));
  const rows = Object.entries(fit.memory).filter(([, value]) => typeof value === "number" && value > 0);
  node.replaceChildren(...(fit.fits ? [] : [misfit(fit.memory, remedies(fit))]), basis(fit, formatted(fit.formats)), bar, facts, gap(), panel(t("memory"), "", table([{ name: t("term"), of: (r) => (r[0] === "budget" ? t("leftforcache") : r[0]) }, { name: t("bytes"), of: (r) => r[1], text: whole }, { name: "", of: (r) => r[1], text: (v) => si(v, "B") }], rows, { name: t("memory") })));
  bars.memoryBar(plot, fit.memory);
}

async function serving(node, s, signal) {
  const [served, fit] = await Promise.all([ask("serve", asks.front(s), signal), ask("fit", asks.fit(s), signal)]);
  const at = served.in_flight.flatMap((_, i) => ([served.memory.fits].flat().at(i) ?? served.memory.fits ? [i] : []));
  if (!at.length) return node.replaceChildren(misfit(fit.memory, remedies(fit)));
  const [left, a] = pictured(t("serving"), `${whole(s.input)} → ${whole(s.output_tokens)} tokens`), [right, b] = pictured("TTFT · TPOT", "");
  node.replaceChildren(basis({ ...served, engine: fit.engine, grade: [served.grade].flat()[0] }, t("assumevarying")), two(left, right));
  return Promise.all([draw.front(a, served, s, at), draw.ttfts(b, served, s, at)]);
}

async function sweep(node, s, signal) {
  const body = asks.sweep(s), [swept, estimate] = await Promise.all([ask("sweep", body, signal), ask("estimate", asks.estimate(s), signal)]);
  const [one, plot] = pictured(t("sweep"), `${s.phase}: ${t("batch")} × ${t("context")}`), [mapped, map] = pictured(t("map"), `${s.phase}: ${t("batch")} × ${t("context")} · ${draw.CROSSED} ${t("misfits")}`);
  const some = swept.memory.fits.flat().some(Boolean);
  node.replaceChildren(basis(estimate), ...(some ? [one] : []), mapped);
  await Promise.all([some ? draw.sweep(plot, swept, body) : null, draw.map(map, swept, body)]);
}

async function structure(node, s, signal) {
  const [plot, estimate] = await Promise.all([ask("plot", asks.diagram(s), signal), ask("estimate", asks.estimate(s), signal)]);
  const each = (o) => o.time.expected / Math.max(1, o.layers), alone = (o) => estimate.ops.filter((p) => p.name === o.name).length === 1;
  const times = new Map(estimate.ops.flatMap((o) => [[`${o.block}/${o.name}`, each(o)], ...(alone(o) ? [[o.name, each(o)]] : [])]));
  const fits = estimate.memory.fits, took = (b, block) => time(times.get(`${block}/${b.label}`) ?? times.get(b.label) ?? null);
  const box = (b, block) => { const node = make("div", { class: "box" }, make("b", {}, (b.adds ? "+ " : "") + b.label), make("small", {}, b.detail ? `${localised(b.detail)} · ` : "", struck(fits, took(b, block)))); node.style.borderLeftColor = colour(b.group); return node; };
  node.replaceChildren(basis(estimate), two(...[plot.model, ...plot.layers].map((stack) => panel(given(stack.title), "", make("div", { class: "stack" }, ...stack.boxes.map((b) => box(b, stack.title.split(" · ")[0])))))), make("p", { class: "note" }, ...unreal(fits, localised(plot.note))));
}

export const LONG_VIEWS = new Set(["sweep", "training", "simulation", "advice", "running", "machines"]);
export const VIEWS = { overview, roofline, memory, serving, encoding, sweep, training, simulation, advice, running, machines, structure, compare, away };
