// Colours of the current theme; those of pictures are distinguishable with colour vision deficiency.
const LIGHT = ["#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7", "#8a7f00", "#555555"];
const DARK = ["#3D9BE0", "#F0803C", "#1FC79A", "#F2B134", "#8FD0F5", "#E29CC4", "#F0E442", "#9aa1ab"];
const GROUPS = ["matmul", "attention", "experts", "elementwise", "norm", "scan", "communication", "embedding"];

export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const isDark = () => document.documentElement.dataset.theme
  ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
export const palette = () => (isDark() ? DARK : LIGHT);
export const colour = (group) => palette()[Math.max(0, GROUPS.indexOf(group)) % 8];
