// Views with slow answers; the server stops the work when the view is left.
import { ask } from "./api.js";
import * as bars from "./bars.js";
import * as draw from "./draw.js";
import { asked, basis, card, cardOf, cardsOf, choice, fitted, gained, gap, given, misfit, number, panel, pictured, remedies, struck, unreal, visited, words, would } from "./kit.js";
import { asks } from "./state.js";
import { table } from "./table.js";
import { advised } from "./take.js";
import { between, decimals, localised, make, share, si, t, time, usd, whole } from "./words.js";

export async function training(node, s, signal, changed) {
  const fields = make("div", { class: "pair" }, number("trainBatch", t("sequences"), 1, 1e6, changed), number("trainTokens", t("tokenseach"), 1, 1e7, changed), number("sitePower", t("sitewatts"), 0, 1e12, changed),
    number("trainLora", t("lora"), 0, 4096, changed), choice("trainDora", t("dora"), { no: t("no"), yes: t("yes") }, changed), words("trainLengths", t("packed"), "4096,512x8 · lognormal(1000,0.5)", changed), words("trainStragglers", t("stragglers"), "0.01:1.2", changed),
    words("trainOptimizer", t("optimizername"), "adamw · lion · muon · soap", changed), words("trainTeacher", t("teacher"), "Qwen/Qwen3-8B", changed), choice("trainReference", t("reference"), { no: t("no"), yes: t("yes") }, changed), number("trainContext", t("contextlength"), 0, 1e7, changed));
  const top = panel(t("training"), "", fields);
  if (!document.querySelector("#view #more-trainBatch")) node.replaceChildren(top);
  const e = await ask("train", asks.train(s), signal), [bar, plot] = pictured(t("terms"), [`${e.deployment.layout}: `, fitted(e.memory.fits)], "bars");
  const fits = e.memory.fits, card = cardOf(fits), took = (v) => struck(fits, time(v));
  const stages = table([
    { name: t("stage"), of: (r) => r.stage, text: whole }, { name: t("layers"), of: (r) => r.layers, text: whole }, { name: t("memory"), of: (r) => r.memory.total, text: (v) => si(v, "B") },
    { name: t("activations"), of: (r) => r.memory.activations, text: (v) => si(v, "B") }, { name: t("forward"), of: (r) => r.passes.forward.expected, text: took }, { name: t("backward"), of: (r) => r.passes.backward.expected, text: took }, { name: t("weightgrads"), of: (r) => r.passes.weight.expected, text: took },
  ], e.stages, { name: t("stages") });
  const [course, lines] = pictured(t("timeline"), t("timelinenote")), ways = make("div", { "aria-live": "polite" });
  const search = asked(t("layouts"), s.on, async () => {
    const found = await ask("layouts", asks.layouts(s), signal);
    return [make("p", { class: "note" }, `${whole(found.considered)} ${t("considered")}`), table([
      { name: t("layout"), of: (r) => r.layout }, { name: t("microbatch"), of: (r) => r.micro_batch, text: whole }, { name: t("recompute"), of: (r) => r.recompute }, { name: t("schedule"), of: (r) => r.schedule },
      { name: t("chips"), of: (r) => r.chips, text: whole }, { name: t("step"), of: (r) => r.seconds, text: time }, { name: t("memory"), of: (r) => r.bytes, text: (v) => si(v, "B") },
      { name: t("daysofrun"), of: (r) => r.run_time, text: (v) => decimals(v / 86400, 1) }, { name: `USD ${t("ofrun")}`, of: (r) => r.usd, text: usd }, { name: `MWh ${t("ofrun")}`, of: (r) => r.energy, text: (v) => (v === null ? "–" : decimals(v / 3.6e9, 1)) }, { name: `tokens/s ${t("perchip")}`, of: (r) => r.goodput, text: whole },
    ], found.plans, { name: t("layouts") })];
  });
  search.querySelector(".actions").before(make("div", { class: "pair" }, choice("trainAim", t("aim"), { time: t("aimtime"), cost: t("aimcost"), chips: t("aimchips"), days: t("aimdays"), dollars: t("aimdollars"), energy: t("aimenergy"), goodput: t("aimgoodput") }, changed), number("trainRun", t("trainrun"), 1, 1e6, changed), words("trainGrowth", t("growth"), "192,16,9765625", changed), number("spareNodes", t("sparenodes"), 0, 1e6, changed), number("repairHours", t("repairhours"), 0, 1e4, changed), number("searchSeconds", t("searchseconds"), 1, 20, changed)));
  node.replaceChildren(top, ...(fits ? [] : [misfit(e.memory, ways)]), cardsOf(card(t("step"), time(e.time.expected), between(e.time)), card("MFU", share(e.mfu), `${t("bubble")} ${share(e.bubble)}`), card("tokens/s", whole(e.tokens_per_second), `${whole(e.tokens_per_second_per_chip)} ${t("perchip")}`), card(`USD ${t("pertrained")}`, usd(e.usd_per_million_tokens))),
    basis(e, e.recipe, `${t("recompute")}: ${e.recompute}`), bar, panel(t("stages"), "", stages), ...(fits ? [course] : []), search);
  bars.memoryBar(plot, e.memory);
  if (!fits) {
    const given = await ask("remedies", asks.remedies(s), signal);
    ways.replaceChildren(would(given.changes.map((change) => change.detail)));
    return;
  }
  await ask("timeline", asks.timeline(s), signal).then((passes) => draw.timeline(lines, passes), (error) => { if (error.name === "AbortError") throw error; lines.replaceChildren(make("p", { class: "note" }, error.message)); });
}

