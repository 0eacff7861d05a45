// The page: controls write the state, the state is asked, answers are shown; a newer question ends the older one.
import { ask, list, Problem } from "./api.js";
import { isDark } from "./colours.js";
import { plotly } from "./draw.js";
import { exported } from "./exported.js";
import { asks, decoded, encoded, FRESH, LONGEST_ADDRESS, MOST_SCENARIOS, now, state, take } from "./state.js";
import { address, saveState } from "./take.js";
import { cards, LONG_VIEWS, VIEWS } from "./views.js";
import { make, speak, t, whole } from "./words.js";

const $ = (id) => document.getElementById(id);
const SLIDERS = { input: [16, 131072], output: [1, 16384], concurrency: [1, 4096] };
const PATIENCE_MS = 300;
let running = null, again = false;

// -- sliders are logarithmic: 8 stops an octave
const grid = exported?.axes;
const stops = ([least, most]) => Math.round(8 * Math.log2(most / least));
const fromStop = (at, [least]) => { const x = least * 2 ** (at / 8); return x < 64 ? Math.round(x) : Number(x.toPrecision(2)) === x ? x : Math.round(x / 8) * 8; };
const toStop = (value, [least]) => Math.round(8 * Math.log2(value / least));

// A page without a server has the stops that were computed.
const limit = (name, span) => (grid?.[name] ? grid[name].length - 1 : stops(span));
const at = (name, span) => (grid?.[name] ? Math.max(0, grid[name].indexOf(now()[name])) : toStop(now()[name], span));
const value = (name, span) => (grid?.[name] ? grid[name][Number($(name).value)] : fromStop(Number($(name).value), span));

function show() {
  const s = now();
  for (const name of ["model", "on", "layout", "engine", "precision", "law", "rate", "phase", "ttft", "tpot", "price", "grid", "pue"]) $(name).value = s[name] ?? "";
  if (s.config) $("model").value = s.config.gguf ? `GGUF (${s.config.gguf.metadata?.["general.name"] ?? "?"})` : `config.json (${s.config.model_type ?? "?"})`;
  for (const [name, span] of Object.entries(SLIDERS)) {
    Object.assign($(name), { min: 0, max: limit(name, span), step: 1, value: at(name, span) });
    label(name);
  }
  const pick = (_, i) => make("button", { type: "button", "aria-pressed": String(i === state.at), onclick: () => { state.at = i; show(); changed(); } }, "ABCD"[i]);
  const add = state.scenarios.length < MOST_SCENARIOS ? make("button", { type: "button", onclick: () => { state.scenarios.push({ ...now() }); state.at = state.scenarios.length - 1; show(); changed(); } }, `+ ${t("add")}`) : null;
  const drop = state.scenarios.length > 1 ? make("button", { type: "button", onclick: () => { state.scenarios.splice(state.at, 1); state.at = 0; show(); changed(); } }, t("remove")) : null;
  $("scenarios").replaceChildren(...[...(state.scenarios.length > 1 ? state.scenarios.map(pick) : []), add, drop].filter(Boolean));
  tabs();
}

function label(name) {
  document.querySelector(`output[for=${name}]`).textContent = whole(now()[name]);
  $(name).setAttribute("aria-valuetext", whole(now()[name]));
}

