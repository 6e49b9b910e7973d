// Outcomes: "Learned “okapi” from 12 samples. 3 more are recognized now. Undo".

import { perform, settled, takeBack, waiting } from "./outbox.js";
import { SHOWN, failed, toast } from "./toasts.js";

const REFUSALS = "openworld.refusals";
const STORE = "openworld.outcome"; // the last outcome, so that the next page goes on showing it
const LONGEST_PAUSE = 10000, NOTICEABLE = 400;

export const plural = (n, word) => `${n.toLocaleString()} ${word}${n === 1 ? "" : word.endsWith("s") ? "es" : "s"}`;

const named = (labels, words) => (labels.length === 1 ? `“${labels[0]}” is` : `${plural(labels.length, "class")} are`) + words;

function rewound(outcome, done) {
  const news = [done];
  if (outcome.added?.length) news.push(named(outcome.added, " known again."));
  if (outcome.removed?.length) news.push(named(outcome.removed, " no longer known."));
  return news.join(" ");
}

const learned = (o, { label }) => `Learned ${label ? `“${label}” from ` : ""}${plural(o.samples, "sample")}.`;

const dismissed = o => `${plural(o.samples, "sample")} dismissed.`;

const WORDS = {
  label: learned,
  accept: learned,
  learn: learned,
  feedback: (o, { label }) => {
    const count = plural(o.samples, "sample");
    return label ? `Learned ${count} as “${label}”.` : label === null ? `Returned ${count} to the unknown.` : `Reviewed ${count}.`;
  },
  dismiss: dismissed,
  dismiss_unknown: dismissed,
  merge_clusters: () => "The clusters are merged.",
  split_cluster: o => `${plural(o.samples, "sample")} split off into a new cluster.`,
  describe: () => "Description saved.",
  rename: (o, { label }) => `Renamed to “${label}”.`,
  merge: (o, { into }) => `Merged into “${into}”.`,
  forget: o => `Forgot “${o.removed[0]}”.`,
  objective: (o, { objective }) => `Moved the operating point${objective ? ` to ${objective}` : ""}.`,
  activate: o => rewound(o, "Rolled back."),
  undo: o => rewound(o, "Undone."),
  redo: o => rewound(o, "Redone."),
};

function words(outcome, body, rescored = {}) {
  if (outcome.event_id === null) return `Nothing was left to do: ${outcome.kind === "label" && body?.label ? `they are labeled “${body.label}” already` : "it is so already"}.`;
  const said = WORDS[outcome.kind]?.(outcome, messageFields(body)) ?? "Done.";
  const changed = poolChanges(rescored);
  return changed ? `${said} ${changed}.` : said;
}

/** Say how many samples of the pool a version recognizes in addition, and how many it no longer recognizes. */
function poolChanges({ recognized = 0, returned = 0 }) {
  const are = count => (count === 1 ? "is" : "are");
  const parts = [];
  if (recognized) parts.push(`${plural(recognized, "more sample")} ${are(recognized)} recognized now`);
  if (returned) parts.push(`${plural(returned, recognized ? "recognized one" : "recognized sample")} ${are(returned)} unknown again`);
  return parts.join("; ");
}

/** Show an outcome, here and on the pages that follow, and then how many samples became known. */
async function show(outcome, body, until = Date.now() + SHOWN) {
  if (outcome.event_id === null && document.getElementById("outcome")?.dataset.version) return; // sent twice: keep the Undo
  const action = outcome.kind === "undo" ? { name: "Redo", run: redo } : { name: "Undo", run: () => undo(outcome.event_id) };
  keep(outcome, body, until);
  const message = toast(words(outcome, body), {
    id: "outcome",
    actions: outcome.event_id === null ? [] : [action],
    shown: until - Date.now(),
    closed: forget,
  });
  message.element.dataset.version = outcome.model_version;
  document.body.dispatchEvent(new CustomEvent("progress"));
  if (!outcome.new_version) return;
  for (let pause = 100; pause < LONGEST_PAUSE && message.element.isConnected; pause *= 1.5) {
    await new Promise(resolve => setTimeout(resolve, pause));
    const address = `/v1/versions/${outcome.model_version}/rescored`;
    const found = await fetch(address).then(response => response.json()).catch(() => null);
    if (!found) continue;
    message.say(words(outcome, body, found));
    for (const name of ["progress", "news"]) document.body.dispatchEvent(new CustomEvent(name));
    return;
  }
}

