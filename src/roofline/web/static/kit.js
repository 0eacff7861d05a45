// What views are put together from: panels, pictures with their files, cards, fields.
import * as draw from "./draw.js";
import { exported } from "./exported.js";
import { now } from "./state.js";
import { savePicture } from "./take.js";
import { make, t } from "./words.js";

export const panel = (title, note, ...children) => make("section", { class: "panel" }, make("h2", {}, title), note?.length ? make("p", {}, ...[note].flat()) : null, ...children);
export const two = (...children) => make("div", { class: "two" }, ...children);
export const cardsOf = (...children) => make("div", { class: "cards" }, ...children);
export const button = (text, onclick) => make("button", { type: "button", onclick }, text);
// A name of the library's own, which no language changes.
export const given = (text) => make("span", {}, text);
export const gap = () => make("p");

export function pictured(title, note, kind = "plot") {
  const plot = draw.frame(title, kind);
  return [panel(title, note, plot, make("div", { class: "actions" }, ...["png", "svg"].map((form) => button(form.toUpperCase(), () => savePicture(plot, form))))), plot];
}

export function card(title, value, note, kind = "") {
  return make("div", { class: "card" }, make("h3", {}, title), make("b", { class: kind }, value), make("span", {}, note ?? ""));
}

export function number(key, label, least, most, changed) {
  const field = make("input", { type: "number", min: least, max: most, value: now()[key], id: `more-${key}`, disabled: exported !== null, onchange: () => { if (field.checkValidity() && field.value) { now()[key] = Number(field.value); changed(); } } });
  return make("div", {}, make("label", { for: `more-${key}`, class: "note" }, label), field);
}

export function choice(key, label, values, changed) {
  const field = make("select", { id: `more-${key}`, onchange: () => { now()[key] = field.value; changed(); } }, ...values.map((value) => make("option", { value, selected: value === now()[key] }, value)));
  return make("div", {}, make("label", { for: `more-${key}`, class: "note" }, label), field);
}

// What is asked for only when somebody wants it, as it takes a while; it ends when the view does.
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
