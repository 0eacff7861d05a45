// What can be taken away: the same question as a command line and as Python, data and pictures.
import { plotly } from "./draw.js";
import { encoded, middle, state } from "./state.js";
import { make } from "./words.js";

const quoted = (text) => (/^[\w./:=,@-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
const LETTERS = [["on", "on"], ["layout", "layout"], ["engine", "engine"], ["precision", "precision"]];

export function commands(s) {
  const model = s.config ? "config.json" : s.model;
  const given = LETTERS.filter(([key]) => s[key]).map(([key, name]) => `--${name} ${quoted(s[key])}`);
  if (s.law !== "calibrated") given.push(`--law ${s.law}`);
  const load = s.rate ? `--rate ${s.rate}` : `--concurrency ${s.concurrency}`;
  return [
    `roofline serve ${quoted(model)} ${given.join(" ")} --input ${s.input} --output ${s.output} ${load}`,
    `roofline analyze ${quoted(model)} ${given.join(" ")} --phase ${s.phase} --batch ${s.concurrency} --context ${middle(s)}`,
  ].join("\n");
}

export function python(s) {
  const text = (value) => JSON.stringify(value);
  const given = LETTERS.filter(([key]) => s[key]).map(([key, name]) => `${name}=${text(s[key])}`);
  if (s.law !== "calibrated") given.push(`law=${text(s.law)}`);
  const where = given.join(", "), load = s.rate ? `rate=${s.rate.toFixed(6).replace(/0+$/, "0")}` : `concurrency=${s.concurrency}`;
  return [
    "import roofline as rl", "", `model = rl.load(${text(s.config ? "config.json" : s.model)})`,
    `rl.serve(model, input=${s.input}, output=${s.output}, ${load}, ${where})`,
    `rl.estimate(model, rl.${s.phase}(${s.concurrency}, ${middle(s)}), ${where})`,
  ].join("\n");
}

export function save(name, content, type) {
  const link = make("a", { href: URL.createObjectURL(new Blob([content], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

export const saveState = () => save("scenario.json", JSON.stringify(state, null, 1), "application/json");

export function csv(rows) {
  const cell = (v) => {
    const text = String(v ?? "");
    const inert = typeof v === "string" && /^[=+\-@\t]/.test(text) ? `'${text}` : text;
    return /[",\n]/.test(inert) ? `"${inert.replaceAll('"', '""')}"` : inert;
  };
  return [Object.keys(rows[0]), ...rows.map(Object.values)].map((r) => r.map(cell).join(",")).join("\n");
}

export async function savePicture(node, format) {
  const svg = node.classList.contains("bars") ? node.querySelector("svg") : null;
  const url = svg ? await fromBars(svg, format) : await (await plotly()).toImage(node, { format, width: 1000, height: 560, scale: format === "png" ? 2 : 1 });
  make("a", { href: url, download: `roofline.${format}` }).click();
}

async function fromBars(svg, format) {
  const url = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(svg))}`;
  if (format === "svg") return url;
  const image = Object.assign(new Image(), { src: url }), paper = document.createElement("canvas");
  await image.decode();
  Object.assign(paper, { width: 2 * svg.clientWidth, height: 2 * svg.clientHeight });
  paper.getContext("2d").drawImage(image, 0, 0, paper.width, paper.height);
  return paper.toDataURL("image/png");
}

export async function address() {
  return `${location.origin}${location.pathname}#${await encoded()}`;
}
