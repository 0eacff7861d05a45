// The page's state, and its encoding in the URL fragment: JSON, deflated, base64url. The settings and the requests of
// each view come from the form data that the server builds from its declarations.
export const form = JSON.parse(document.getElementById("form").textContent);
export const MOST_SCENARIOS = 4;
export const LONGEST_ADDRESS = 8000;
const OWN = {
  phase: "decode", encodeBatch: 1, encodeTokens: 512, encodeRate: 0, passes: 28, trainBatch: 64, trainTokens: 4096, trainAim: "time", trainRun: 1000, trainLora: 0, trainDora: "no", trainLengths: "", trainStragglers: "", trainOptimizer: "", trainTeacher: "", trainReference: "no", trainContext: 0, trainGrowth: "", spareNodes: 0, repairHours: 24, requests: 300, seed: 0, runsContext: 4096, searchSeconds: 20, sitePower: 0, launcher: "vllm", framework: "megatron",
  demandBy: "users", users: 50, requestsADay: 100000, work: "chat", reads: "no",
};
const BLANK = { model: "", config: null, ...Object.fromEntries(Object.keys(form.settings).map((name) => [name, null])), ...form.usual, ...OWN };
export const FRESH = { ...BLANK, ...form.start };
export const state = { scenarios: [{ ...FRESH }], at: 0, view: "overview" };
export const now = () => state.scenarios[state.at];
// Of the current model: `longest`, its maximum of prompt plus output tokens, null if its config states none; `steps`, the
// passes that it has; `positions`, those of each input, null where they are not fixed.
export const lengths = { longest: null, steps: ["decode"], positions: null };
export const learn = (limits) => Object.assign(lengths, { longest: limits.context, steps: limits.steps, positions: limits.positions });
export const readsWhole = ({ steps }) => !steps.includes("decode");

async function through(stream, bytes) {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
}

const blank = (value) => value === null || value === undefined || value === "";
const filled = (s) => Object.fromEntries(Object.entries(s).filter(([, value]) => !blank(value)));

export async function encoded() {
  const kept = { ...state, scenarios: state.scenarios.map(filled) };
  const bytes = await through(new CompressionStream("deflate"), new TextEncoder().encode(JSON.stringify(kept)));
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return "s=" + btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

export async function decoded(fragment) {
  const packed = new URLSearchParams(fragment.replace(/^#/, "")).get("s");
  if (!packed) return;
  const text = atob(packed.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(text, (sign) => sign.charCodeAt(0));
  take(JSON.parse(new TextDecoder().decode(await through(new DecompressionStream("deflate"), bytes))));
}

// Input from a URL or a file is untrusted: only known keys with values of the right type are accepted.
export function take(given) {
  const scenarios = (Array.isArray(given.scenarios) ? given.scenarios : []).slice(0, MOST_SCENARIOS);
  state.scenarios = scenarios.map(clean);
  if (!state.scenarios.length) state.scenarios = [{ ...FRESH }];
  state.at = Math.min(Math.max(0, Number(given.at) || 0), state.scenarios.length - 1);
  state.view = String(given.view || "overview");
}

function clean(given) {
  const named = { ...given }, kept = { ...BLANK };
  for (const [old, name] of Object.entries(form.former)) if (old in named && !(name in named)) named[name] = named[old];
  for (const [key, value] of Object.entries(named)) {
    if (key === "config") kept[key] = value && typeof value === "object" && !Array.isArray(value) ? value : null;
    else if (Object.hasOwn(form.settings, key)) kept[key] = ofType(form.settings[key], value) ?? kept[key];
    else if (Object.hasOwn(kept, key) && typeof value === typeof kept[key] && value === value) kept[key] = typeof value === "string" ? value.slice(0, 200) : value;
  }
  return kept;
}

// Older URLs have times as numbers in milliseconds; current ones have texts with a unit.
function ofType(setting, value) {
  if (typeof value === "boolean") return setting.type === "switch" ? value : null;
  if (typeof value === "number") return !Number.isFinite(value) || setting.type === "switch" ? null : setting.type === "number" ? value : `${value}${setting.unit === "s" ? "ms" : ""}`;
  return typeof value === "string" && setting.type !== "number" && setting.type !== "switch" ? value.slice(0, 200) : null;
}

// -- requests of a scenario
// The value of a setting; null if it has its default or is replaced by another setting.
export function given(s, name) {
  const setting = form.settings[name], value = s[name];
  if (blank(value) || value === setting.default || (form.instead[name] && given(s, form.instead[name]) !== null)) return null;
  return setting.type === "text" && setting.numeric && Number.isFinite(Number(value)) ? Number(value) : value;
}

const halfway = (s) => s.input + Math.floor(s.output_tokens / 2);
export const middle = (s) => (s.phase === "prefill" ? s.input : halfway(s));
function numbers(s) {
  return {
    ...Object.fromEntries(Object.keys(OWN).map((name) => [name, s[name]])),
    model: s.config ?? s.model, prompt: s.input, in_flight: s.concurrency, powers: powers(s.concurrency), halfway: halfway(s), middle: middle(s), full: s.input + s.output_tokens,
    encodeInput: lengths.positions === null ? Math.min(s.encodeTokens, lengths.longest ?? s.encodeTokens) : null, encodeArrivals: s.encodeRate || null, siteWatts: s.sitePower || null, encodePasses: lengths.steps.includes("denoise") ? s.passes : null,
    trainRunTokens: s.trainRun * 1e9, trainRank: s.trainLora || null, trainMagnitudes: s.trainLora && s.trainDora === "yes" ? true : null, trainPacked: s.trainLengths || null, trainSlow: s.trainStragglers || null,
    trainBy: s.trainOptimizer || null, trainFrom: s.trainTeacher || null, trainBeside: s.trainReference === "yes" ? true : null, trainLongest: s.trainContext || null, trainRampUp: s.trainGrowth || null,
    trainSpares: s.spareNodes || null, trainRepairs: s.spareNodes ? s.repairHours : null,
    swept: form.swept.filter((tokens) => !lengths.longest || tokens < lengths.longest),
    demandUsers: s.demandBy === "users" ? s.users : null, demandADay: s.demandBy === "users" ? null : s.requestsADay, reading: s.reads === "yes" || null, demandTpot: s.reads === "yes" ? null : given(s, "tpot"),
    simulated: Math.max(1, Math.min(s.requests, Math.floor(form.mostEvents / s.output_tokens))),
  };
}

const asked = new WeakMap();
function body(ask, s) {
  const known = numbers(s), fields = {};
  for (const [field, source] of Object.entries(ask.fields)) {
    const value = source in known ? known[source] : given(s, source);
    if (value !== null) fields[field] = value;
  }
  asked.set(s, [...(asked.get(s) ?? []), ...Object.values(ask.fields)]);
  return { ...fields, ...ask.fixed };
}
export const asks = Object.fromEntries(Object.entries(form.asks).map(([name, ask]) => [name, (s) => body(ask, s)]));
export const settingsOf = (part) => form.parts.filter((each) => each.part === part).flatMap((each) => each.settings);
// Given settings that no request of this scenario has used.
export const unasked = (s) => (asked.has(s) ? settingsOf("more").filter((name) => given(s, name) !== null && !asked.get(s).includes(name)) : []);

function powers(last) {
  const all = [];
  for (let n = 1; n <= Math.max(form.leastSwept, last * 2); n *= 2) all.push(n);
  return all.includes(last) ? all : [...all, last].sort((a, b) => a - b);
}
