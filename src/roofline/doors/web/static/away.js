// The download view: data, pictures, a report, and equivalent commands and Python code.
import { ask, file } from "./api.js";
import { exported } from "./exported.js";
import { asked, basis, button, choice, misfit, panel, remedies, would } from "./kit.js";
import { asks } from "./state.js";
import { address, commands, python, save, saveState } from "./take.js";
import { make, t, whole } from "./words.js";

const LAUNCHERS = ["vllm", "sglang", "trtllm", "dynamo", "k8s"];
const FRAMEWORKS = ["megatron", "bridge", "torchtitan", "deepspeed", "maxtext"];
const text = (content, label) => make("pre", { tabindex: "0", role: "region", "aria-label": label }, content);
const missing = (every) => every.map((what) => make("p", { class: "note" }, `${t("unsaid")}: ${what}`));

export async function away(node, s, signal, changed) {
  const [served, fit] = await Promise.all([ask("serve", asks.serve(s), signal), ask("fit", asks.fit(s), signal)]), link = await address(), fits = served.memory.fits;
  const said = make("p", { class: "bad", role: "alert" });
  const fetched = (name, type, route, body) => button(name, async () => {
    said.textContent = "";
    try { save(name, await file(route, body), type); } catch (error) { said.textContent = error.message; }
  });
  const table = (form) => fetched(`serve.${form}`, "application/octet-stream", "table", { name: "serve", body: s.rate ? asks.serve(s) : asks.front(s), form });
  const files = [
    button("serve.json", () => save("serve.json", JSON.stringify(served, null, 1), "application/json")), button("scenario.json", saveState),
    s.config && !s.config.gguf ? button("config.json", () => save("config.json", JSON.stringify(s.config, null, 1), "application/json")) : null,
    ...(exported ? [] : [table("csv"), table("parquet"), fetched("report.html", "text/html", "report", asks.report(s))]), button(t("print"), () => window.print()),
  ];
  const launch = () => asked(t("launch"), t("launchnote"), async () => {
    if (!fits && s.layout) return [misfit(served.memory, remedies(fit))];
    const given = await ask("launch", asks.launch(s), signal);
    return [...(fits ? [] : [make("p", { class: "bad" }, t("otherfits"))]), ...given.files.flatMap((one) => [make("div", { class: "actions" }, button(one.name, () => save(one.name, one.text, "text/plain"))), text(one.text, one.name)]), ...missing(given.missing)];
  });
  const recipe = () => asked(t("recipe"), t("recipenote"), async () => {
    const e = await ask("train", asks.train(s), signal);
    if (!e.memory.fits) return [misfit(e.memory, would((await ask("remedies", asks.remedies(s), signal)).changes.map((change) => change.detail)))];
    const given = await ask("recipe", asks.recipe(s), signal);
    return [text(given.text, given.framework), ...missing(given.missing)];
  });
  const note = s.config ? t(s.config.gguf ? "besidegguf" : "beside") : "";
  node.replaceChildren(
    ...(fits ? [] : [misfit(served.memory, remedies(fit))]), basis(served), panel(t("files"), `${whole(link.length)} ${t("characters")}`, make("div", { class: "actions" }, ...files.filter(Boolean)), said),
    panel(t("commandline"), note, text(commands(s), t("commandline"))), panel("Python", note, text(python(s), "Python")),
    ...(exported ? [] : [
      panel(t("engines"), "", make("div", { class: "pair" }, choice("launcher", t("launcher"), LAUNCHERS, changed), choice("framework", t("framework"), FRAMEWORKS, changed))), launch(), recipe(),
    ]));
}
