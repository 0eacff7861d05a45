// Views whose answers take a while: the server ends the work when they are left.
import { ask } from "./api.js";
import * as bars from "./bars.js";
import * as draw from "./draw.js";
import { asked, card, cardsOf, gap, given, number, panel, pictured } from "./kit.js";
import { asks } from "./state.js";
import { table } from "./table.js";
import { between, make, share, si, t, time, usd, whole } from "./words.js";

export async function training(node, s, signal, changed) {
  const fields = make("div", { class: "pair" }, number("trainBatch", t("sequences"), 1, 1e6, changed), number("trainTokens", t("tokenseach"), 1, 1e7, changed));
  const top = panel(t("training"), "", fields);
  if (!document.querySelector("#view #more-trainBatch")) node.replaceChildren(top);
  const e = await ask("train", asks.train(s), signal), [bar, plot] = pictured(t("terms"), [`${e.deployment.layout}: `, make("span", { class: e.memory.fits ? "good" : "bad" }, t(e.memory.fits ? "fits" : "misfits"))], "bars");
  const work = (r) => time(r.passes.backward.expected), weights = (r) => time(r.passes.weight.expected);
  const stages = table([
    { name: t("stage"), of: (r) => r.stage, text: whole }, { name: t("layers"), of: (r) => r.layers, text: whole }, { name: t("memory"), of: (r) => r.memory.total, text: (v) => si(v, "B") },
    { name: t("activations"), of: (r) => r.memory.activations, text: (v) => si(v, "B") }, { name: t("forward"), of: (r) => r.passes.forward.expected, text: time }, { name: t("backward"), of: (r) => r.passes.backward.expected, text: (v) => time(v) }, { name: t("weightgrads"), of: (r) => r.passes.weight.expected, text: time },
  ], e.stages, { name: t("stages") });
  const [course, lines] = pictured(t("timeline"), t("timelinenote"));
  const search = asked(t("layouts"), s.on, async () => {
    const found = await ask("layouts", asks.layouts(s), signal);
    return [make("p", { class: "note" }, `${whole(found.considered)} ${t("considered")}`), table([
      { name: t("layout"), of: (r) => r.layout }, { name: t("microbatch"), of: (r) => r.micro_batch, text: whole }, { name: t("recompute"), of: (r) => r.recompute }, { name: t("schedule"), of: (r) => r.schedule },
      { name: t("chips"), of: (r) => r.chips, text: whole }, { name: t("step"), of: (r) => r.seconds, text: time }, { name: t("memory"), of: (r) => r.bytes, text: (v) => si(v, "B") },
    ], found.plans, { name: t("layouts") })];
  });
  node.replaceChildren(top, cardsOf(card(t("step"), time(e.time.expected), between(e.time)), card("MFU", share(e.mfu), `${t("bubble")} ${share(e.bubble)}`), card("tokens/s", whole(e.tokens_per_second), `${whole(e.tokens_per_second_per_chip)} ${t("perchip")}`), card("USD", usd(e.usd_per_million_tokens), t("price"))),
    gap(), bar, panel(t("stages"), "", stages), course, search);
  bars.memoryBar(plot, e.memory);
  await ask("timeline", asks.train(s), signal).then((passes) => draw.timeline(lines, passes), (error) => { if (error.name === "AbortError") throw error; lines.replaceChildren(make("p", { class: "note" }, error.message)); });
}

