// Short messages in the corner, with buttons. All text is set as text, never as markup.

export const SHOWN = 12000;

/** Show a message; `actions` are `{name, run}`. Returns `{element, say, close}`. */
export function toast(text, { actions = [], kind = "", stay = false, id = null, shown = SHOWN, closed = () => {} } = {}) {
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
    button.addEventListener("click", () => { close(); closed(); run(); });
    element.append(button);
  }
  document.getElementById("toasts").append(element);
  if (!stay) setTimeout(close, shown);
  return { element, close, say: more => { words.textContent = more; } };
}

export const failed = text => toast(text, { kind: "error" });
