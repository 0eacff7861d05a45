// The form's controls, built from the declarations of settings: a label, an input field and a help text each.
import { exported } from "./exported.js";
import { form, given, now, settingsOf } from "./state.js";
import { labelKey, label, make, t } from "./words.js";

const $ = (id) => document.getElementById(id);
export const SLIDERS = Object.fromEntries(Object.entries(form.settings).filter(([, setting]) => setting.slider).map(([name, setting]) => [name, setting.slider]));
const written = Object.keys(form.settings).filter((name) => !SLIDERS[name]);

// Texts of the message file are translated; names and help texts of the declarations are English.
const worded = (key, text) => (key ? { "data-t": key } : text ? { lang: "en" } : {});
const option = (value, text, key) => make("option", { value, ...worded(key) }, key ? t(key) : text);

function field(name, setting) {
  const common = { id: name, name, "aria-describedby": `hint-${name}` };
  if (setting.slider) return make("input", { type: "range", ...common });
  if (setting.type === "switch") return make("select", common, setting.default === false ? option("", "", "no") : option("", "–"), option("true", "", "yes"), setting.default === false ? null : option("false", "", "no"));
  if (setting.type === "choice") return make("select", common, option("", setting.default ?? "–"), ...setting.words.filter((word) => word !== setting.default).map((word) => option(word, word)));
  const placeholder = String(setting.default ?? setting.example ?? "–");
  if (setting.type === "number") return make("input", { type: "number", ...common, min: setting.least, max: setting.most ?? null, step: setting.whole ? 1 : "any", placeholder });
  return make("input", { ...common, placeholder, list: setting.names ? `list-${setting.names}` : null, spellcheck: "false", maxlength: 200 });
}

function control(name) {
  const setting = form.settings[name], numbers = [setting.unit, setting.range].filter(Boolean).join(", "), hint = setting.help.replaceAll("`", "") + (numbers ? ` (${numbers})` : "");
  return make("div", { class: setting.slider ? "slide" : setting.wide ? "wide" : null }, make("label", { for: name, ...worded(labelKey(name), true) }, label(name)), setting.slider ? make("output", { for: name }) : null, field(name, setting), make("p", { class: "hint", id: `hint-${name}`, lang: "en" }, hint));
}

export function build() {
  for (const { part, group, settings } of form.parts) {
    const pair = $(`part-${part}`), end = pair.querySelector(":scope > .last"), controls = settings.map(control);
    if (part === "more") {
      const key = labelKey(`g_${group}`);
      pair.append(make("div", { role: "group", "aria-labelledby": `group-${group}` }, make("p", { class: "group", id: `group-${group}`, ...worded(key, true) }, key ? t(key) : label(group)), ...controls));
      continue;
    }
    pair.before(...controls.filter((node) => node.className === "slide"));
    for (const node of controls) if (node.className !== "slide") pair.insertBefore(node, end);
  }
  for (const [name, words] of Object.entries(form.suggested)) document.body.append(make("datalist", { id: `list-${name}` }, ...words.map((value) => option(value, "", labelKey(value)))));
}

function read(name) {
  const { value } = $(name), { type } = form.settings[name];
  if (type === "switch") return value === "" ? null : value === "true";
  return value.trim() === "" ? null : type === "number" ? Number(value) : value.trim();
}

export function write(s) {
  for (const name of written) $(name).value = s[name] ?? "";
  if (settingsOf("more").some((name) => given(s, name) !== null)) $("all").open = true;
}

export function wire(changed) {
  for (const name of written) $(name).addEventListener("change", () => { now()[name] = read(name); changed(); });
  $("explain").addEventListener("click", () => {
    const explained = $("choose").classList.toggle("explained");
    $("explain").setAttribute("aria-pressed", String(explained));
  });
}

// On an exported page, only the computed values can be chosen; other fields are disabled.
export function confine() {
  for (const name of ["model", ...Object.keys(form.settings)]) $(name).disabled = !exported.axes[name];
  const choose = make("select", { id: "on", name: "on", "aria-describedby": "hint-on" }, ...exported.axes.on.map((value) => make("option", { value }, value)));
  $("on").replaceWith(choose);
}
