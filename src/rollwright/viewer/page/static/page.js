// What every page has: theme, keys, rows by keyboard, filters of tables, and what is new in a run that goes on.
// Without this script all of it is there as links, forms and tables.

const LIVE_MS = 2000;
const THEMES = ["auto", "light", "dark"];

function isTyping(target) {
  return target instanceof HTMLElement && target.matches("input:not([type=checkbox]), select, textarea, [contenteditable]");
}

// ---------------------------------------------------------------------------------------------------------- theme

function theme() {
  return document.documentElement.dataset.theme ?? "auto";
}

function nextTheme() {
  const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
  if (next === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("rollwright-theme", next);
  } catch (error) {
    // It holds for this page then.
  }
  sayTheme();
  document.dispatchEvent(new CustomEvent("themed"));
}

function sayTheme() {
  document.querySelector("#theme span").textContent = theme();
}

// ----------------------------------------------------------------------------------------------------------- keys

function rowTargets(table) {
  return [...table.querySelectorAll("tbody tr")].filter((row) => !row.hidden).map((row) => row.querySelector("th a, a")).filter(Boolean);
}

function moveRow(by) {
  const row = document.activeElement.closest?.("table[data-rows] tbody tr");
  const table = row?.closest("table") ?? document.querySelector("main table[data-rows]");
  if (!table) return false;
  const targets = rowTargets(table);
  if (targets.length === 0) return false;
  const at = targets.findIndex((link) => link.closest("tr") === row);
  if (row && (at + by < 0 || at + by >= targets.length)) return moveTable(table, by);
  targets[at < 0 ? 0 : at + by].focus();
  return true;
}

function moveTable(table, by) {
  const tables = [...document.querySelectorAll("main table[data-rows]")].filter((one) => rowTargets(one).length > 0);
  const next = tables[tables.indexOf(table) + by];
  if (!next) return true;
  const targets = rowTargets(next);
  targets[by > 0 ? 0 : targets.length - 1].focus();
  return true;
}

function follow(relation) {
  const link = document.querySelector(`main a[rel=${relation}]`);
  if (link) link.click();
  return Boolean(link);
}

function onKey(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  const dialog = document.querySelector("#keys");
  if (isTyping(event.target) || dialog.open) return;
  const inRow = event.target.closest?.("table[data-rows] tbody tr");
  const done = {
    "?": () => (dialog.showModal(), true),
    t: () => (nextTheme(), true),
    j: () => moveRow(1),
    k: () => moveRow(-1),
    ArrowDown: () => inRow && moveRow(1),
    ArrowUp: () => inRow && moveRow(-1),
    "[": () => follow("prev"),
    "]": () => follow("next"),
    "/": () => {
      const field = document.querySelector("main input[type=search], main input:not([type=checkbox]):not([type=hidden])");
      field?.focus();
      return Boolean(field);
    },
  }[event.key]?.();
  if (done) event.preventDefault();
}

// ---------------------------------------------------------------------------------------------- forms and filters

function wireForms(root) {
  for (const form of root.querySelectorAll("form[data-auto]")) {
    form.addEventListener("change", () => form.requestSubmit());
    form.querySelector("button").hidden = true;
  }
  for (const form of root.querySelectorAll("form[data-step-form]")) {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const step = form.elements.namedItem("step").value.trim();
      if (/^\d{1,9}$/.test(step)) location.assign(`${form.dataset.address}/${step}`);
    });
  }
  for (const form of root.querySelectorAll("form.filters")) {
    form.addEventListener("submit", () => {
      for (const field of form.elements) if (field.value === "") field.disabled = true;
    });
  }
  for (const field of root.querySelectorAll("input[data-filter]")) {
    field.addEventListener("input", () => {
      const wanted = field.value.toLowerCase();
      for (const row of document.querySelectorAll(`#${field.dataset.filter} tbody tr`)) {
        row.hidden = !row.textContent.toLowerCase().includes(wanted);
      }
    });
  }
}

// ----------------------------------------------------------------------------------------------------------- live

function keepsFocus(region) {
  return region.contains(document.activeElement);
}

function reading(region) {
  const selection = document.getSelection();
  return Boolean(selection && !selection.isCollapsed && region.contains(selection.anchorNode));
}

async function showNews() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok) return false;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  let isHeldBack = false;
  for (const region of document.querySelectorAll("[data-live]")) {
    const other = fresh.querySelector(`[data-live="${region.dataset.live}"]`);
    if (!other || other.innerHTML === region.innerHTML) continue;
    if (keepsFocus(region) || reading(region) || region.querySelector("input:checked")) {
      isHeldBack = true;
      continue;
    }
    const scrolled = [...region.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
    region.replaceChildren(...document.adoptNode(other).childNodes);
    region.querySelectorAll(".scroll").forEach((one, at) => (one.scrollLeft = scrolled[at] ?? 0));
  }
  return !isHeldBack;
}

function say(text) {
  const news = document.querySelector("#news");
  if (news.textContent !== text) news.textContent = text;
}

function watch(live) {
  let shown = live.dataset.state;
  let hasFailed = false;

  async function look() {
    if (document.visibilityState === "hidden") return;
    const answer = await fetch(live.dataset.address);
    if (!answer.ok) {
      hasFailed = true;
      say((await answer.json()).error ?? "The run cannot be read now.");
      return;
    }
    const state = await answer.json();
    if (hasFailed) say("");
    hasFailed = false;
    if (state.state === shown) return;
    document.dispatchEvent(new CustomEvent("committed", { detail: state }));
    const isShown = await showNews();
    if (isShown) shown = state.state;
    if (state.step !== undefined) {
      const behind = isShown ? "" : "; what you are in stays as it is until you leave it";
      say(`Step ${state.step} is the newest (commit ${state.commits})${behind}.`);
    }
  }

  async function again() {
    try {
      await look();
    } catch (error) {
      hasFailed = true;
      say("The page's server does not answer; it may have been stopped.");
    }
    setTimeout(again, LIVE_MS);
  }
  setTimeout(again, LIVE_MS);
}

// ---------------------------------------------------------------------------------------------------------- start

document.querySelector("#theme").hidden = false;
document.querySelector("#theme").addEventListener("click", nextTheme);
document.querySelector("#show-keys").hidden = false;
document.querySelector("#show-keys").addEventListener("click", () => document.querySelector("#keys").showModal());
document.addEventListener("keydown", onKey);
sayTheme();
wireForms(document);
const live = document.querySelector("#live");
if (live) watch(live);
