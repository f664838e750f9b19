"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const panel = document.getElementById("panel");

  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  function add(parent, tag, text, className) {
    const child = parent.appendChild(document.createElement(tag));
    if (text !== undefined) child.textContent = text;
    if (className) child.className = className;
    return child;
  }

  function addList(heading, lines) {
    if (!lines.length) return;
    add(panel, "h3", heading);
    const list = add(panel, "ul", undefined, "lines");
    for (const line of lines) add(list, "li", line);
  }

  async function addCode(kernel) {
    const packed = data.kernels[kernel];
    if (!packed) return;
    add(panel, "h3", "Code");
    const bar = add(panel, "div");
    const pre = add(panel, "pre", undefined, "code");
    const texts = await unpack(packed);
    const buttons = Object.keys(texts).map((stage) => {
      const button = add(bar, "button", stage);
      button.dataset.stage = stage;
      button.addEventListener("click", () => {
        buttons.forEach((b) => b.classList.toggle("on", b === button));
        pre.textContent = texts[stage];
      });
      return button;
    });
    buttons[0].click();
  }

  function select(name, follow = true) {
    const node = data.nodes[name];
    if (!node) return;
    for (const e of document.querySelectorAll("[data-node]")) {
      e.classList.toggle("selected", e.dataset.node === name);
    }
    panel.replaceChildren();
    panel.dataset.shown = name;
    add(panel, "h3", name);
    const list = add(panel, "dl");
    for (const [key, value] of node.rows) {
      if (!value) continue;
      add(list, "dt", key);
      add(list, "dd", value);
    }
    add(panel, "pre", node.text);
    addList("Candidates (* chosen) and memory", node.candidates);
    addList("Decisions", node.decisions);
    addCode(node.kernel);
    if (follow && matchMedia("(max-width: 1000px)").matches) panel.scrollIntoView({ block: "nearest" });
  }

  function sortBy(column) {
    const table = document.getElementById("table");
    const head = table.tHead.rows[0].cells;
    const numeric = table.tBodies[0].rows[0]?.cells[column].classList.contains("number");
    const first = numeric ? "descending" : "ascending";
    const other = numeric ? "ascending" : "descending";
    const order = head[column].ariaSort === first ? other : first;
    for (const cell of head) cell.removeAttribute("aria-sort");
    head[column].setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const value = (row) => row.cells[column].textContent;
    const number = (row) => Number(row.cells[column].dataset.value);
    const rows = [...table.tBodies[0].rows].sort((a, b) =>
      sign * (numeric ? number(a) - number(b) : value(a).localeCompare(value(b))));
    table.tBodies[0].append(...rows);
  }

  const themes = ["system", "light", "dark"];
  const switcher = document.getElementById("theme");

  function stored(theme) {
    try {
      if (theme) localStorage.setItem("graphc-theme", theme);
      return localStorage.getItem("graphc-theme");
    } catch { return null; }  // a page of a file may have no storage
  }

  function setTheme(theme) {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    switcher.textContent = `theme: ${theme}`;
    switcher.dataset.value = theme;
  }

  setTheme(themes.includes(stored()) ? stored() : "system");
  switcher.addEventListener("click", () => {
    const next = themes[(themes.indexOf(switcher.dataset.value) + 1) % themes.length];
    setTheme(next);
    stored(next);
  });

  async function act(target) {
    const node = target.closest("[data-node]");
    const heading = target.closest("#table th");
    const button = target.closest("[data-pass]");
    if (heading) sortBy(heading.cellIndex);
    else if (node) select(node.dataset.node);
    else if (button) {
      const pre = document.getElementById("pass-text");
      pre.textContent = await unpack(data.passes[Number(button.dataset.pass)]);
      pre.hidden = false;
      pre.scrollIntoView({ block: "nearest" });
    }
  }

  const first = document.querySelector("#table tr.node");
  if (first) select(first.dataset.node, false);

  document.addEventListener("click", (event) => act(event.target));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.tagName !== "BUTTON") act(event.target);
  });
})();
