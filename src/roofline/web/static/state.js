// All that the page shows, and how it goes into the address: JSON, deflated, base64url, in the fragment.
import { exported } from "./exported.js";

export const MOST_SCENARIOS = 4;
export const LONGEST_ADDRESS = 8000;
export const FRESH = {
  model: "meta-llama/Llama-3.1-8B", config: null, on: "h100-sxm", layout: "", precision: "", engine: "", law: "calibrated",
  input: 1024, output: 256, concurrency: 32, rate: null, phase: "decode", ttft: null, tpot: null,
  trainBatch: 64, trainTokens: 4096, requests: 300, seed: 0,
  price: "", grid: "", pue: null, runsContext: 4096, launcher: "vllm", framework: "megatron",
  ...exported?.scenario,
};
export const state = { scenarios: [{ ...FRESH }], at: 0, view: "overview" };
export const now = () => state.scenarios[state.at];
// Most tokens, of prompt and answer together, that the model of the scenario shown takes; null where it names no end.
export const lengths = { longest: null };

async function through(stream, bytes) {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
}

export async function encoded() {
  const bytes = await through(new CompressionStream("deflate"), new TextEncoder().encode(JSON.stringify(state)));
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

// What comes from an address or a file is untrusted: known keys of their own kinds alone.
export function take(given) {
  const scenarios = (Array.isArray(given.scenarios) ? given.scenarios : []).slice(0, MOST_SCENARIOS);
  state.scenarios = scenarios.map(clean);
  if (!state.scenarios.length) state.scenarios = [{ ...FRESH }];
  state.at = Math.min(Math.max(0, Number(given.at) || 0), state.scenarios.length - 1);
  state.view = String(given.view || "overview");
}

function clean(given) {
  const kept = { ...FRESH };
  for (const key of Object.keys(FRESH)) {
    const value = given?.[key], like = FRESH[key];
    if (typeof like === "string" && typeof value === "string") kept[key] = value.slice(0, 200);
    else if (typeof like === "number" && Number.isFinite(value)) kept[key] = value;
    else if (key === "config" && value && typeof value === "object" && !Array.isArray(value)) kept[key] = value;
    else if (like === null && key !== "config" && Number.isFinite(value)) kept[key] = value;
  }
  return kept;
}

// -- what a scenario asks of each route
const place = (s) => ({
  model: s.config ?? s.model, on: s.on, layout: s.layout || null, precision: s.precision || null, engine: s.engine || null,
});
const timed = (s) => ({ ...place(s), law: s.law });
const billed = (s) => ({ ...timed(s), price: s.price || null, grid: s.grid || null, pue: s.pue });
const training = (s) => ({ batch: s.trainBatch, tokens: s.trainTokens });
const sizes = (s) => ({ input: s.input, output_tokens: s.output });
export const middle = (s) => (s.phase === "prefill" ? s.input : s.input + Math.floor(s.output / 2));
const load = (s) => (s.rate ? { rate: s.rate } : { concurrency: s.concurrency });
const SWEPT = [512, 2048, 8192, 32768];
// Generated tokens of one simulation: the server takes no more.
const MOST_EVENTS = 400000;
export const asks = {
  limits: (s) => ({ model: s.config ?? s.model }),
  serve: (s) => ({ ...billed(s), ...sizes(s), ...load(s) }),
  front: (s) => ({ ...billed(s), ...sizes(s), concurrency: powers(s.concurrency) }),
  estimate: (s) => ({ ...billed(s), phase: s.phase, batch: s.concurrency, context: middle(s) }),
  plot: (s) => ({ ...timed(s), kind: "roofline", phase: s.phase, batch: s.concurrency, context: middle(s) }),
  diagram: (s) => ({ model: s.config ?? s.model, kind: "diagram" }),
  analyze: (s) => ({ model: s.config ?? s.model, precision: s.precision || null, phase: s.phase, batch: s.concurrency, context: middle(s) }),
  fit: (s) => ({ ...place(s), batch: s.concurrency, context: s.input + s.output }),
  sweep: (s) => ({ ...billed(s), phase: s.phase, batch: powers(s.concurrency), context: SWEPT.filter((c) => !lengths.longest || c < lengths.longest), only: ["time", "memory"] }),
  side: (s, batch) => ({ ...place(s), batch, context: middle({ ...s, phase: "decode" }), prompt: s.input }),
  train: (s) => ({ ...billed(s), precision: null, engine: null, ...training(s) }),
  timeline: (s) => ({ ...timed(s), precision: null, engine: null, ...training(s) }),
  remedies: (s) => ({ model: s.config ?? s.model, on: s.on, layout: s.layout || null, law: s.law, ...training(s) }),
  layouts: (s) => ({ model: s.config ?? s.model, on: s.on, ...training(s) }),
  recipe: (s) => ({ model: s.config ?? s.model, on: s.on, layout: s.layout || null, ...training(s), framework: s.framework }),
  runs: (s) => ({ on: s.on, context: s.runsContext, model: s.config ?? s.model }),
  launch: (s) => ({ ...timed(s), ...sizes(s), concurrency: s.concurrency, launcher: s.launcher }),
  report: (s) => ({ ...place(s), batch: s.concurrency, ...sizes(s) }),
  simulate: (s) => ({ ...billed(s), ...sizes(s), ...load(s), requests: Math.max(1, Math.min(s.requests, Math.floor(MOST_EVENTS / s.output))), seed: s.seed }),
  search: (s) => ({ ...billed(s), layout: null, ...sizes(s), concurrency: s.concurrency, ttft: s.ttft ? s.ttft / 1e3 : null, tpot: s.tpot ? s.tpot / 1e3 : null }),
  advice: (s) => ({ ...timed(s), batch: s.concurrency, ...sizes(s) }),
};
function powers(last) {
  const all = [];
  for (let n = 1; n <= Math.max(256, last * 2); n *= 2) all.push(n);
  return all.includes(last) ? all : [...all, last].sort((a, b) => a - b);
}
