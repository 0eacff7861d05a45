// The verdict on a scenario, shown before its figures: whether the model fits and in which formats, what would make it
// fit, and the first answer of `roofline MODEL --on MACHINE`.
import { ask } from "./api.js";
import { promised } from "./draw.js";
import { exported } from "./exported.js";
import { basis, fitted, gained, remedies, would } from "./kit.js";
import { asks, form, given, learn, readsWhole } from "./state.js";
import { firstCommand } from "./take.js";
import { cards, readCards } from "./views.js";
import { decimals, label, make, plain, seconds, share, t, time, usd, whole } from "./words.js";

export const loaded = (s) => (s.rate ? `${plain(s.rate)} ${t("rates")}` : `${whole(s.concurrency)} ${t("inflight")}`);
const deployed = (served) => served.deployment?.layout ?? `${whole(served.prefills)} × ${served.prefill.layout} (prefill) + ${whole(served.decodes)} × ${served.decode.layout}`;

// Describes the load and the rule by which a server's times are computed.
function assumedLoad(s, served) {
  const formula = s.formula ?? true;
  if (!served.deployment) return loaded(s);
  if (s.rate) return `${plain(s.rate)} ${t(formula ? "assumerateformula" : "assumerate")}`;
  return formula ? `${whole(s.concurrency)} ${t("assumeload")}` : `${loaded(s)} · ${t("assumeinstep")}`;
}

function limits(s, served) {
  const times = Object.keys(form.settings).filter((name) => form.settings[name].group === "slo" && form.settings[name].unit === "s" && seconds(given(s, name)));
  return times.map((name) => { const is = promised(served, name, s); return `${label(name).replace(/.SLO$/, "")}${is.of} ${is.expected <= seconds(s[name]) ? "≤" : ">"} ${time(seconds(s[name]))}`; });
}

// Of a model that reads its input as a whole.
async function readVerdict(s, signal) {
  const e = await ask("encode", asks.encode(s), signal), fits = e.memory.fits, which = `${e.model || "config.json"} · ${s.on}`, said = fitted(fits, e.formats);
  const small = make("small", {}, [e.deployment.layout, e.engine, `${whole(e.batch)} × ${whole(e.positions)} ${t("positions")}`].join(" · "), make("span", { class: "was" }, ` · ${t("previous")}`));
  return [make("h2", { class: "headline" }, ...(fits ? [`${which}: `, said] : [said, `: ${which}`]), small), readCards(e), basis(e)];
}

export async function verdict(s, signal) {
  const both = Promise.all([ask("serve", asks.serve(s), signal), ask("fit", asks.fit(s), signal)]);
  both.catch(() => {}); // a model that reads its input as a whole has neither
  const known = await ask("limits", asks.limits(s), signal);
  if (readsWhole(known)) {
    learn(known);
    return readVerdict(s, signal);
  }
  const [served, fit] = await both;
  const fits = served.memory.fits, tokens = `${whole(s.input)} → ${whole(s.output_tokens)} tokens`, which = `${served.model || "config.json"} · ${s.on}`, said = fitted(fits, fit.formats);
  const small = make("small", {}, [deployed(served), served.engine, tokens, `${whole(served.in_flight)} ${t("inflight")}`, ...limits(s, served)].join(" · "), make("span", { class: "was" }, ` · ${t("previous")}`));
  const line = make("h2", { class: "headline" }, ...(fits ? [`${which}: `, said] : [said, `: ${which}`]), small);
  return [line, fits ? null : remedies(fit), firstAnswer(s), cards(served, fit), basis(served, tokens, assumedLoad(s, served))].filter(Boolean);
}

// -- the first answer: asked when the controls rest, as a search takes longer than the figures
const RESTING_MS = 400;
let shown = { key: "", node: null };
function firstAnswer(s) {
  if (exported) return null;
  const body = asks.answer(s), key = document.documentElement.lang + JSON.stringify(body);
  if (key === shown.key) return shown.node;
  shown.control?.abort();
  clearTimeout(shown.timer);
  const node = make("section", { class: "first", "aria-busy": "true", "aria-label": t("firstanswer") }, make("p", { class: "note" }, t("working"), make("progress", { "aria-label": t("working") }))), control = new AbortController();
  const fill = async () => {
    try {
      const answer = await ask("answer", body, control.signal);
      node.replaceChildren(...firstLines(s, answer, answer.machines[0]));
    } catch (error) {
      if (error.name === "AbortError") return;
      node.replaceChildren(make("p", { class: "note" }, error.message));
    }
    node.setAttribute("aria-busy", "false");
  };
  shown = { key, node, control, timer: setTimeout(fill, RESTING_MS) };
  return node;
}

function firstLines(s, answer, m) {
  const p = m.plan, lines = [[t("fitting"), m.fits ? [make("span", { class: "good" }, t("yes")), `, ${m.formats ? `${m.formats}, ${t("maychange")}` : t("ownformats")}`] : [make("span", { class: "bad" }, t("no")), would(m.remedies)]]];
  if (m.user_tokens_per_second !== null) lines.push([t("oneuser"), `${whole(m.user_tokens_per_second)} tokens/s · TTFT ${time(m.user_ttft)}`]);
  if (m.fits) lines.push([t("highestload"), p ? `${whole(p.tokens_per_second)} tokens/s · ${whole(p.concurrency)} ${t("inflight")} · ${t("chance")} ${share(p.chance).replace(" ", "\u00a0")}` : make("span", { lang: "en" }, m.why)]);
  if (m.bound !== null) lines.push([t("bound"), `${m.bound} (${m.bound_by}: ${share(m.bound_share)})`]);
  if (p?.usd_per_million_output) lines.push([t("priced"), `${usd(p.usd_per_million_input)} ${t("perprompt")}, ${usd(p.usd_per_million_output)} ${t("generated")} · ${usd(p.usd_per_hour)} ${t("anhour")}`]);
  if (m.change !== null) lines.push([t("helpsmost"), [make("span", { lang: "en" }, m.change), ": ", make("code", {}, m.option), ` (× ${decimals(m.gain, 2)} ${gained(m)})`]]);
  const kept = [["TTFT", answer.ttft_limit], ["TPOT", answer.tpot_limit], [t("latency"), answer.latency_limit]].filter(([, most]) => most !== null).map(([name, most]) => `${name} ≤ ${time(most)}`).join(", ");
  const whose = `${answer.attainment === null ? t("waysmean") : `${share(answer.attainment)} ${t("waysof")}`} ${kept}`;
  return [
    make("h3", {}, t("firstanswer"), make("code", {}, firstCommand(s))),
    make("dl", {}, ...lines.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, ...[value].flat())))),
    basis({ engine: m.engine, grade: m.grade, assumed_popularity: answer.assumed_popularity, cost_assumptions: p?.cost_assumptions }, whose),
  ];
}