export async function simulation(node, s, signal, changed) {
  const top = panel(t("simulation"), "", make("div", { class: "pair" }, number("requests", t("requests"), 1, 2000, changed), number("seed", t("seed"), 0, 2 ** 31, changed)));
  if (!document.querySelector("#view #more-requests")) node.replaceChildren(top);
  const [served, fit] = await Promise.all([ask("serve", asks.serve(s), signal), ask("fit", asks.fit(s), signal)]);
  if (!served.memory.fits) return node.replaceChildren(top, misfit(served.memory, remedies(fit)));
  const e = await ask("simulate", asks.simulate(s), signal), [over, plot] = pictured(t("overtime"), localised(e.traffic));
  const names = [["ttft", "TTFT"], ["tpot", "TPOT"], ["inter_token", t("intertoken")], ["latency", t("latency")], ["queue", t("queue")]];
  node.replaceChildren(top, cardsOf(card(t("rates"), decimals(e.requests_per_second, 2), `${whole(e.requests)} ${t("requests")}${e.settled || e.overloaded ? "" : `, ${t("tooshort")}`}`), card("tokens/s", whole(e.tokens_per_second), `${whole(e.tokens_per_second_per_chip)} ${t("perchip")}`), card(t("utilization"), share(e.utilization), `${whole(e.preemptions)} ${t("preemptions")}`), card(t("instep"), decimals(e.running, 1), e.overloaded ? t("overloaded") : "", e.overloaded ? "bad" : "")), basis({ ...served, ...e }, t("assumesim")),
    panel(t("percentiles"), "", table([{ name: t("figure"), of: (r) => r[1] }, ...["mean", "p50", "p90", "p95", "p99"].map((q) => ({ name: q === "mean" ? t("mean") : q, of: (r) => e[r[0]][q], text: time }))], names, { name: t("percentiles") })), over);
  return draw.course(plot, e.timeline);
}

// Describes the limits of a search and, if no plan meets them, the nearest values.
function limitsOf(ways) {
  const named = [["TTFT", ways.ttft_limit], ["TPOT", ways.tpot_limit], [t("latency"), ways.latency_limit]].filter(([, most]) => most !== null).map(([name, most]) => `${name} ≤ ${time(most)}`);
  if (!named.length) return [];
  const whose = ways.attainment === null ? t("waysmean") : `${share(ways.attainment)} ${t("waysof")}`;
  const near = ways.nearest.map((n) => `${n.name === "latency" ? t("latency") : n.name.toUpperCase()} ${time(n.least)}`);
  return [` · ${whose} ${named.join(", ")}`, ...(near.length ? [` · ${t("nearest")}: ${near.join(", ")}`] : [])];
}