export async function simulation(node, s, signal, changed) {
  const top = panel(t("simulation"), "", make("div", { class: "pair" }, number("requests", t("requests"), 1, 2000, changed), number("seed", t("seed"), 0, 2 ** 31, changed)));
  if (!document.querySelector("#view #more-requests")) node.replaceChildren(top);
  const e = await ask("simulate", asks.simulate(s), signal), [over, plot] = pictured(t("overtime"), e.traffic);
  const names = [["ttft", "TTFT"], ["tpot", "TPOT"], ["inter_token", t("intertoken")], ["latency", t("latency")], ["queue", t("queue")]];
  node.replaceChildren(top, cardsOf(card(t("rates"), e.requests_per_second.toFixed(2), `${e.requests} ${t("requests")}`), card("tokens/s", whole(e.tokens_per_second), `${whole(e.tokens_per_second_per_chip)} ${t("perchip")}`), card(t("utilization"), share(e.utilization), `${e.preemptions} ${t("preemptions")}`), card(t("instep"), e.running.toFixed(1), e.overloaded ? t("overloaded") : "", e.overloaded ? "bad" : "")), gap(),
    panel(t("percentiles"), "", table([{ name: t("figure"), of: (r) => r[1] }, ...["mean", "p50", "p90", "p95", "p99"].map((q) => ({ name: q === "mean" ? t("mean") : q, of: (r) => e[r[0]][q], text: time }))], names, { name: t("percentiles") })), over);
  await draw.course(plot, e.timeline);
}

export async function advice(node, s, signal) {
  node.replaceChildren(panel(t("advice"), t("working")));
  const [best, ways] = await Promise.all([ask("advice", asks.advice(s), signal), ask("search", asks.search(s), signal)]);
  const factor = (v) => (v === null ? "–" : `× ${v.toFixed(2)}`);
  node.replaceChildren(panel(t("advice"), t("factors"), cardsOf(...best.changes.slice(0, 3).map((c) => card(given(c.what), factor(c.per_chip), c.option)))),
    panel(t("changes"), t("factors"), table([{ name: t("change"), of: (r) => r.what }, { name: t("option"), of: (r) => r.option }, { name: t("perchip"), of: (r) => r.per_chip, text: factor }, { name: "TPOT", of: (r) => r.tpot, text: factor }, { name: "TTFT", of: (r) => r.ttft, text: factor }, { name: t("memory"), of: (r) => r.memory, text: (v) => si(v, "B") }], best.changes, { name: t("changes") })),
    panel(t("ways"), `${s.on}: ${whole(ways.considered)} ${t("considered")}`, table([{ name: t("layout"), of: (r) => [r.prefill_layout ? `${r.prefills} × ${r.prefill_layout} (prefill)` : "", `${r.replicas} × ${r.layout}`].filter(Boolean).join(" + ") }, { name: t("chips"), of: (r) => r.chips, text: whole }, { name: "TTFT", of: (r) => r.ttft.expected, text: time }, { name: "TPOT", of: (r) => r.tpot.expected, text: time }, { name: t("perchip"), of: (r) => r.tokens_per_second_per_chip, text: whole }, { name: `USD ${t("permillion")}`, of: (r) => r.usd_per_million_tokens, text: usd }, { name: t("limit"), of: (r) => r.limit }], ways.plans, { name: t("ways") })));
}

// What runs on a machine: this model in every format at once, the catalog in pieces as they are worked out.
export async function running(node, s, signal, changed) {
  const fields = make("div", { class: "pair" }, number("runsContext", t("context"), 2, 1e7, changed));
  const columns = (...first) => [
    ...first, { name: t("format"), of: (r) => r.format }, { name: t("weights"), of: (r) => r.weights, text: (v) => si(v, "B") }, { name: t("memory"), of: (r) => r.memory, text: (v) => si(v, "B") },
    { name: "TTFT", of: (r) => r.ttft?.expected ?? null, text: time }, { name: "tokens/s", of: (r) => r.tokens_per_second, text: (v) => (v === null ? "–" : v.toFixed(1)) }, { name: t("fitting"), of: (r) => t(r.fits ? "fits" : "misfits") }, { name: t("grade"), of: (r) => r.grade ?? "–" },
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
  node.replaceChildren(panel(t("running"), t("runsnote"), fields), panel(own.running[0]?.model ? given(own.running[0].model) : t("formats"), `${own.on} · ${whole(own.context)} tokens`, table(columns(), own.running, { name: t("formats") })), catalog);
}
