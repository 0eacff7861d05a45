// Sets the theme before the first paint, to avoid a flash.
const kept = localStorage.getItem("theme");
if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
