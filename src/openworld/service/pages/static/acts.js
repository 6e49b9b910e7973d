// Acts: what a person does, sent to the API and kept in the browser until the server has answered.
//
// An act whose answer got lost is sent again under the same key, by which the server does it once and answers
// as before.

const KEY = "openworld.acts";
const UNREACHABLE = new Set([502, 503, 504]);
const FIRST_PAUSE = 1000, LONGEST_PAUSE = 15000;

const asked = new Map(); // id of an act -> what to call with its answer
let pause = FIRST_PAUSE, timer = null, running = false;

export const waiting = () => JSON.parse(localStorage.getItem(KEY) ?? "[]");

const keep = acts => localStorage.setItem(KEY, JSON.stringify(acts));

/** Do an act, `{method, path, body, title}`. Resolves to `{ok, status, data}`, or to null while it waits. */
export function perform(act) {
  const id = `${Date.now()}-${Math.random().toString(36).slice(2)}`;
  keep([...waiting(), { method: "POST", ...act, id }]);
  return new Promise(resolve => {
    asked.set(id, resolve);
    send();
  });
}

/** Forget the newest act that still waits, and return it. */
export function takeBack() {
  const acts = waiting();
  const last = acts.pop();
  keep(acts);
  tell("waiting");
  return last;
}

export const send = () => exclusive(sendAll);

async function exclusive(work) {
  if (navigator.locks) return navigator.locks.request(KEY, work); // one tab at a time
  if (running) return undefined;
  running = true;
  try { return await work(); } finally { running = false; }
}

async function sendAll() {
  clearTimeout(timer);
  for (let [act] = waiting(); act; [act] = waiting()) {
    act.tries = (act.tries ?? 0) + 1;
    keep(waiting().map(other => (other.id === act.id ? act : other)));
    const answer = await request(act);
    if (answer === null) {
      keep(waiting().map(other => ({ ...other, late: true })));
      tell("waiting");
      for (const { id } of waiting()) settle(id, null);
      timer = setTimeout(send, pause);
      pause = Math.min(2 * pause, LONGEST_PAUSE);
      return;
    }
    keep(waiting().filter(other => other.id !== act.id));
    tell("answer", { act, answer });
    settle(act.id, answer);
  }
  pause = FIRST_PAUSE;
  tell("waiting");
}

async function request({ method, path, body, id }) {
  try {
    const response = await fetch(path, {
      method,
      headers: { "Content-Type": "application/json", "Idempotency-Key": id },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    if (UNREACHABLE.has(response.status)) return null;
    const data = await response.json().catch(() => ({}));
    return { ok: response.ok, status: response.status, data };
  } catch {
    return null; // no connection
  }
}

function settle(id, answer) {
  asked.get(id)?.(answer);
  asked.delete(id);
}

function tell(name, detail) {
  document.dispatchEvent(new CustomEvent(`acts:${name}`, { detail }));
}

addEventListener("online", send);
