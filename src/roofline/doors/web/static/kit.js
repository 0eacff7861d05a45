// Building blocks of views: panels, pictures with downloads, cards, fields.
import * as draw from "./draw.js";
import { exported } from "./exported.js";
import { form, now } from "./state.js";
import { savePicture } from "./take.js";
import { formatted, localised, make, plain, si, t, whole } from "./words.js";

export const panel = (title, note, ...children) => make("section", { class: "panel" }, make("h2", {}, title), note?.length ? make("p", {}, ...[note].flat()) : null, ...children);
export const two = (...children) => make("div", { class: "two" }, ...children);
export const cardsOf = (...children) => make("div", { class: "cards" }, ...children);
export const button = (text, onclick) => make("button", { type: "button", onclick }, text);
// What grows by the gain of a change.
export const gained = (change) => t(change.gain_of === "tokens per dollar" ? "perdollar" : "perchip");
// A name from the library, which is not translated.
export const given = (text) => make("span", {}, text);
export const gap = () => make("p");

// What figures are of: engine, grade, this release, and what is assumed, in the library's words where it has them. What
// does not fit has neither grade nor price.
export function basis(answer, ...assumed) {
  const fits = answer.memory?.fits !== false, said = (fits ? answer.cost_assumptions ?? [] : []).slice(0, 2).map((each) => make("span", { lang: "en" }, ` · ${localised(each.replace(/ \[[^\]]*\]$/, ""))}`));
  const by = [visited(answer), form.titles[answer.engine] ?? answer.engine, answer.law && answer.law !== "calibrated" ? answer.law : null, fits && answer.grade && answer.grade !== "-" ? `${t("grade")} ${answer.grade}` : null, `Roofline ${form.version}`];
  return make("p", { class: "note assumed" }, `${t("assumed")}: `, [...assumed, ...by].filter(Boolean).join(" · "), ...said);
}

// How steps visit experts, where the answer assumes it.
export const visited = ({ assumed_popularity: exponent }) => (exponent == null ? null : `${t("assumepopularity")} ${plain(exponent)}`);

export function pictured(title, note, kind = "plot") {
  const plot = draw.frame(title, kind);
  return [panel(title, note, plot, make("div", { class: "actions" }, ...["png", "svg"].map((form) => button(form.toUpperCase(), () => savePicture(plot, form))))), plot];
}

export function card(title, value, note, kind = "", fits = true) {
  return make("div", { class: "card" }, make("h3", {}, title), make("b", { class: kind }, struck(fits, value)), make("span", {}, struck(fits, note ?? "", false)));
}

// -- models that do not fit: figures are struck out (in words for screen readers), and remedies are listed
export function struck(fits, text, said = true) {
  if (fits || text === "") return text;
  return make("span", { class: "struck" }, said ? make("span", { class: "hidden" }, `${t("misfits")}: `) : null, make("s", {}, text));
}
export const cardOf = (fits) => (title, value, note, kind) => card(title, value, note, kind, fits);
export const fitted = (fits, formats = null) => make("span", { class: fits ? "good" : "bad" }, t(fits ? "fits" : "misfits"), formats ? ` (${formatted(formats)})` : "");
// Note that times assume chips with more memory; empty if the model fits.
export const unreal = (fits, note) => [...(fits ? [] : [make("span", { class: "bad" }, t("misfits")), ` · ${t("asif")}`]), ...(fits || !note?.length ? [] : [" · "]), ...[note ?? []].flat()];

export function remedies(fit) {
  if (fit.fits) return null;
  const said = { batch: () => `${t("batch")} ${whole(fit.largest_batch)}`, context: () => `${t("context")} ${whole(fit.longest_context)}`, chips: () => `${whole(fit.fewest_chips)} ${t("ofchips")} (${fit.fewest_layout})` };
  return would(fit.changes.map((change) => said[change.what]?.() ?? change.detail));
}
export const would = (ways) => make("p", { class: "would" }, ways.length ? `${t("wouldfit")}: ` : t("noremedy"), ...ways.flatMap((way, i) => [i ? ` ${t("or")} ` : "", make("b", {}, way)]));
// Panel for a model that does not fit: needed and available memory, and remedies.
export function misfit(memory, ways) {
  const node = panel(t("misfits"), `${si(memory.total, "B")} ${t("ofcapacity")} ${si(memory.capacity, "B")}`, ways);
  node.classList.add("misfit");
  return node;
}

const labelled = (key, label, field) => make("div", {}, make("label", { for: `more-${key}`, class: "note" }, label), field);

export function number(key, label, least, most, changed) {
  const field = make("input", { type: "number", min: least, max: most, value: now()[key], id: `more-${key}`, disabled: exported !== null, onchange: () => { if (field.checkValidity() && field.value) { now()[key] = Number(field.value); changed(); } } });
  return labelled(key, label, field);
}

// A text that may be empty.
export function words(key, label, example, changed) {
  const field = make("input", { type: "text", value: now()[key], placeholder: example, id: `more-${key}`, disabled: exported !== null, onchange: () => { now()[key] = field.value.trim().slice(0, 200); changed(); } });
  return labelled(key, label, field);
}

// `values`: values, or a text for each.
export function choice(key, label, values, changed) {
  const worded = Array.isArray(values) ? Object.fromEntries(values.map((value) => [value, value])) : values;
  const field = make("select", { id: `more-${key}`, onchange: () => { now()[key] = field.value; changed(); } }, ...Object.entries(worded).map(([value, text]) => make("option", { value, selected: value === now()[key] }, text)));
  return labelled(key, label, field);
}

// Panel whose slow content is requested by a button; leaving the view aborts the request.
export function asked(title, note, fill) {
  const place = make("div", { "aria-live": "polite" });
  const start = button(t("run"), async () => {
    start.disabled = true;
    place.replaceChildren(make("p", { class: "note" }, t("working")));
    try {
      place.replaceChildren(...await fill());
    } catch (error) {
      place.replaceChildren(...(error.name === "AbortError" ? [] : [make("p", { class: "bad" }, error.message)]));
    }
    start.disabled = false;
  });
  return panel(title, note, make("div", { class: "actions" }, start), place);
}
