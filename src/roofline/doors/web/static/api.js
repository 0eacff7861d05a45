// Client of the REST API, or of the data beside an exported page. Quick questions asked at the same time share one
// request, and equal questions are sent once.
import { exported } from "./exported.js";
import { t } from "./words.js";

const kept = new Map();
const token = new URLSearchParams(location.hash.slice(1)).get("token") || sessionStorage.getItem("token");
if (token) sessionStorage.setItem("token", token);
// The server shares what it does fairly among the tabs of an address.
const session = sessionStorage.getItem("session") ?? Math.random().toString(36).slice(2);
sessionStorage.setItem("session", session);
const headers = { "Content-Type": "application/json", "X-Session": session, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
const LONG = new Set(["answer", "machines", "sweep", "simulate", "search", "advice", "runs", "layouts", "remedies", "launch", "timeline", "recipe", "gguf", "diff"]);

export class Problem extends Error {}

async function answer(response) {
  const body = await response.json().catch(() => ({ message: `${response.status} ${response.statusText}` }));
  if (!response.ok) throw new Problem(body.message ?? response.statusText);
  return body;
}

export async function list(name) {
  if (exported) return exported.lists[name];
  return answer(await fetch(`/api/v1/${name}`, { headers }));
}

export async function file(name, body) {
  const response = await fetch(`/api/v1/${name}`, { method: "POST", headers, body: JSON.stringify(body) });
  if (!response.ok) await answer(response);
  return response.blob();
}

export async function ask(name, body, signal) {
  const text = JSON.stringify(body), key = name + text;
  if (kept.has(key)) return kept.get(key);
  if (name === "gguf") return alone(name, text, signal);
  const given = await (exported ? known(name + JSON.stringify({ ...body, model: 0 })) : LONG.has(name) ? alone(name, text, signal) : together(key, { name, body }, signal));
  kept.set(key, given);
  if (kept.size > 200) kept.delete(kept.keys().next().value);
  return given;
}

async function known(key) {
  if (key in exported.problems) throw new Problem(exported.problems[key]);
  if (!(key in exported.answers)) throw new Problem(t("beyond"));
  return exported.answers[key];
}

// A server with too much to do says when to ask again.
const BUSY = [429, 503], TRIES = 5;
async function alone(name, text, signal) {
  for (let left = TRIES; ; left -= 1) {
    const response = await fetch(`/api/v1/${name}`, { method: "POST", headers, body: text, signal });
    if (!BUSY.includes(response.status) || left === 1) return answer(response);
    await pause(Number(response.headers.get("Retry-After") ?? 1), signal);
  }
}

function pause(seconds, signal) {
  return new Promise((done, fail) => {
    const timer = setTimeout(done, 1000 * seconds);
    signal?.addEventListener("abort", () => { clearTimeout(timer); fail(signal.reason); });
  });
}

const batches = new Map();
function together(key, question, signal) {
  if (!batches.has(signal)) {
    batches.set(signal, new Map());
    queueMicrotask(() => send(signal));
  }
  const batch = batches.get(signal);
  if (!batch.has(key)) batch.set(key, { question, waiting: [] });
  return new Promise((done, fail) => batch.get(key).waiting.push({ done, fail }));
}

async function send(signal) {
  const batch = [...batches.get(signal).values()];
  batches.delete(signal);
  const tell = (entry, how, what) => entry.waiting.forEach((one) => one[how](what));
  try {
    const given = await alone("batch", JSON.stringify({ questions: batch.map((entry) => entry.question) }), signal);
    given.answers.forEach((one, i) => (one.status === 200 ? tell(batch[i], "done", one.answer) : tell(batch[i], "fail", new Problem(one.problem.message))));
  } catch (error) {
    batch.forEach((entry) => tell(entry, "fail", error));
  }
}
