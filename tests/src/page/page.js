"use strict";
const entries = [...document.querySelectorAll("li.entry")];
let current = -1;

// Shows an entry, and has its step in the address.
function go(to) {
  current = Math.max(0, Math.min(entries.length - 1, to));
  entries.forEach((entry, nth) => entry.classList.toggle("current", nth === current));
  entries[current].scrollIntoView({ block: "nearest" });
  history.replaceState(null, "", "#step=" + entries[current].dataset.step);
}

function goToAddress() {
  const step = /^#step=(\d+)$/.exec(location.hash);
  const nth = step ? entries.findIndex((entry) => entry.dataset.step === step[1]) : -1;
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
entries.forEach((entry, nth) => entry.addEventListener("click", () => go(nth)));
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
