// A table that can be sorted by any column and filtered by the first.
import { make, t } from "./words.js";

export function table(columns, rows, options = {}) {
  let by = options.by ?? null, down = true, wanted = "";
  const body = make("tbody"), heads = [];
  const fill = () => {
    const shown = rows.filter((r) => !wanted || String(columns[0].of(r)).toLowerCase().includes(wanted));
    if (by !== null) shown.sort((a, b) => (down ? -1 : 1) * order(columns[by].of(a), columns[by].of(b)));
    body.replaceChildren(...shown.map((row) => make("tr", {}, ...columns.map((c, i) => {
      const value = c.text ? c.text(c.of(row)) : c.of(row);
      const child = i === 0 && options.click ? make("button", { type: "button", onclick: () => options.click(row) }, value) : value;
      return make("td", { class: (c.text && !c.word) || i === 0 ? "" : "word" }, ...(c.bar ? [bar(c.of(row))] : []), child);
    }))));
    heads.forEach((head, i) => columns[i].name && head.setAttribute("aria-sort", i === by ? (down ? "descending" : "ascending") : "none"));
  };
  const sorter = (c, i) => make("button", { type: "button", onclick: () => { down = by === i ? !down : true; by = i; fill(); } }, c.name);
  columns.forEach((c, i) => heads.push(c.name ? make("th", { scope: "col", class: c.text && !c.word ? "" : "word" }, sorter(c, i)) : make("td")));
  fill();
  const whole = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": options.name ?? "table" }, make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body));
  if (!options.filter) return whole;
  const box = make("input", { class: "filter", type: "search", placeholder: t("filter"), "aria-label": t("filter"), oninput: () => { wanted = box.value.toLowerCase(); fill(); } });
  return make("div", {}, box, whole);
}

function bar(value) {
  const node = make("span", { class: "bar", "aria-hidden": "true" });
  node.style.width = `${Math.round(60 * value)}px`;
  return node;
}

function order(a, b) {
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
}
