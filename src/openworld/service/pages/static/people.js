// People: create and revoke keys; ask each person for their name once.

import { failed } from "./toasts.js";

async function send(method, path, body) {
  const headers = body ? { "Content-Type": "application/json" } : {};
  const response = await fetch(path, { method, headers, body: body && JSON.stringify(body) }).catch(() => null);
  if (!response) return { detail: "No connection: nothing was changed. Try again in a moment." };
  return response.status === 204 ? {} : response.json();
}

export function peoplePage(form) {
  form.addEventListener("submit", async event => {
    event.preventDefault();
    const made = await send("POST", "/v1/keys", Object.fromEntries(new FormData(form)));
    const problem = document.getElementById("key-problem");
    problem.hidden = Boolean(made.key);
    problem.textContent = made.detail ?? "";
    document.getElementById("key-made").hidden = !made.key;
    if (!made.key) return;
    document.getElementById("key-owner").textContent = made.name;
    document.getElementById("key-secret").textContent = made.key;
    form.reset();
  });
  for (const button of document.querySelectorAll("[data-revoke]"))
    button.addEventListener("click", async () => {
      if (button.dataset.sure === undefined) { // a second click does it: it cannot be undone
        button.dataset.sure = "";
        button.textContent = `Revoke the key of ${button.dataset.name}?`;
        return;
      }
      const answer = await send("DELETE", button.dataset.revoke);
      if (answer.detail) failed(answer.detail);
      else location.reload();
    });
}

export function askName(form) {
  form.addEventListener("submit", async event => {
    event.preventDefault();
    const answer = await send("POST", "/v1/session", Object.fromEntries(new FormData(form)));
    if (answer.detail) failed(answer.detail);
    else location.reload();
  });
  form.querySelector("[type=button]").addEventListener("click", () => {
    document.cookie = "openworld_no_name=1; path=/; max-age=31536000; SameSite=Lax"; // read by the server, so that the layout does not shift
    form.hidden = true;
  });
}
