// Tokens by pointer and by keyboard: one stop for the Tab key a segment, arrows within it; the numbers beside.

const panel = document.querySelector("#token-panel [data-numbers]");
let chosen = null;

function tokensOf(block) {
  return [...block.querySelectorAll(".t")];
}

function show(token) {
  const list = document.createElement("dl");
  for (const part of (token.dataset.numbers ?? "").split(" · ")) {
    const at = part.indexOf(": ");
    const name = document.createElement("dt");
    const value = document.createElement("dd");
    name.textContent = part.slice(0, at);
    value.textContent = part.slice(at + 2);
    list.append(name, value);
  }
  const text = document.createElement("p");
  text.className = "token-text mono";
  text.textContent = token.textContent.replaceAll("\n", "").replaceAll(" ", "␣") || "(no text)";
  panel.replaceChildren(text, list);
}

function choose(token) {
  if (chosen) {
    chosen.classList.remove("chosen");
    chosen.tabIndex = -1;
  }
  chosen = token;
  token.classList.add("chosen");
  token.tabIndex = 0;
  show(token);
}

function line(tokens, from, by) {
  const here = from.getBoundingClientRect();
  const row = tokens.filter((token) => {
    const box = token.getBoundingClientRect();
    return by > 0 ? box.top > here.top + here.height / 2 : box.top < here.top - here.height / 2;
  });
  if (row.length === 0) return null;
  const edge = by > 0 ? Math.min(...row.map((t) => t.getBoundingClientRect().top)) : Math.max(...row.map((t) => t.getBoundingClientRect().top));
  const near = row.filter((t) => Math.abs(t.getBoundingClientRect().top - edge) < here.height / 2);
  return near.reduce((best, t) => (Math.abs(t.getBoundingClientRect().left - here.left) < Math.abs(best.getBoundingClientRect().left - here.left) ? t : best));
}

function beside(block, by) {
  const blocks = [...document.querySelectorAll("[data-tokens]")];
  const next = blocks[blocks.indexOf(block) + by];
  if (!next) return null;
  const tokens = tokensOf(next);
  return tokens[by > 0 ? 0 : tokens.length - 1];
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const block = event.currentTarget;
  const tokens = tokensOf(block);
  const at = tokens.indexOf(event.target);
  if (at < 0) return;
  const next = {
    ArrowRight: () => tokens[at + 1] ?? beside(block, 1),
    ArrowLeft: () => tokens[at - 1] ?? beside(block, -1),
    ArrowDown: () => line(tokens, tokens[at], 1) ?? beside(block, 1),
    ArrowUp: () => line(tokens, tokens[at], -1) ?? beside(block, -1),
    Home: () => tokens[0],
    End: () => tokens[tokens.length - 1],
  }[event.key]?.();
  if (next) {
    event.preventDefault();
    next.focus();
  }
}

for (const block of document.querySelectorAll("[data-tokens]")) {
  block.setAttribute("role", "group");
  for (const token of block.querySelectorAll(".t")) {
    // The browser's own bubble would hide the neighbors; the panel says the same.
    token.dataset.numbers = token.title;
    token.removeAttribute("title");
    token.tabIndex = -1;
  }
  const first = block.querySelector(".t");
  if (first) first.tabIndex = 0;
  block.addEventListener("focusin", (event) => event.target.matches(".t") && choose(event.target));
  block.addEventListener("pointerover", (event) => event.target.matches(".t") && show(event.target));
  block.addEventListener("pointerleave", () => chosen && show(chosen));
  block.addEventListener("click", (event) => event.target.matches(".t") && event.target.focus());
  block.addEventListener("keydown", onKey);
}
