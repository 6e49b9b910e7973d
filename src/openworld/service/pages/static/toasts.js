// Short messages in the corner, with buttons. All text is set as text, never as markup.

const STORE = "openworld.toast";
const SHOWN = 12000;

/** Show a message; `actions` are `{name, run, key}`. Returns `{element, say, close}`. */
export function toast(text, { actions = [], kind = "", stay = false, id = null } = {}) {
  if (id) document.getElementById(id)?.remove();
  const element = document.createElement("div");
  element.className = `toast ${kind}`;
  if (id) element.id = id;
  const words = document.createElement("span");
  words.textContent = text;
  element.append(words);
  const close = () => element.remove();
  for (const { name, run } of [...actions, { name: "×", run: () => {} }]) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = name;
    if (name === "×") button.setAttribute("aria-label", "Close the message");
    button.addEventListener("click", () => { close(); run(); });
    element.append(button);
  }
  document.getElementById("toasts").append(element);
  if (!stay) setTimeout(close, SHOWN);
  return { element, close, say: more => { words.textContent = more; } };
}

export const failed = text => toast(text, { kind: "error" });

/** Have the next page show an outcome. */
export const leave = outcome => sessionStorage.setItem(STORE, JSON.stringify(outcome));

/** Return the outcome that the page before left, once. */
export function left() {
  const stored = sessionStorage.getItem(STORE);
  sessionStorage.removeItem(STORE);
  return stored && JSON.parse(stored);
}
