"use strict";
const entries = [...document.querySelectorAll("ol > li[value]")];
const panel = document.getElementById("keys");
let current = -1;

// The time of each entry. Only the first entry of an instant shows it.
let now = 0;
const times = entries.map((entry) => (now = Number(entry.querySelector("time")?.dataset.at ?? now)));

// Shows an entry, and has its step in the address.
function go(to) {
  entries[current]?.classList.remove("current");
  current = Math.max(0, Math.min(entries.length - 1, to));
  entries[current].classList.add("current");
  entries[current].scrollIntoView({ block: "nearest" });
  history.replaceState(null, "", "#step=" + entries[current].value);
  showKeys();
}

// Shows what the keys hold after the current entry, and how much is left of their time to live.
function showKeys() {
  const keys = new Map();
  for (let nth = 0; nth <= current; nth++) {
    for (const change of entries[nth].querySelectorAll(".change[data-key]")) {
      const { key, left } = change.dataset;
      const value = change.querySelector("span");
      const now = value && [...value.childNodes].filter((node) => node.nodeName !== "DEL");
      if (now) keys.set(key, { value: now.map((node) => node.textContent).join(""), is_new: nth === current, left, at: times[nth] });
      else keys.delete(key);
    }
  }
  const lines = [...keys].map(([key, { value, is_new, left, at }]) => {
    const line = document.createElement("p");
    line.append(key + " = ", Object.assign(document.createElement(is_new ? "mark" : "span"), { textContent: value }));
    if (left !== undefined) {
      const rest = Math.max(0, Number(left) - (times[current] - at));
      const bar = Object.assign(document.createElement("span"), { className: "lease" });
      bar.style.setProperty("--left", (100 * rest) / Math.max(1, Number(left)) + "%");
      line.append(bar, rest > 0 ? rest + " ms left" : "its time is over");
    }
    return line;
  });
  const title = document.createElement("h2");
  title.textContent = "Keys after step " + entries[current].value + (lines.length ? "" : ": none");
  panel.replaceChildren(title, ...lines);
  panel.hidden = false;
}

function goToAddress() {
  const step = /^#step=(\d+)$/.exec(location.hash);
  const nth = step ? entries.findIndex((entry) => entry.value === Number(step[1])) : -1;
  if (nth >= 0) go(nth);
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const moves = { j: current + 1, ArrowDown: current + 1, k: current - 1, ArrowUp: current - 1, "!": entries.length - 1 };
  if (event.key in moves && entries.length > 0) {
    event.preventDefault();
    go(moves[event.key]);
  }
});
document.querySelector("main").addEventListener("click", (event) => {
  const nth = entries.indexOf(event.target.closest("ol > li"));
  if (nth >= 0) go(nth);
});
window.addEventListener("hashchange", goToAddress);
goToAddress();

const button = document.querySelector("button");
if (navigator.clipboard) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById("schedule").textContent);
    button.textContent = "Copied";
  });
}
