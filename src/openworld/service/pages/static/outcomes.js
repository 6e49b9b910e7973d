// Telling what an act did: "Version 12 is live: 3 classes added, 214 of the pool now recognized. Undo".

import { perform, takeBack, waiting } from "./acts.js";
import { failed, leave, left, toast } from "./toasts.js";

const LONGEST_PAUSE = 10000, NOTICEABLE = 400;

const plural = (n, word) => `${n.toLocaleString()} ${word}${n === 1 ? "" : word.endsWith("s") ? "es" : "s"}`;

const DONE = {
  dismiss: o => `${plural(o.samples, "sample")} dismissed`,
  merge_clusters: () => "The clusters are one now",
  split_cluster: o => `${plural(o.samples, "sample")} split off into a new cluster`,
  describe: () => "Description kept",
};

function words(outcome, recognized) {
  if (outcome.event_id === null) return "Nothing was left to do.";
  if (DONE[outcome.kind]) return `${DONE[outcome.kind](outcome)}.`;
  const news = [];
  if (outcome.added?.length) news.push(`${plural(outcome.added.length, "class")} added`);
  if (outcome.removed?.length) news.push(`${plural(outcome.removed.length, "class")} gone`);
  if (outcome.samples) news.push(`${plural(outcome.samples, "sample")} learnt`);
  if (recognized) news.push(`${recognized.toLocaleString()} of the pool now recognized`);
  const what = { undo: "Undone. ", redo: "Done again. " }[outcome.kind] ?? "";
  return `${what}Version ${outcome.model_version} is live${news.length ? `: ${news.join(", ")}` : ""}.`;
}

/** Show what an act did, and go on counting what became known. */
export async function show(outcome) {
  const undone = outcome.kind === "undo";
  const action = undone ? { name: "Do again", run: redo } : { name: "Undo", run: () => undo(outcome.event_id) };
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

/** Do an act; go to another page, or show here what it did. Resolves to whether it was done. */
export async function act(asked, then = null) {
  let note = null;
  const timer = setTimeout(() => { note = toast(`Under way: ${asked.title} …`, { id: "busy", stay: true }); }, NOTICEABLE);
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

/** Undo an act: the one named, else one that still waits to be sent, else the person's last. */
export async function undo(event) {
  if (waiting().length && event === undefined) {
    const last = takeBack();
    toast(`Taken back before it was sent: ${last.title}.`);
    document.dispatchEvent(new CustomEvent("acts:taken-back"));
    return;
  }
  await revise("undo", event);
}

export const redo = event => revise("redo", typeof event === "number" ? event : undefined);

async function revise(kind, event) {
  // The act is named, so that sending twice cannot undo twice.
  const last = event === undefined ? await fetch("/last-acts").then(r => r.json()).catch(() => null) : { [kind]: event };
  if (!last) return failed("No connection: nothing was changed. Try again in a moment.");
  if (last[kind] === null) return toast(kind === "undo" ? "There is nothing to undo." : "There is nothing to do again.");
  const asked = { path: `/v1/${kind}`, body: { event_id: last[kind] }, title: `${kind} act ${last[kind]}` };
  return act(asked, location.pathname + location.search);
}

/** Show acts that wait for the connection, errors, and what the page before did. */
export function watch() {
  const banner = document.getElementById("waiting");
  document.addEventListener("acts:waiting", () => {
    const acts = waiting();
    banner.hidden = !acts.length;
    banner.textContent = acts.length
      ? `No connection. ${plural(acts.length, "act")} kept in this browser, sent again as soon as it is back: ${acts.map(a => a.title).join("; ")}.`
      : "";
  });
  document.addEventListener("acts:answer", ({ detail: { act: done, answer } }) => {
    const said = answer.data.detail ?? `the server answered ${answer.status}`;
    if (!answer.ok && done.tries > 1) toast(`Sent twice, as no answer came at first: ${done.title}. Now: ${said}`);
    else if (!answer.ok) failed(said);
    else if (done.late) show(Array.isArray(answer.data) ? answer.data.at(-1) : answer.data);
  });
  const before = left();
  if (before) show(before);
}
