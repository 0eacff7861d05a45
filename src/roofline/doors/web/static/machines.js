// Which machine to rent for a demand as people say it: a row for each, the cheapest first, as `roofline machines` has them.
import { ask } from "./api.js";
import { basis, choice, number, panel } from "./kit.js";
import { asks, form } from "./state.js";
import { table } from "./table.js";
import { line } from "./take.js";
import { localised, make, share, significant, t, time, usd, whole } from "./words.js";

export async function machines(node, s, signal, changed) {
  const byDay = s.demandBy !== "users";
  const fields = make("div", { class: "pair" },
    choice("demandBy", t("demandby"), { users: t("users"), day: t("requestsaday") }, changed),
    byDay ? number("requestsADay", t("requestsaday"), 1, 1e9, changed) : number("users", t("users"), 1, 1e6, changed),
    choice("work", t("work"), Object.fromEntries(form.work.map((name) => [name, t(`work_${name}`)])), changed),
    choice("reads", t("reads"), { no: t("no"), yes: t("yes") }, changed));
  const top = panel(t("machines"), t("machinesnote"), fields), body = asks.machines(s), place = make("div", {}, make("p", { class: "note" }, t("working"), make("progress", { "aria-label": t("working") })));
  node.replaceChildren(top, place);
  const found = await ask("machines", body, signal);
  place.replaceChildren(...answered(s, found, body));
}

function answered(s, found, body) {
  const able = found.machines.filter((row) => row.plan), unable = found.machines.filter((row) => !row.plan);
  const mark = (row) => (row.equal ? "≈" : row === able[0] ? "1" : ""), plan = (name, text) => ({ of: (row) => row.plan[name], text });
  const watts = (row) => `${whole(row.plan.power)} W (${whole(row.power_low)} – ${whole(row.power_high)})`;
  const load = found.in_flight === null ? `${significant(found.requests_per_second, 3)} ${t("rates")}` : `${whole(found.in_flight)} ${t("inflight")}`;
  const limits = [["TTFT", found.ttft_limit], ["TPOT", found.tpot_limit], [t("latency"), found.latency_limit]].filter(([, most]) => most !== null).map(([name, most]) => `${name} ≤ ${time(most)}`);
  const cached = found.prefix ? ` (${share(found.prefix)} ${t("cached")})` : "";
  const whose = found.attainment === null ? t("waysmean") : `${share(found.attainment)} ${t("waysof")}`;
  const rows = table([
    { name: "", of: mark }, { name: t("machine"), of: (row) => row.machine, word: true, text: String },
    { name: t("usdhour"), ...plan("usd_per_hour", usd) }, { name: t("usdmonth"), of: (row) => row.usd_per_month, text: usd }, { name: t("layout"), of: (row) => `${whole(row.plan.replicas)} × ${row.plan.layout}` }, { name: t("chips"), ...plan("chips", whole) },
    { name: t("chance"), ...plan("chance", share) }, { name: t("power"), of: watts, text: String },
    { name: "TTFT", of: (row) => row.plan.ttft.expected, text: time }, { name: "TPOT", of: (row) => row.plan.tpot.expected, text: time }, { name: `USD ${t("price")}`, ...plan("usd_per_million_tokens", usd) },
  ], able, { name: t("machines") });
  const legend = able.some((row) => row.equal) ? [make("p", { class: "note" }, t("equal"))] : [];
  const cheapest = able[0]?.plan;
  const command = make("pre", { tabindex: "0", role: "region", "aria-label": t("commandline") }, line("machines", s, body));
  return [
    panel(able.length ? t("serving_it") : t("noneserves"), `${t(`work_${found.work}`)}: ${load} · ${whole(found.input)} → ${whole(found.output)} tokens${cached} · ${whose} ${limits.join(", ")}`, ...(able.length ? [rows] : []), ...legend,
      ...(cheapest ? [basis({ engine: cheapest.engine, assumed_popularity: found.assumed_popularity, cost_assumptions: cheapest.cost_assumptions.map((each) => `${able[0].machine}: ${each}`) }, t("assumetrace"))] : []), command),
    ...(unable.length ? [panel(t("notserving"), "", table([{ name: t("machine"), of: (row) => row.machine }, { name: t("why"), of: (row) => localised(row.why), word: true, text: (why) => make("span", { lang: "en" }, why) }], unable, { name: t("notserving") }))] : []),
  ];
}