function tabs() {
  const names = exported?.views ?? Object.keys(VIEWS);
  if (!names.includes(state.view)) state.view = "overview";
  const focused = document.activeElement?.getAttribute("role") === "tab";
  const go = (name) => { state.view = name; tabs(); changed(); };
  const key = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) go(names[(names.indexOf(state.view) + step + names.length) % names.length]);
  };
  $("tabs").replaceChildren(...names.map((name) => make("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "view", "aria-selected": String(name === state.view), tabindex: name === state.view ? "0" : "-1", onclick: () => go(name), onkeydown: key }, t(name))));
  $("view").setAttribute("aria-labelledby", `tab-${state.view}`);
  if (focused) $(`tab-${state.view}`).focus();
}

// One question is out at a time and the newest waits, so that pictures follow a slider however fast it moves; a view
// that takes long is given up at once for a newer question.
function changed() {
  encoded().then((text) => { if (text.length <= LONGEST_ADDRESS) history.replaceState(null, "", `#${text}`); });
  if (running && !LONG_VIEWS.has(running.view) && performance.now() - running.since < PATIENCE_MS) again = true;
  else update();
}

async function update() {
  running?.abort();
  const mine = (running = Object.assign(new AbortController(), { view: state.view, since: performance.now() })), s = now();
  again = false;
  $("verdict").classList.add("old");
  $("view").classList.add("old");
  try {
    const node = attached(make("div"));
    await Promise.all([head(s, mine), VIEWS[state.view](node, s, mine.signal, changed)]);
    if (mine !== running) return;
    $("problem").hidden = true;
  } catch (error) {
    if (mine !== running || error.name === "AbortError") return;
    $("problem").textContent = error instanceof Problem ? error.message : String(error);
    $("problem").hidden = false;
  }
  running = null;
  if (again) { update(); return; }
  $("verdict").classList.remove("old");
  $("view").classList.remove("old");
  document.body.dataset.ready = String(Number(document.body.dataset.ready ?? 0) + 1);
}

async function head(s, mine) {
  const [served, fit] = await Promise.all([ask("serve", asks.serve(s), mine.signal), ask("fit", asks.fit(s), mine.signal)]);
  if (mine !== running) return;
  const fits = served.memory.fits, limits = [["ttft", "TTFT"], ["tpot", "TPOT"]].filter(([key]) => s[key]).map(([key, name]) => `${name} ${served[key].expected * 1e3 <= s[key] ? "≤" : ">"} ${s[key]} ms`);
  const line = make("h2", { class: "headline" }, `${served.model || "config.json"} · ${s.on}: `, make("span", { class: fits ? "good" : "bad" }, t(fits ? "fits" : "misfits")), make("small", {}, [served.deployment.layout, served.engine, `${s.input} → ${s.output} tokens`, `${served.in_flight} ${t("inflight")}`, ...limits].join(" · ")));
  $("verdict").replaceChildren(line, cards(served, fit));
}

// The old picture stays until the first piece of the new one is there.
function attached(node) {
  const swap = () => { if (node.parentNode !== $("view")) $("view").replaceChildren(node); };
  new MutationObserver(swap).observe(node, { childList: true });
  const fill = node.replaceChildren.bind(node);
  node.replaceChildren = (...children) => { fill(...children); swap(); };
  return node;
}

function config(text) {
  try {
    const given = JSON.parse(text);
    if (!given || typeof given !== "object" || Array.isArray(given)) throw new Error("expected a JSON object");
    if (Array.isArray(given.scenarios)) take(given);
    else Object.assign(now(), { config: given });
    show();
    changed();
  } catch (error) {
    $("problem").textContent = `config.json: ${error.message}`;
    $("problem").hidden = false;
  }
}

function say(text) {
  $("said").textContent = text;
  setTimeout(() => ($("said").textContent = ""), 2500);
}

function wire() {
  if (!exported) $("use").addEventListener("click", () => config($("config").value));
  if (!exported) $("file").addEventListener("change", async () => { if ($("file").files[0]) config(await $("file").files[0].text()); });
  if (!exported) {
    $("use").addEventListener("click", () => config($("config").value));
    $("file").addEventListener("change", () => opened($("file").files[0]));
  }
  for (const name of ["on", "layout", "engine", "precision", "law", "phase", "price", "grid"]) $(name).addEventListener("change", () => { now()[name] = $(name).value.trim(); changed(); });
  $("model").addEventListener("change", () => { Object.assign(now(), { model: $("model").value.trim(), config: null }); changed(); });
  for (const name of ["rate", "ttft", "tpot", "pue"]) $(name).addEventListener("change", () => { now()[name] = Number($(name).value) > 0 ? Number($(name).value) : null; changed(); });
  for (const [name, span] of Object.entries(SLIDERS)) $(name).addEventListener("input", () => { now()[name] = value(name, span); label(name); changed(); });
  $("choose").addEventListener("submit", (event) => event.preventDefault());
  $("choose").addEventListener("dragover", (event) => { event.preventDefault(); $("choose").classList.add("dropping"); });
  $("choose").addEventListener("dragleave", () => $("choose").classList.remove("dropping"));
  $("choose").addEventListener("drop", async (event) => { event.preventDefault(); $("choose").classList.remove("dropping"); await opened(event.dataTransfer.files[0]); });
  $("theme").addEventListener("click", () => { const theme = isDark() ? "light" : "dark"; document.documentElement.dataset.theme = theme; localStorage.setItem("theme", theme); update(); });
  $("language").addEventListener("change", async () => { localStorage.setItem("language", $("language").value); await speak($("language").value); show(); update(); });
  $("copy").addEventListener("click", async () => {
    const link = await address();
    if (link.length > LONGEST_ADDRESS) { saveState(); say(t("long")); return; }
    await navigator.clipboard?.writeText(link).catch(() => {});
    say(t("copied"));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  addEventListener("hashchange", async () => { await decoded(location.hash).catch(() => {}); show(); changed(); });
}

// Without a server: what was computed can be chosen, the rest is read.
function confine() {
  for (const id of ["model", "layout", "engine", "precision", "law", "output", "rate", "price", "grid", "pue"]) $(id).disabled = true;
  $("paste").remove();
  const choose = make("select", { id: "on", name: "on" }, ...grid.on.map((value) => make("option", { value }, value)));
  $("on").replaceWith(choose);
  $("choose").prepend(make("p", { class: "note" }, t("computed")));
}

// A config.json as it is; of a GGUF file the beginning, of which the server reads the header alone.
const LARGEST_CONFIG = 256 * 1024, LARGEST_HEADER = 16 * 2 ** 20;
async function opened(file) {
  if (!file || exported) return;
  if (!file.name.toLowerCase().endsWith(".gguf")) { config(file.size <= LARGEST_CONFIG ? await file.text() : "[]"); return; }
  try {
    const url = await new Promise((done, fail) => { const reader = new FileReader(); reader.onload = () => done(reader.result); reader.onerror = () => fail(reader.error); reader.readAsDataURL(file.slice(0, LARGEST_HEADER)); });
    const given = await ask("gguf", { head: url.slice(url.indexOf(",") + 1), size: file.size });
    Object.assign(now(), { config: given.model, precision: "" });
    show();
    changed();
  } catch (error) {
    $("problem").textContent = error.message;
    $("problem").hidden = false;
  }
}

async function choices() {
  const [models, chips, clusters, engines] = await Promise.all(["models", "chips", "clusters", "engines"].map(list));
  $("models").replaceChildren(...models.models.map((m) => make("option", { value: m.id })));
  $("machines").replaceChildren(...["here", ...chips.chips.map((c) => c.id), ...chips.chips.map((c) => `8x${c.id}`), ...clusters.clusters.map((c) => c.name)].map((value) => make("option", { value })));
  $("engine").append(...engines.map((name) => make("option", { value: name }, name)));
}

const language = localStorage.getItem("language") ?? navigator.language.slice(0, 2);
$("language").value = ["en", "de", "zh", "ja"].includes(language) ? language : "en";
await speak($("language").value);
await decoded(location.hash).catch(() => take({ scenarios: [FRESH] }));
if (exported) confine();
wire();
show();
await update();
await choices().catch((error) => say(error.message));
$("engine").value = now().engine;
(globalThis.requestIdleCallback ?? setTimeout)(() => plotly().catch(() => {}));
