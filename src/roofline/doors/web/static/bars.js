// Bar charts as SVG, so that the first view does not wait for Plotly.
import { css, palette } from "./colours.js";
import { si, time } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const FONT = { "font-family": "system-ui, sans-serif", "font-size": 12 };
const node = (tag, given, text) => {
  const made = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(given)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
};
const hint = (mark, text) => { mark.append(node("title", {}, text)); return mark; };

// Draws now and whenever the width changes.
function drawn(frame, paint) {
  const again = () => {
    const width = Math.max(240, Math.floor(frame.clientWidth || 600));
    const { height, marks } = paint(width);
    const svg = node("svg", { xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
    svg.append(...marks);
    frame.replaceChildren(svg);
  };
  frame.watcher?.disconnect();
  let width = frame.clientWidth;
  frame.watcher = new ResizeObserver(() => { if (frame.clientWidth !== width) { width = frame.clientWidth; again(); } });
  frame.watcher.observe(frame);
  again();
}

// Without times, the bars of what does not fit are shares alone.
export function shares(frame, ops, fits = true) {
  const kinds = new Map();
  for (const op of ops) kinds.set(op.kind, (kinds.get(op.kind) ?? 0) + op.time.expected);
  const rows = [...kinds].sort((a, b) => b[1] - a[1]);
  drawn(frame, (width) => {
    const left = 104, right = 76, step = 30, longest = Math.max(...rows.map((r) => r[1]));
    const marks = rows.flatMap(([kind, seconds], i) => {
      const y = 6 + i * step, long = Math.max(1, (width - left - right) * (seconds / longest));
      return [
        node("text", { x: left - 8, y: y + 15, "text-anchor": "end", fill: css("--ink"), ...FONT }, kind),
        hint(node("rect", { x: left, y, width: long, height: step - 8, rx: 3, fill: palette()[0] }), fits ? `${kind}: ${time(seconds)}` : kind),
        node("text", { x: left + long + 6, y: y + 15, fill: css("--muted"), ...FONT }, fits ? time(seconds) : ""),
      ];
    });
    return { height: 12 + rows.length * step, marks };
  });
}

const TERMS = ["weights", "cache", "state", "activations", "gradients", "optimizer", "overhead"];
export function memoryBar(frame, memory) {
  const terms = TERMS.map((name, i) => ({ name, bytes: memory[name], fill: palette()[i] })).filter((term) => term.bytes > 0);
  const most = 1.04 * Math.max(memory.capacity, memory.total);
  drawn(frame, (width) => {
    const at = (bytes) => (bytes / most) * width, marks = [];
    let before = 0;
    for (const { name, bytes, fill } of terms) {
      marks.push(hint(node("rect", { x: at(before), y: 18, width: Math.max(1, at(bytes)), height: 44, fill }), `${name}: ${si(bytes, "B")}`));
      before += bytes;
    }
    marks.push(hint(node("line", { x1: at(memory.capacity), x2: at(memory.capacity), y1: 12, y2: 68, stroke: css("--bad"), "stroke-width": 2 }), si(memory.capacity, "B")));
    marks.push(node("text", { x: at(memory.capacity) - 4, y: 10, "text-anchor": "end", fill: css("--muted"), ...FONT }, si(memory.capacity, "B")));
    let x = 0, y = 92;
    for (const { name, bytes, fill } of terms) {
      const label = `${name} ${si(bytes, "B")}`, room = 30 + 7 * label.length;
      if (x && x + room > width) { x = 0; y += 22; }
      marks.push(node("rect", { x, y: y - 10, width: 12, height: 12, rx: 2, fill }), node("text", { x: x + 18, y, fill: css("--ink"), ...FONT }, label));
      x += room;
    }
    return { height: y + 8, marks };
  });
}
