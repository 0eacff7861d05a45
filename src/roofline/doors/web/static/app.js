// The page: controls change the state, requests follow from the state, and a newer update aborts the older one.
import { ask, list, Problem } from "./api.js";
import { isDark } from "./colours.js";
import { plotly } from "./draw.js";
import { exported } from "./exported.js";
import * as controls from "./form.js";
import { asks, decoded, encoded, FRESH, learn, lengths, LONGEST_ADDRESS, MOST_SCENARIOS, now, readsWhole, state, take, unasked } from "./state.js";
import { address, saveState } from "./take.js";
import { loaded, verdict } from "./verdict.js";
import { LONG_VIEWS, VIEWS } from "./views.js";
import { label, make, speak, t, whole } from "./words.js";

const $ = (id) => document.getElementById(id);
const { SLIDERS } = controls;
const PATIENCE_MS = 300;
let running = null, again = false, touched = false, viewShown = null;
const answered = { verdict: null, view: null }, settled = { verdict: "", view: "" };

// -- logarithmic sliders: 8 stops per factor of 2; the last stop is the maximum itself
const grid = exported?.axes;
const BESIDE = { input: "output_tokens", output_tokens: "input" };
// Range of a slider; prompt plus output must not exceed the model's context, so that both ends are valid.
function span(name) {
  const [least, most] = SLIDERS[name];
  if (!BESIDE[name] || !lengths.longest) return [least, most];
  const end = Math.max(1, Math.min(most, lengths.longest - now()[BESIDE[name]]));
  return [Math.min(least, end), end];
}
const stops = ([least, most]) => Math.ceil(8 * Math.log2(most / least));
const fromStop = (at, [least, most]) => { const x = least * 2 ** (at / 8); return at >= stops([least, most]) ? most : Math.min(most, x < 64 ? Math.round(x) : Number(x.toPrecision(2)) === x ? x : Math.round(x / 8) * 8); };
const toStop = (value, [least, most]) => (value >= most ? stops([least, most]) : Math.round(8 * Math.log2(value / least)));

// On an exported page the stops are the grid's values.
const limit = (name) => (grid?.[name] ? grid[name].length - 1 : stops(span(name)));
const at = (name) => (grid?.[name] ? Math.max(0, grid[name].indexOf(now()[name])) : toStop(now()[name], span(name)));
const value = (name) => (grid?.[name] ? grid[name][Number($(name).value)] : fromStop(Number($(name).value), span(name)));
function sliders() {
  for (const name of Object.keys(SLIDERS)) {
    Object.assign($(name), { min: 0, max: limit(name), step: 1 });
    if (value(name) !== now()[name]) $(name).value = at(name); // several stops may have the same value: keep the chosen one
    stopped(name);
  }
}

// Fetches the model's maximum context and shortens the chosen lengths to it, the prompt first.
async function shorten(s, mine) {
  const known = await ask("limits", asks.limits(s), mine.signal), { context } = known;
  if (mine !== running) return;
  const sweepsOthers = context !== lengths.longest && state.view === "sweep", before = readsWhole(lengths);
  learn(known);
  if (!exported && readsWhole(lengths) !== before) { // the other kind of model: show what it does
    state.view = before ? "overview" : "encoding";
    tabs();
    again = true;
  }
  const long = context && !exported && s.input + s.output_tokens > context;
  if (long) {
    s.input = Math.max(1, context - s.output_tokens);
    s.output_tokens = Math.min(s.output_tokens, context - s.input);
  }
  if (long || sweepsOthers) again = true;
  sliders();
}

function show() {
  const s = now();
  controls.write(s);
  $("phase").value = s.phase;
  $("model").value = s.config ? named(s) : s.model;
  sliders();
  const pick = (_, i) => make("button", { type: "button", "aria-pressed": String(i === state.at), onclick: () => { state.at = i; show(); changed(); } }, "ABCD"[i]);
  const add = state.scenarios.length < MOST_SCENARIOS ? make("button", { type: "button", onclick: () => { state.scenarios.push({ ...now() }); state.at = state.scenarios.length - 1; show(); changed(); } }, `+ ${t("add")}`) : null;
  const drop = state.scenarios.length > 1 ? make("button", { type: "button", onclick: () => { state.scenarios.splice(state.at, 1); state.at = 0; show(); changed(); } }, t("remove")) : null;
  $("scenarios").replaceChildren(...[...(state.scenarios.length > 1 ? state.scenarios.map(pick) : []), add, drop].filter(Boolean));
  tabs();
}

function stopped(name) {
  document.querySelector(`output[for=${name}]`).textContent = whole(now()[name]);
  $(name).setAttribute("aria-valuetext", whole(now()[name]));
}

