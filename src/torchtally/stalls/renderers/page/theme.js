// Which theme: the reader's system decides until the button does.
(() => {
  "use strict";
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  try { chosen = localStorage.getItem("torchtally-theme"); } catch { /* pages opened from a file may have no storage */ }
  const now = () => chosen || (dark.matches ? "dark" : "light");
  const apply = () => {
    root.dataset.theme = now();
    const button = document.getElementById("theme");
    if (button) button.textContent = now() === "dark" ? "Light theme" : "Dark theme";
    document.dispatchEvent(new Event("theme"));
  };
  apply();
  dark.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    button.hidden = false;
    button.addEventListener("click", () => {
      chosen = now() === "dark" ? "light" : "dark";
      try { localStorage.setItem("torchtally-theme", chosen); } catch { /* as above */ }
      apply();
    });
    apply();
  });
  addEventListener("beforeprint", () => { root.dataset.theme = "light"; document.dispatchEvent(new Event("theme")); });
  addEventListener("afterprint", apply);
})();
