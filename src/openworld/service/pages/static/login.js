// The login page: a key or a name is sent to the API, which answers with a session cookie.

const form = document.getElementById("login");
const problem = document.getElementById("problem");

form.addEventListener("submit", async event => {
  event.preventDefault();
  const response = await fetch("/v1/session", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(Object.fromEntries(new FormData(form))),
  }).catch(() => null);
  if (response?.ok) return location.assign("/");
  problem.hidden = false;
  problem.textContent = response ? (await response.json()).detail : "No connection. Try again in a moment.";
  return form.querySelector("input").select();
});
document.getElementById("logout")?.addEventListener("click", async () => {
  await fetch("/v1/session", { method: "DELETE" });
  location.assign("/login");
});