export async function advice(node, s, signal, changed) {
  node.replaceChildren(panel(t("advice"), t("working")));
  const [best, ways, fit, served] = await Promise.all([ask("advice", asks.advice(s), signal), ask("search", asks.search(s), signal), ask("fit", asks.fit(s), signal), ask("serve", asks.serve(s), signal)]);
  const factor = (v) => struck(fit.fits, v === null ? "–" : `× ${decimals(v, 2)}`);
  const limit = make("div", { class: "pair" }, number("searchSeconds", t("searchseconds"), 1, 20, changed), number("sitePower", t("sitewatts"), 0, 1e12, changed)), unseen = ways.unseen ? [` · ${whole(ways.unseen)} ${t("unseen")}`] : [];
  const command = make("pre", { tabindex: "0", role: "region", "aria-label": t("commandline") }, advised(s, best.command));
  const plans = [...(ways.recommended ? [{ ...ways.recommended, role: t("recommended") }] : []), ...ways.plans.map((plan, i) => ({ ...plan, role: i ? "" : t("highest") }))];
  node.replaceChildren(...(fit.fits ? [] : [misfit(fit.memory, remedies(fit))]), basis(served, t("adviceof")), panel(t("advice"), t("factors"), cardsOf(...best.changes.slice(0, 3).map((c) => card(given(c.what), factor(c.gain), `${gained(c)}: ${c.option}`))), command),
    panel(t("changes"), t("factors"), table([{ name: t("change"), of: (r) => r.what }, { name: t("option"), of: (r) => r.option }, { name: t("perchip"), of: (r) => r.per_chip, text: factor }, { name: "TPOT", of: (r) => r.tpot, text: factor }, { name: "TTFT", of: (r) => r.ttft, text: factor }, { name: t("memory"), of: (r) => r.memory, text: (v) => si(v, "B") }, ...(best.changes[0]?.grade ? [{ name: t("grade"), of: (r) => r.grade, text: (v) => struck(fit.fits, v), word: true }] : [])], best.changes, { name: t("changes") })),
    panel(t("ways"), [`${s.on}: ${whole(ways.considered)} ${t("considered")}`, ...unseen, ...limitsOf(ways), ...(ways.plans.length ? [` · ${t("assumed")}: ${[t("assumeways"), visited(ways)].filter(Boolean).join(" · ")}`] : [])], table([{ name: "", of: (r) => r.role }, { name: t("layout"), of: (r) => [r.prefill_layout ? `${whole(r.prefills)} × ${r.prefill_layout} (prefill)` : "", `${whole(r.replicas)} × ${r.layout}`].filter(Boolean).join(" + ") }, { name: t("chips"), of: (r) => r.chips, text: whole }, ...["ttft", "tpot"].map((name) => { const of = draw.promised(ways.plans[0] ?? {}, name, s).of; return { name: `${name.toUpperCase()}${of}`, of: (r) => draw.promised(r, name, s).expected, text: time }; }), { name: t("perchip"), of: (r) => r.tokens_per_second_per_chip, text: whole }, { name: `USD ${t("price")}`, of: (r) => r.usd_per_million_tokens, text: usd }, { name: t("limit"), of: (r) => r.limit }], plans, { name: t("ways") }), limit));
}

// What runs on a machine: this model in every format, and the catalog in parts, as they are computed.
export async function running(node, s, signal, changed) {
  const fields = make("div", { class: "pair" }, number("runsContext", t("context"), 2, 1e7, changed));
  const columns = (...first) => [
    ...first, { name: t("format"), of: (r) => r.format }, { name: t("weights"), of: (r) => r.weights, text: (v) => si(v, "B") }, { name: t("memory"), of: (r) => r.memory, text: (v) => si(v, "B") },
    { name: "TTFT", of: (r) => r.ttft?.expected ?? null, text: time }, { name: "tokens/s", of: (r) => r.tokens_per_second, text: (v) => (v === null ? "–" : decimals(v, 1)) }, { name: t("fitting"), of: (r) => t(r.fits ? "fits" : "misfits"), text: (v) => make("span", { class: v === t("fits") ? "good" : "bad" }, v), word: true }, { name: t("grade"), of: (r) => r.grade ?? "–" },
  ];
  const own = await ask("runs", asks.runs(s), signal);
  const catalog = asked(t("fitson"), `${own.on} · ${whole(own.context)} tokens`, async () => {
    const rows = [];
    for (let start = 0, of = 1; start < of; start += 40) {
      const part = await ask("runs", { ...asks.runs(s), model: null, start, count: 40 }, signal);
      rows.push(...part.running);
      of = part.of;
    }
    return [table(columns({ name: t("model"), of: (r) => r.model }), rows, { filter: true, by: 2, name: t("fitson") })];
  });
  node.replaceChildren(panel(t("running"), t("runsnote"), fields), basis(own.running[0] ?? {}, `${own.on} · ${whole(own.context)} tokens`), panel(own.running[0]?.model ? given(own.running[0].model) : t("formats"), `${own.on} · ${whole(own.context)} tokens`, table(columns(), own.running, { name: t("formats") })), catalog);
}
