// Outcomes: "Version 12 is live: 3 classes added, 214 of the pool now recognized. Undo".

import { perform, takeBack, waiting } from "./outbox.js";
import { failed, leave, left, toast } from "./toasts.js";

const LONGEST_PAUSE = 10000, NOTICEABLE = 400;

const plural = (n, word) => `${n.toLocaleString()} ${word}${n === 1 ? "" : word.endsWith("s") ? "es" : "s"}`;

const DONE = {
  dismiss: o => `${plural(o.samples, "sample")} dismissed`,
  merge_clusters: () => "The clusters are merged",
  split_cluster: o => `${plural(o.samples, "sample")} split off into a new cluster`,
  describe: () => "Description saved",
  feedback: o => `${plural(o.samples, "sample")} reviewed`,
};

function words(outcome, recognized) {
  if (outcome.event_id === null) return "Nothing was left to do.";
  if (DONE[outcome.kind]) return `${DONE[outcome.kind](outcome)}.`;
  const news = [];
  if (outcome.added?.length) news.push(`${plural(outcome.added.length, "class")} added`);
  if (outcome.removed?.length) news.push(`${plural(outcome.removed.length, "class")} removed`);
  if (outcome.samples) news.push(`${plural(outcome.samples, "sample")} learned`);
  if (recognized) news.push(`${recognized.toLocaleString()} of the pool now recognized`);
  const what = { undo: "Undone. ", redo: "Redone. " }[outcome.kind] ?? "";
  return `${what}Version ${outcome.model_version} is live${news.length ? `: ${news.join(", ")}` : ""}.`;
}

/** Show an outcome, and then how many samples became known. */
export async function show(outcome) {
  const undone = outcome.kind === "undo";
  const action = undone ? { name: "Redo", run: redo } : { name: "Undo", run: () => undo(outcome.event_id) };
  const message = toast(words(outcome), { id: "outcome", actions: outcome.event_id === null ? [] : [action] });
  message.element.dataset.version = outcome.model_version;
  document.body.dispatchEvent(new CustomEvent("progress"));
  if (DONE[outcome.kind] || outcome.event_id === null) return;
  for (let pause = 100; pause < LONGEST_PAUSE && message.element.isConnected; pause *= 1.5) {
    await new Promise(resolve => setTimeout(resolve, pause));
    const address = `/v1/versions/${outcome.model_version}/rescored`;
    const found = await fetch(address).then(response => response.json()).catch(() => null);
    if (!found) continue;
    message.say(words(outcome, found.recognized));
    document.body.dispatchEvent(new CustomEvent("progress"));
    return;
  }
}

/** Send a request; go to another page, or show its outcome here. Resolves to whether it succeeded. */
export async function act(asked, then = null) {
  let note = null;
  const timer = setTimeout(() => { note = toast(`Working: ${asked.title} …`, { id: "busy", stay: true }); }, NOTICEABLE);
  const answer = await perform(asked);
  clearTimeout(timer);
  note?.close();
  if (Array.isArray(answer?.data)) answer.data = answer.data.at(-1) ?? { event_id: null };
  if (answer?.ok && then) {
    leave(answer.data);
    location.assign(then);
  } else if (answer?.ok) {
    show(answer.data);
  }
  return Boolean(answer?.ok);
}

/** Undo an event: the one named, else a request that still waits, else the person's last event. */
export async function undo(event) {
  if (waiting().length && event === undefined) {
    const last = takeBack();
    toast(`Canceled before it was sent: ${last.title}.`);
    document.dispatchEvent(new CustomEvent("outbox:taken-back"));
    return;
  }
  await rewind("undo", event);
}

export const redo = event => rewind("redo", typeof event === "number" ? event : undefined);

async function rewind(kind, event) {
  // The event is named, so that sending twice cannot undo twice.
  const last = event === undefined ? await fetch("/history/last").then(r => r.json()).catch(() => null) : { [kind]: event };
  if (!last) return failed("No connection: nothing was changed. Try again in a moment.");
  if (last[kind] === null) return toast(kind === "undo" ? "There is nothing to undo." : "There is nothing to redo.");
  const asked = { path: `/v1/${kind}`, body: { event_id: last[kind] }, title: `${kind} event ${last[kind]}` };
  return act(asked, location.pathname + location.search);
}

/** Show requests that wait for the connection, errors, and the outcome of the page before. */
export function watch() {
  const banner = document.getElementById("waiting");
  document.addEventListener("outbox:waiting", () => {
    const requests = waiting();
    banner.hidden = !requests.length;
    banner.textContent = requests.length
      ? `No connection. ${plural(requests.length, "request")} kept in this browser, sent when it is back: ${requests.map(r => r.title).join("; ")}.`
      : "";
  });
  document.addEventListener("outbox:answer", ({ detail: { request: done, answer } }) => {
    const said = answer.data.detail ?? `the server answered ${answer.status}`;
    if (!answer.ok && done.tries > 1) toast(`Sent twice, as no answer came at first: ${done.title}. Now: ${said}`);
    else if (!answer.ok) failed(said);
    else if (done.late) show(Array.isArray(answer.data) ? answer.data.at(-1) : answer.data);
  });
  const before = left();
  if (before) show(before);
}