/** The fields of a request that its message needs. Reviews that all say the same have one label, null for unknown. */
function messageFields(body) {
  const { label, into, objective, reviews = [] } = body ?? {};
  const labels = new Set(reviews.map(review => (review.unknown ? null : review.label)));
  return { label: labels.size === 1 ? [...labels][0] : label, into, objective };
}

const keep = (outcome, body, until = Date.now() + SHOWN) =>
  sessionStorage.setItem(STORE, JSON.stringify({ outcome, body: messageFields(body), until }));
const forget = () => sessionStorage.removeItem(STORE);

const refusals = () => JSON.parse(sessionStorage.getItem(REFUSALS) ?? "[]");

/** Show what was refused after its page was left, here and on the pages that follow, until a person closes it. */
function showRefusals() {
  if (refusals().length)
    toast(refusals().join(" "), { id: "refusals", kind: "error", stay: true, closed: () => sessionStorage.removeItem(REFUSALS) });
}

/** Send a request; go to another page, or show its outcome here. Resolves to whether it succeeded. */
export async function submit(asked, then = null) {
  let note = null;
  const timer = setTimeout(() => { note = toast(`Working: ${asked.title} …`, { id: "busy", stay: true }); }, NOTICEABLE);
  const answer = await perform(asked);
  clearTimeout(timer);
  note?.close();
  if (answer?.ok && then) {
    keep(answer.data, asked.body);
    location.assign(then);
  } else if (answer?.ok) {
    show(answer.data, asked.body);
  }
  return Boolean(answer?.ok);
}

/** Send a request in the background: the person may leave the page, and the next page shows the outcome. */
export const submitInBackground = asked => perform({ ...asked, background: true });

/** Undo an event: the one named, else a request that waits for the connection, else the person's last event. */
export async function undo(event) {
  const last = event === undefined ? takeBack() : undefined;
  if (last) {
    toast(`Canceled before it was sent: ${last.title}.`);
    document.dispatchEvent(new CustomEvent("outbox:taken-back"));
    return;
  }
  await settled(); // what is being learned can be undone as soon as it is learned
  await rewind("undo", event);
}

export const redo = event => rewind("redo", typeof event === "number" ? event : undefined);

async function rewind(kind, event) {
  // The event is named, so that sending twice cannot undo twice.
  const last = event === undefined ? await fetch("/history/last").then(r => r.json()).catch(() => null) : { [kind]: event };
  if (!last) return failed("No connection: nothing was changed. Try again in a moment.");
  if (last[kind] === null) return toast(kind === "undo" ? "There is nothing to undo." : "There is nothing to redo.");
  const asked = { path: `/v1/${kind}`, body: { event_id: last[kind] }, title: `${kind} event ${last[kind]}` };
  return submit(asked, location.pathname + location.search);
}

/** Show what is being sent, errors, and outcomes that no part of the page waits for, such as those of the previous page. */
export function watch() {
  document.addEventListener("outbox:sending", ({ detail: { background, late, title } }) => {
    if (background && !late)
      toast(`${title[0].toUpperCase()}${title.slice(1)} …`, { id: "outcome", stay: true, actions: [{ name: "Undo", run: () => undo() }] });
  });
  document.addEventListener("outbox:answer", ({ detail: { request: done, answer } }) => {
    if (done.cluster) fetch(`/v1/clusters/${done.cluster}/lease`, { method: "DELETE" }).catch(() => {});
    if (answer.ok) {
      return done.late || done.background ? show(answer.data, done.body) : undefined;
    }
    const refusal = `Not done: ${done.title}. ${answer.data.detail ?? `The server answered ${answer.status}.`}`;
    if (!done.background) return failed(refusal);
    document.getElementById("outcome")?.remove();
    sessionStorage.setItem(REFUSALS, JSON.stringify([...refusals(), refusal]));
    return showRefusals();
  });
  showRefusals();
  const before = JSON.parse(sessionStorage.getItem(STORE) ?? "null");
  if (before && before.until > Date.now() && !waiting().length) show(before.outcome, before.body, before.until);
}