function tabs() {
  const names = exported?.views ?? Object.keys(VIEWS);
  if (!names.includes(state.view)) state.view = "overview";
  const focused = document.activeElement?.getAttribute("role") === "tab";
  const go = (name) => { state.view = name; tabs(); changed(); };
  const key = (event) => {
    const at = names.indexOf(state.view), to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    go(names.at(to % names.length));
  };
  $("tabs").replaceChildren(...names.map((name) => make("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "view", "aria-selected": String(name === state.view), tabindex: name === state.view ? "0" : "-1", onclick: () => go(name), onkeydown: key }, t(name))));
  $("view").setAttribute("aria-labelledby", `tab-${state.view}`);
  if (focused) $(`tab-${state.view}`).focus();
}

// One update runs at a time and the newest one waits for it, so that pictures follow a fast slider. Views that take long
// are aborted at once.
function changed() {
  encoded().then((text) => { if (text.length <= LONGEST_ADDRESS) history.replaceState(null, "", `#${text}`); });
  if (running && !LONG_VIEWS.has(running.view) && performance.now() - running.since < PATIENCE_MS) again = true;
  else update();
}

async function update() {
  running?.abort();
  const mine = (running = Object.assign(new AbortController(), { view: state.view, since: performance.now() })), s = now(), viewed = { ...s };
  again = touched = false;
  if (viewShown !== state.view) {
    viewShown = state.view;
    answered.view = null;
    $("view").replaceChildren(make("p", { class: "note working" }, t("working")));
  }
  fade();
  const known = shorten(s, mine);
  known.catch(() => {});
  const node = attached(make("div"));
  let problem = null;
  const part = async (name, work) => {
    try {
      await work;
      if (mine !== running) return;
      answered[name] = { ...s };
      settled[name] = "";
      if (!again && !touched) aged(name);
    } catch (error) {
      await known.catch(() => {});
      if (mine !== running || again || error.name === "AbortError") return;
      problem ??= error instanceof Problem ? error.message : String(error);
      complain(problem);
      settled[name] = "wrong";
      aged(name, "wrong");
    }
  };
  await Promise.all([part("verdict", head(s, mine)), part("view", VIEWS[state.view](node, viewed, mine.signal, changed)), known.catch(() => {})]);
  if (mine !== running) return;
  running = null;
  if (again) { update(); return; }
  if (problem === null) $("problem").hidden = true;
  const left = unasked(viewed).map(label).join(", ");
  $("view-without").textContent = left ? `${t("notasked")}: ${left}` : "";
  document.body.dataset.ready = String(Number(document.body.dataset.ready ?? 0) + 1);
}

// Fades what is shown at once when a control is touched; `restore` undoes it where nothing was changed after all.
function fade() {
  for (const name of ["verdict", "view"]) aged(name, "old");
}
function restore() {
  if (running) return;
  touched = false;
  for (const name of ["verdict", "view"]) aged(name, settled[name]);
}

// Marks an answer as current (""), `old` while a newer one is computed, or `wrong` if that failed; then its scenario is shown.
function aged(name, how = "") {
  const node = $(name), wrong = how === "wrong";
  node.classList.toggle("old", how !== "");
  node.classList.toggle("wrong", wrong);
  node.setAttribute("aria-busy", String(how === "old"));
  const s = wrong ? answered[name] : null;
  $(`${name}-was`).textContent = s ? `${t("previousfor")} ${[named(s), s.on, s.layout, `${whole(s.input)} → ${whole(s.output_tokens)} tokens`, loaded(s)].filter(Boolean).join(" · ")}` : "";
  if (wrong && !s) node.replaceChildren(...[...node.children].filter((child) => child.querySelector("input")));
}

const named = (s) => (s.config?.gguf ? `GGUF (${s.config.gguf.metadata?.["general.name"] ?? "?"})` : s.config ? `config.json (${s.config.model_type ?? "?"})` : s.model);

function complain(text) {
  $("problem").textContent = text;
  $("problem").hidden = false;
}

async function head(s, mine) {
  const children = await verdict(s, mine.signal);
  if (mine === running) $("verdict").replaceChildren(...children);
}

// Keeps the old picture until the first part of the new one is ready.
function attached(node) {
  const swap = () => { if (node.parentNode !== $("view")) focused(() => $("view").replaceChildren(node)); };
  new MutationObserver(swap).observe(node, { childList: true });
  const fill = node.replaceChildren.bind(node);
  node.replaceChildren = (...children) => { focused(() => fill(...children)); swap(); };
  return node;
}

// Keeps the focus in the field of the same name when the fields of a view are made anew.
function focused(draw) {
  const { id } = document.activeElement;
  draw();
  if (id && document.activeElement.id !== id) document.getElementById(id)?.focus({ preventScroll: true });
}

function config(text) {
  try {
    const pasted = JSON.parse(text);
    if (!pasted || typeof pasted !== "object" || Array.isArray(pasted)) throw new Error("expected a JSON object");
    if (Array.isArray(pasted.scenarios)) take(pasted);
    else Object.assign(now(), { config: pasted });
    show();
    changed();
  } catch (error) {
    complain(`config.json: ${error.message}`);
  }
}

function say(text) {
  $("said").textContent = text;
  setTimeout(() => ($("said").textContent = ""), 2500);
}

function wire() {
  if (!exported) {
    $("use").addEventListener("click", () => config($("config").value));
    $("file").addEventListener("change", () => opened($("file").files[0]));
  }
  controls.wire(changed);
  $("phase").addEventListener("change", () => { now().phase = $("phase").value; changed(); });
  $("model").addEventListener("change", () => { Object.assign(now(), { model: $("model").value.trim(), config: null }); changed(); });
  for (const name of Object.keys(SLIDERS)) $(name).addEventListener("input", () => { now()[name] = value(name); sliders(); changed(); });
  for (const place of [$("choose"), $("view")]) {
    place.addEventListener("input", (event) => { if (!event.target.closest("#paste, .filter")) { touched = true; fade(); } }, true);
    place.addEventListener("focusout", () => setTimeout(restore));
  }
  $("choose").addEventListener("submit", (event) => event.preventDefault());
  $("choose").addEventListener("dragover", (event) => { event.preventDefault(); $("choose").classList.add("dropping"); });
  $("choose").addEventListener("dragleave", () => $("choose").classList.remove("dropping"));
  $("choose").addEventListener("drop", async (event) => { event.preventDefault(); $("choose").classList.remove("dropping"); await opened(event.dataTransfer.files[0]); });
  $("theme").addEventListener("click", () => { const theme = isDark() ? "light" : "dark"; document.documentElement.dataset.theme = theme; localStorage.setItem("theme", theme); update(); });
  $("language").addEventListener("change", async () => { localStorage.setItem("language", $("language").value); await speak($("language").value); show(); update(); });
  $("to-controls").addEventListener("click", () => { $("choose").scrollIntoView(); $("model").focus({ preventScroll: true }); });
  $("to-results").addEventListener("click", () => { $("main").scrollIntoView(); $("main").focus({ preventScroll: true }); });
  $("copy").addEventListener("click", async () => {
    const link = await address();
    if (link.length > LONGEST_ADDRESS) { saveState(); say(t("long")); return; }
    await navigator.clipboard?.writeText(link).catch(() => {});
    say(t("copied"));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  addEventListener("hashchange", async () => { await decoded(location.hash).catch(() => {}); show(); changed(); });
}

// On an exported page, removes pasting and restricts choices to the computed ones.
function confine() {
  controls.confine();
  $("paste").remove();
  $("choose").prepend(make("p", { class: "note" }, t("computed")));
}

// Opens a dropped file: a config.json, or the start of a GGUF file, of which the server reads only the header.
const LARGEST_CONFIG = 256 * 1024, LARGEST_HEADER = 16 * 2 ** 20;
async function opened(file) {
  if (!file || exported) return;
  if (!file.name.toLowerCase().endsWith(".gguf")) { config(file.size <= LARGEST_CONFIG ? await file.text() : "[]"); return; }
  try {
    const url = await new Promise((done, fail) => { const reader = new FileReader(); reader.onload = () => done(reader.result); reader.onerror = () => fail(reader.error); reader.readAsDataURL(file.slice(0, LARGEST_HEADER)); });
    const header = await ask("gguf", { head: url.slice(url.indexOf(",") + 1), size: file.size });
    Object.assign(now(), { config: header.model, precision: null });
    show();
    changed();
  } catch (error) {
    complain(error.message);
  }
}

async function choices() {
  const [models, chips, clusters] = await Promise.all(["models", "chips", "clusters"].map(list));
  $("list-model").replaceChildren(...models.models.map((m) => make("option", { value: m.id })));
  $("list-machine").replaceChildren(...["here", ...chips.chips.map((c) => c.id), ...chips.chips.map((c) => `8x${c.id}`), ...clusters.clusters.map((c) => c.name)].map((value) => make("option", { value })));
}

const language = localStorage.getItem("language") ?? navigator.language.slice(0, 2);
$("language").value = ["en", "de", "zh", "ja"].includes(language) ? language : "en";
await speak($("language").value);
await decoded(location.hash).catch(() => take({ scenarios: [FRESH] }));
controls.build();
if (exported) confine();
wire();
show();
await update();
await choices().catch((error) => say(error.message));
(globalThis.requestIdleCallback ?? setTimeout)(() => plotly().catch(() => {}));
