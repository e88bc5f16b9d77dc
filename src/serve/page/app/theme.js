// Runs before the first paint: light or dark, as chosen or as the system prefers.
(() => {
  let chosen = "";
  try {
    chosen = JSON.parse(localStorage.getItem("veery.theme")) || "";
  } catch { /* not chosen */ }
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => { document.documentElement.dataset.theme = chosen === "light" || chosen === "dark" ? chosen : dark.matches ? "dark" : "light"; };
  dark.addEventListener("change", apply);
  window.setTheme = (value) => { chosen = value; apply(); };
  apply();
})();
