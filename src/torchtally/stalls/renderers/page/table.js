// The table of lines: sort by its headings, filter by text, point the timeline at a row.
(() => {
  "use strict";
  const table = document.getElementById("sites");
  if (!table) return;
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];

  const sort = (column, direction) => {
    const numeric = heads[column].dataset.sort === "number";
    const sign = direction === "ascending" ? 1 : -1;
    const value = (row) => row.cells[column].dataset.value;
    const rows = [...body.rows].sort((a, b) => {
      const x = value(a), y = value(b);
      if (x === "" || y === "") return (x === "") - (y === ""); // unknown figures last, whichever way
      return sign * (numeric ? x - y : x < y ? -1 : x > y ? 1 : 0);
    });
    body.append(...rows);
    heads.forEach((head, i) => i === column ? head.setAttribute("aria-sort", direction) : head.removeAttribute("aria-sort"));
  };

  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const first = head.dataset.sort === "number" ? "descending" : "ascending";
      const other = first === "descending" ? "ascending" : "descending";
      sort(column, head.getAttribute("aria-sort") === first ? other : first);
    });
  });

  const filter = document.getElementById("filter");
  if (filter) filter.addEventListener("input", () => {
    const text = filter.value.trim().toLowerCase();
    let left = 0;
    for (const row of body.rows) {
      row.hidden = !row.cells[0].textContent.toLowerCase().includes(text);
      left += !row.hidden;
    }
    document.getElementById("none-left").hidden = left > 0;
  });

  const select = (chosen) => {
    for (const row of body.rows) {
      const on = row === chosen;
      row.classList.toggle("chosen", on);
      row.querySelector(".show")?.setAttribute("aria-pressed", String(on));
    }
    document.dispatchEvent(new CustomEvent("row", { detail: chosen ? Number(chosen.dataset.row) : null }));
  };
  for (const row of body.rows) {
    const button = row.querySelector(".show");
    if (!button) continue;
    button.hidden = false;
    button.addEventListener("click", () => select(row.classList.contains("chosen") ? null : row));
  }
  document.addEventListener("unselect", () => select(null));
})();
