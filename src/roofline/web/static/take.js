// What can be taken away: the same question as a command line and as Python, data and pictures.
import { plotly } from "./draw.js";
import { encoded, middle, state } from "./state.js";
import { make } from "./words.js";

const quoted = (text) => (/^[\w./:=,@-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
const SETTINGS = ["on", "layout", "engine", "precision"];
const source = (s) => (s.config?.gguf ? "model.gguf" : s.config ? "config.json" : s.model);

// The same questions as commands, whose figures are those of the page.
export function commands(s) {
  const model = quoted(source(s)), given = SETTINGS.filter((key) => s[key]).map((key) => `--${key} ${quoted(s[key])}`);
  const law = s.law === "calibrated" ? [] : [`--law ${s.law}`];
  const bill = [["price", s.price], ["grid", s.grid], ["pue", s.pue]].filter(([, v]) => v).map(([key, v]) => `--${key} ${quoted(String(v))}`);
  const load = s.rate ? `--rate ${s.rate}` : `--concurrency ${s.concurrency}`;
  const step = s.phase === "prefill" ? `--input ${s.input}` : `--context ${middle(s)}`;
  return [
    ["roofline serve", model, ...given, ...law, `--input ${s.input} --output-tokens ${s.output}`, load, ...bill],
    ["roofline analyze", model, ...given, ...law, `--batch ${s.concurrency}`, step],
    ["roofline fit", model, ...given, `--batch ${s.concurrency} --context ${s.input + s.output}`],
  ].map((words) => words.join(" ")).join("\n");
}

// The command that the options of advice belong to, which the answer names.
export function advised(s, command = "generate") {
  const [serve] = commands({ ...s, rate: null }).split("\n");
  return command === "serve" ? serve : serve.replace("roofline serve", `roofline ${command}`).replace("--concurrency", "--batch");
}

const decimal = (x) => (Number.isInteger(x) ? x.toFixed(1) : String(x));
export function python(s) {
  const text = (value) => JSON.stringify(value), given = SETTINGS.filter((key) => s[key]).map((key) => `${key}=${text(s[key])}`);
  const law = s.law === "calibrated" ? [] : [`law=${text(s.law)}`];
  const paid = [["price", s.price && (Number(s.price) ? s.price : text(s.price))], ["grid", s.grid && (Number(s.grid) ? s.grid : text(s.grid))], ["pue", s.pue]];
  const bill = paid.filter(([, v]) => v).map(([key, v]) => `${key}=${v}`), load = s.rate ? `rate=${decimal(s.rate)}` : `concurrency=${s.concurrency}`;
  const called = (name, ...all) => `print(rl.${name}(model, ${all.join(", ")}))`;
  return [
    "import roofline as rl", "", `model = rl.load(${text(source(s))})`,
    called("serve", `input=${s.input}`, `output_tokens=${s.output}`, load, ...given, ...law, ...bill),
    called("estimate", `rl.${s.phase}(${s.concurrency}, ${middle(s)})`, ...given, ...law, ...bill),
    called("fit", `batch=${s.concurrency}`, `context=${s.input + s.output}`, ...given),
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
