// Downloads: equivalent command lines and Python code, data and pictures.
import { plotly } from "./draw.js";
import { asks, encoded, form, state } from "./state.js";
import { make } from "./words.js";

const quoted = (text) => (/^[\w./:=,@-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
const source = (s) => (s.config?.gguf ? "model.gguf" : s.config ? "config.json" : s.model);

// Command lines that give the page's figures: a request field becomes the option of the same name.
const option = (name) => name.replaceAll("_", "-");
const words = ([name, value]) => (typeof value === "boolean" ? `--${value ? "" : "no-"}${option(name)}` : `--${option(name)} ${quoted(String(value))}`);
export const line = (command, s, { model, ...body }) => [`roofline ${command}`, quoted(source(s)), ...Object.entries(body).map(words)].join(" ");
const unpaid = (body) => Object.fromEntries(Object.entries(body).filter(([name]) => form.settings[name]?.group !== "bill"));
export function commands(s) {
  const { phase, context, ...step } = unpaid(asks.estimate(s));
  return [
    line("serve", s, asks.serve(s)), line("analyze", s, { ...step, [phase === "prefill" ? "input" : "context"]: context }), line("fit", s, asks.fit(s)),
  ].join("\n");
}

export const firstCommand = (s) => line("", s, asks.answer(s)).replace("  ", " ");

// The command line to which the options in the advice apply; the answer names the command.
export function advised(s, command = "generate") {
  const { batch, ...body } = asks.advice(s);
  return line(command, s, { ...body, [command === "serve" ? "concurrency" : "batch"]: batch });
}

function argument([name, value]) {
  const real = typeof value === "number" && Number.isInteger(value) && form.settings[name] && !form.settings[name].whole;
  return `${name}=${typeof value === "boolean" ? (value ? "True" : "False") : real ? value.toFixed(1) : JSON.stringify(value)}`;
}
export function python(s) {
  const called = (name, { model, ...body }, ...first) => `print(rl.${name}(${["model", ...first, ...Object.entries(body).map(argument)].join(", ")}))`;
  const { phase, batch, context, ...place } = asks.estimate(s);
  return [
    "import roofline as rl", "", `model = rl.load(${JSON.stringify(source(s))})`,
    called("serve", asks.serve(s)), called("estimate", place, `rl.${phase}(${batch}, ${context})`), called("fit", asks.fit(s)),
  ].join("\n");
}

export function save(name, content, type) {
  const link = make("a", { href: URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type })), download: name });
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
