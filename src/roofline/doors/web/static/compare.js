// Two to four scenarios side by side, and the causes of their differences in words.
import { ask, Problem } from "./api.js";
import { basis, fitted, panel, struck } from "./kit.js";
import { asks, form, given, state } from "./state.js";
import { label, make, plain, si, significant, t, time, usd, whole } from "./words.js";

const NAMED = { on: "machine", prompt: "input" };
const title = (setting) => (setting in NAMED ? t(NAMED[setting]) : label(setting));
const value = (side, setting) => String((setting === "model" ? null : side[setting]) || "–");

// Causes of the difference between the first scenario and another, for steps with as many sequences as requests in
// flight; none if a law is set or a scenario does not fit, or if an exported page has no answer.
async function causes(i, all, signal) {
  const scenarios = [state.scenarios[0], state.scenarios[i]];
  if (scenarios.some((s) => given(s, "law") !== null) || !all[0].memory.fits || !all[i].memory.fits) return [];
  const [a, b] = scenarios.map((s, at) => ({ ...asks.side(s), batch: Math.max(1, Math.round(all[at ? i : 0].in_flight)) }));
  let d;
  try {
    d = await ask("diff", { a, b }, signal);
  } catch (error) {
    if (error instanceof Problem) return [];
    throw error;
  }
  const names = [d.a.model, d.b.model];
  const turned = (setting) => `${title(setting)} ${setting === "model" ? names.join(" → ") : `${value(a, setting)} → ${value(b, setting)}`}`;
  const change = (c) => `${c.op} ${c.b >= c.a ? "+" : "−"}${time(Math.abs(c.b - c.a))}`;
  const line = (phase) => {
    const turns = d.turns.filter((x) => x.phase === phase).map((x) => `${x.settings.map(turned).join(" + ")}: × ${significant(x.factor, 3)}`);
    const ops = d.causes.filter((x) => x.phase === phase).map(change);
    return make("li", {}, make("b", {}, phase), ` ${turns.join(", ")}${turns.length ? " · " : ""}${t("mostly")} ${ops.join(", ")}`);
  };
  const phases = [...new Set(d.causes.map((c) => c.phase))];
  return phases.length ? [make("p", {}, `A → ${"ABCD"[i]}`), make("ul", {}, ...phases.map(line))] : [];
}

export async function compare(node, s, signal) {
  if (state.scenarios.length < 2) return node.replaceChildren(panel(t("compare"), t("nothing")));
  const all = await Promise.all(state.scenarios.map((one) => ask("serve", asks.serve(one), signal)));
  const joules = (v) => (v === null ? "–" : `${significant(v, 3)} J`);
  const rows = [["TTFT", (r) => r.ttft.expected, time], ["TPOT", (r) => r.tpot.expected, time], [t("latency"), (r) => r.latency.expected, time], [t("throughput"), (r) => r.tokens_per_second, whole], [t("perchip"), (r) => r.tokens_per_second_per_chip, whole], [t("memory"), (r) => r.memory.total, (v) => si(v, "B"), true], [t("most"), (r) => r.capacity, whole, true], [`USD ${t("price")}`, (r) => r.usd_per_million_tokens, usd], [t("energy"), (r) => r.joules_per_token, joules]];
  const keys = ["model", ...Object.keys(form.settings)].filter((k) => new Set(state.scenarios.map((x) => x[k])).size > 1);
  // Figures of scenarios that do not fit are struck out and not compared, except memory.
  const fits = all.map((r) => r.memory.fits);
  const value = (of, text, real, i) => { const v = of(all[i]), first = of(all[0]); const change = i && first && v !== null && (real || (fits[0] && fits[i])) ? ` (${v >= first ? "+" : "−"}${whole(Math.abs(100 * (v / first - 1)))} %)` : ""; return struck(real || fits[i], text(v) + change); };
  const cells = [...keys.map((k) => [title(k), ...state.scenarios.map((x) => (typeof x[k] === "number" ? plain(x[k]) : typeof x[k] === "boolean" ? t(x[k] ? "yes" : "no") : x[k] || "–"))]), [t("fitting"), ...fits.map((one) => fitted(one))], ...rows.map(([name, of, text, real]) => [name, ...all.map((_, i) => value(of, text, real, i))])];
  const why = make("div", { "aria-live": "polite" });
  const heads = make("tr", {}, make("td"), ...state.scenarios.map((_, i) => make("th", { scope: "col" }, "ABCD"[i])));
  const lines = cells.map((c) => make("tr", {}, ...c.map((x, i) => make(i ? "td" : "th", i ? {} : { scope: "row" }, x))));
  node.replaceChildren(...all.map((served, i) => basis(served, "ABCD"[i])), panel(t("compare"), "", make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": t("compare") }, make("table", {}, make("thead", {}, heads), make("tbody", {}, ...lines)))), why);
  const told = await Promise.all(all.map((served, i) => (i ? causes(i, all, signal) : [])));
  if (told.flat().length) why.replaceChildren(panel(t("causes"), t("causesnote"), ...told.flat()));
  return undefined;
}
