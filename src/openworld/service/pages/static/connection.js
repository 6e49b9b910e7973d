// The connection to the server: events as they happen, and a banner while it is lost.

import { plural } from "./outcomes.js";
import { send, waiting } from "./outbox.js";

const SETTLE = 1500, TRY_AGAIN = 3000;

const banner = document.getElementById("connection");
let lost = false, ended = false, timer = null;

function show() {
  const requests = waiting().filter(request => request.late);
  banner.hidden = !lost && !ended && !requests.length;
  if (banner.hidden) return;
  const kept = requests.length
    ? ` ${plural(requests.length, "request")} kept in this browser, sent when it is back: ${requests.map(r => r.title).join("; ")}.`
    : " What you do now is kept in this browser and sent when it is back.";
  banner.textContent = ended ? "You are logged out. " : `No connection to the server.${kept}`;
  if (!ended) return;
  const link = document.createElement("a");
  link.href = "/login";
  link.textContent = "Log in";
  banner.append(link);
}

/** Connect, and connect again for ever; `subscribe(source)` is called for each new stream of events. */
export function connect(subscribe) {
  const source = new EventSource("/v1/events");
  source.addEventListener("open", () => {
    clearTimeout(timer);
    if (lost) {
      send();
      for (const name of ["progress", "news"]) document.body.dispatchEvent(new CustomEvent(name));
    }
    lost = false;
    show();
  });
  source.addEventListener("error", async () => {
    clearTimeout(timer);
    timer = setTimeout(() => { lost = true; show(); }, SETTLE); // a server that restarts is back at once
    if (source.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
    const session = await fetch("/v1/session").then(response => response.json()).catch(() => null);
    ended = Boolean(session) && session.name === null;
    if (ended) show();
    else setTimeout(() => connect(subscribe), TRY_AGAIN);
  });
  addEventListener("pagehide", () => { clearTimeout(timer); source.close(); });
  subscribe(source);
}

document.addEventListener("outbox:waiting", show);
addEventListener("offline", () => { lost = true; show(); });
addEventListener("online", () => { lost = false; show(); });
