// Formatting of numbers, and texts in the page's language.
import { exported } from "./exported.js";

let texts = exported?.messages ?? {}, language = 0;
const LANGUAGES = ["en", "de", "zh", "ja"], LOCALES = ["en-US", "de-DE", "zh-CN", "ja-JP"];
export const t = (key) => texts[key]?.[language] ?? texts[key]?.[0] ?? key;

// Label of a setting: its message if there is one, else its English name.
export const labelKey = (name) => [`s_${name}`, name].find((key) => key in texts) ?? "";
export const label = (name) => { const key = labelKey(name), text = key ? t(key) : name.replaceAll("_", " "); return text.charAt(0).toUpperCase() + text.slice(1); };

export async function speak(name) {
  if (!Object.keys(texts).length) texts = await (await fetch("/static/messages.json")).json();
  language = Math.max(0, LANGUAGES.indexOf(name));
  document.documentElement.lang = LANGUAGES[language];
  for (const node of document.querySelectorAll("[data-t]")) node.textContent = t(node.dataset.t);
  for (const node of document.querySelectorAll("[data-label]")) node.setAttribute("aria-label", t(node.dataset.label));
}

// -- numbers in the format of the page's language
const formats = new Map();
function format(x, options) {
  const key = language + JSON.stringify(options);
  if (!formats.has(key)) formats.set(key, new Intl.NumberFormat(LOCALES[language], options));
  return formats.get(key).format(x);
}
export const decimals = (x, digits) => format(x, { minimumFractionDigits: digits, maximumFractionDigits: digits });
export const significant = (x, digits) => format(x, { minimumSignificantDigits: digits, maximumSignificantDigits: digits });
export const plain = (x) => format(x, { maximumFractionDigits: 20 });
// Decimal separator, then thousands separator, in Plotly's format.
export const separators = () => ["decimal", "group"].map((kind) => new Intl.NumberFormat(LOCALES[language]).formatToParts(12345.6).find((part) => part.type === kind).value).join("");
// Converts numbers within English texts of the library (1,234.5).
export const localised = (text) => text.replace(/\d{1,3}(,\d{3})+(\.\d+)?|\d+\.\d+/g, (number) => decimals(Number(number.replaceAll(",", "")), number.split(".")[1]?.length ?? 0));

const fixed = (x) => decimals(x, x >= 100 ? 0 : x >= 10 ? 1 : 2);
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
// Parses a time in command-line syntax to seconds: a number of seconds, or a text with a unit.
export function seconds(text) {
  const [, number, unit] = /^\s*([\d.eE+-]+)\s*(us|µs|ms|s|min|h)?\s*$/.exec(text ?? "") ?? [];
  return number === undefined ? null : Number(number) * { us: 1e-6, "µs": 1e-6, ms: 1e-3, min: 60, h: 3600 }[unit] || Number(number) || null;
}
export const whole = (x) => (x === null || x === undefined ? "–" : decimals(x, 0));
export const share = (x) => (x === null || x === undefined ? "–" : `${decimals(100 * x, 1)} %`);
const DOLLARS = { style: "currency", currency: "USD", currencyDisplay: "narrowSymbol" };
export const usd = (x) => (x === null || x === undefined ? "–" : format(x, x < 0.1 ? { ...DOLLARS, minimumSignificantDigits: 2, maximumSignificantDigits: 2 } : DOLLARS));
// Number formats of a precision: that of activations, then the roles that differ.
const WEIGHTS = ["attention", "ffn", "experts"];
export function formatted({ activations, ...roles }) {
  const groups = Map.groupBy(Object.entries(roles).filter(([, name]) => name !== activations), ([, name]) => name);
  const named = (own) => (WEIGHTS.every((role) => own.includes(role)) ? ["weights", ...own.filter((role) => !WEIGHTS.includes(role))] : own).join("/");
  return [activations, ...[...groups].map(([name, own]) => `${named(own.map(([role]) => role))} ${name}`)].join(", ");
}
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
