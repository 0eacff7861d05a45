// Questions to the server that lent this page; the same question twice is asked once.
const kept = new Map();
const token = new URLSearchParams(location.hash.slice(1)).get("token") || sessionStorage.getItem("token");
if (token) sessionStorage.setItem("token", token);
const headers = { "Content-Type": "application/json", ...(token ? { Authorization: `Bearer ${token}` } : {}) };

export class Problem extends Error {}

async function answer(response) {
  const body = await response.json();
  if (!response.ok) throw new Problem(body.message ?? response.statusText);
  return body;
}

export async function list(name) {
  return answer(await fetch(`/api/v1/${name}`, { headers }));
}

export async function ask(name, body, signal) {
  const text = JSON.stringify(body), key = name + text;
  if (kept.has(key)) return kept.get(key);
  const given = await answer(await fetch(`/api/v1/${name}`, { method: "POST", headers, body: text, signal }));
  kept.set(key, given);
  if (kept.size > 200) kept.delete(kept.keys().next().value);
  return given;
}
