// The outbox: requests that change something are kept in the browser until the server has answered.
//
// A request whose answer got lost, or that another page began to send, is sent again under the same idempotency
// key, so it has its effect once.

const KEY = "openworld.outbox", OLD_KEY = "openworld.acts"; // the old key: up to 0.2.0
const UNREACHABLE = new Set([502, 503, 504]);
const FIRST_PAUSE = 1000, LONGEST_PAUSE = 15000, LEAVING = 5000;

const asked = new Map(); // id of a request -> what to call with its answer
let pause = FIRST_PAUSE, timer = null, running = false;
let left = 0; // when the page was left, which cuts its requests off: the next page sends them again

export const waiting = () => JSON.parse(localStorage.getItem(KEY) ?? "[]");

const store = requests => localStorage.setItem(KEY, JSON.stringify(requests));

/** Send `{method, path, body, title}`. Resolves to `{ok, status, data}`, or to null while it waits. */
export function perform(request) {
  const id = `${Date.now()}-${Math.random().toString(36).slice(2)}`;
  store([...waiting(), { method: "POST", ...request, id }]);
  return new Promise(resolve => {
    asked.set(id, resolve);
    send();
  });
}

/** Remove the newest request if it waits for the connection, and return it. */
export function takeBack() {
  const requests = waiting();
  if (!requests.at(-1)?.late) return undefined;
  const last = requests.pop();
  store(requests);
  announce("waiting");
  return last;
}

/** Wait until everything is answered, or waits for the connection. */
export const settled = () => send();

export const send = () => exclusive(sendAll);

async function exclusive(work) {
  if (navigator.locks) return navigator.locks.request(KEY, work); // one tab at a time
  if (running) return undefined;
  running = true;
  try { return await work(); } finally { running = false; }
}

async function sendAll() {
  clearTimeout(timer);
  for (let [next] = waiting(); next; [next] = waiting()) {
    next.tries = (next.tries ?? 0) + 1;
    store(waiting().map(other => (other.id === next.id ? next : other)));
    announce("sending", next);
    const answer = await post(next);
    if (Date.now() - left < LEAVING) { // the next page sends it again: it may have been rendered before the answer
      timer = setTimeout(send, LEAVING); // unless this page stays
      return;
    }
    if (answer === null) {
      store(waiting().map(other => ({ ...other, late: true })));
      announce("waiting");
      for (const { id } of waiting()) settle(id, null);
      timer = setTimeout(send, pause);
      pause = Math.min(2 * pause, LONGEST_PAUSE);
      return;
    }
    store(waiting().filter(other => other.id !== next.id));
    announce("answer", { request: next, answer });
    settle(next.id, answer);
  }
  pause = FIRST_PAUSE;
  announce("waiting");
}

async function post({ method, path, body, id }) {
  try {
    const response = await fetch(path, {
      method,
      headers: { "Content-Type": "application/json", "Idempotency-Key": id },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    if (UNREACHABLE.has(response.status)) return null;
    const data = await response.json().catch(error => {
      if (response.ok || !(error instanceof SyntaxError)) throw error; // cut off: no answer
      return {}; // an error that is not JSON, of a proxy perhaps
    });
    return { ok: response.ok, status: response.status, data: Array.isArray(data) ? data.at(-1) ?? { event_id: null } : data };
  } catch {
    return null; // no connection
  }
}

function settle(id, answer) {
  asked.get(id)?.(answer);
  asked.delete(id);
}

function announce(name, detail) {
  document.dispatchEvent(new CustomEvent(`outbox:${name}`, { detail }));
}

const old = localStorage.getItem(OLD_KEY);
if (old) {
  store([...JSON.parse(old), ...waiting()]);
  localStorage.removeItem(OLD_KEY);
}

addEventListener("online", send);
addEventListener("beforeunload", () => { left = Date.now(); });
