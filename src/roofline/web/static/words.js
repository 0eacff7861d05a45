// Numbers as people read them, and texts in their language.
import { exported } from "./exported.js";

let texts = exported?.messages ?? {}, language = 0;
const LANGUAGES = ["en", "de", "zh", "ja"];
export const t = (key) => texts[key]?.[language] ?? texts[key]?.[0] ?? key;

export async function speak(name) {
  if (!Object.keys(texts).length) texts = await (await fetch("/static/messages.json")).json();
  language = Math.max(0, LANGUAGES.indexOf(name));
  document.documentElement.lang = LANGUAGES[language];
  for (const node of document.querySelectorAll("[data-t]")) node.textContent = t(node.dataset.t);
  for (const node of document.querySelectorAll("[data-label]")) node.setAttribute("aria-label", t(node.dataset.label));
}

const fixed = (x) => (x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2));
export function si(x, unit = "") {
  if (x === null || x === undefined) return "–";
  if (x === 0) return `0 ${unit}`.trim();
  const at = Math.max(0, Math.min(6, Math.floor(Math.log10(Math.abs(x)) / 3)));
  return `${fixed(x / 1000 ** at)} ${["", "k", "M", "G", "T", "P", "E"][at]}${unit}`.trim();
}
export function time(x) {
  if (x === null || x === undefined) return "–";
  if (x === 0) return "0 s";
  if (x < 1e-3) return `${fixed(x * 1e6)} µs`;
  return x < 1 ? `${fixed(x * 1e3)} ms` : `${fixed(x)} s`;
}
export const whole = (x) => (x === null || x === undefined ? "–" : x.toLocaleString("en-US", { maximumFractionDigits: 0 }));
export const share = (x) => (x === null || x === undefined ? "–" : `${(100 * x).toFixed(1)} %`);
export const usd = (x) => (x === null || x === undefined ? "–" : `$${x < 0.1 ? x.toPrecision(2) : x.toFixed(2)}`);
export const between = (span) => `${time(span.low)} – ${time(span.high)}`;

export function make(tag, options = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(options)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "class") node.className = value;
    else if (value !== false && value !== null) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter((c) => c !== null && c !== undefined));
  return node;
}
