// The one script of the page: finds out which page it is on, and connects keys and buttons to commands.

import { send } from "./outbox.js";
import { clusterList } from "./cluster_list.js";
import { importPage } from "./import_files.js";
import { listen } from "./live.js";
import { CHANGING_COMMANDS, isLocked, lock } from "./lease.js";
import { mapPage } from "./map.js";
import { redo, submit, undo, watch } from "./outcomes.js";
import { askName, peoplePage } from "./people.js";
import { tryPage } from "./try.js";
import { workbench } from "./workbench.js";

const KEYS = {
  "?": "keys", "/": "search", x: "dismiss", r: "right", u: "unknown", m: "merge", p: "split", i: "look", s: "toggle", y: "confirm",
  " ": "skip", Enter: "enter", Escape: "none", j: "next", k: "previous",
  ArrowRight: "next", ArrowLeft: "previous", ArrowDown: "down", ArrowUp: "up",
  "+": "larger", "=": "larger", "-": "smaller", 0: "whole",
};
const LOOKING = { ArrowRight: "lookOn", j: "lookOn", ArrowLeft: "lookBack", k: "lookBack", s: "toggle" };
const WITH_CTRL = { z: "undo", Z: "redo", y: "redo", a: "all", " ": "toggle" };

const dialog = document.getElementById("dialog");

const commands = {
  undo: () => undo(),
  redo: () => redo(),
  keys: () => document.getElementById("keys").showModal(),
  search: () => document.querySelector("#search, #label")?.focus(),
  ...pageCommands(),
};

function pageCommands() {
  const grid = document.getElementById("grid");
  if (grid?.dataset.kind === "clusters") return clusterList(grid);
  if (grid?.dataset.kind === "samples") return workbench(grid, openDialog);
  if (document.getElementById("map")) return mapPage(document.getElementById("map"));
  if (document.getElementById("try")) return tryPage();
  return {};
}

/** Open the dialog with a part of a page in it. */
async function openDialog(address) {
  await window.htmx.ajax("GET", address, { target: "#dialog-body", source: "#dialog-body" });
  if (!dialog.open) dialog.showModal();
  else dialog.querySelector("[autofocus]")?.focus();
  dialog.scrollTop = 0;
}

function onKey(event) {
  const { target, key } = event;
  const typing = target.matches("input, textarea, select");
  if (event.defaultPrevented || event.altKey) return;
  if (document.querySelector("dialog[open]")) {
    const name = !typing && dialog.open && dialog.querySelector("[data-sample]") && LOOKING[key];
    if (name) run(event, name);
    return;
  }
  if (event.ctrlKey || event.metaKey) {
    const name = WITH_CTRL[event.shiftKey && key === "z" ? "Z" : key];
    if (name && commands[name] && !(typing && (target.value || key === "a"))) run(event, name);
    return;
  }
  if (typing) {
    if (key === "Escape") (document.querySelector('#grid [tabindex="0"]') ?? target).focus();
    return;
  }
  if ((key === " " || key === "Enter") && target.closest("button, a, summary, [contenteditable]")) return;
  if (key >= "1" && key <= "9" && commands.number) run(event, "number", Number(key));
  else if (KEYS[key] && commands[KEYS[key]]) run(event, KEYS[key], event);
}

function run(event, name, argument) {
  event.preventDefault();
  if (!(CHANGING_COMMANDS.has(name) && isLocked())) commands[name](argument);
}

function onClick(event) {
  const button = event.target.closest("[data-do], [data-request], [data-open]");
  if (!button) return;
  const { do: name, open } = button.dataset;
  if (name && CHANGING_COMMANDS.has(name) && isLocked()) return;
  if (name) commands[name]?.(event, button);
  else if (open) openDialog(open);
  else if (button.matches("button")) sendRequest(button, JSON.parse(button.dataset.body ?? "null") ?? undefined);
}

function onSubmit(event) {
  const form = event.target.closest("form[data-request]");
  if (!form) return;
  event.preventDefault();
  const values = Object.fromEntries(new FormData(form));
  const constant = JSON.parse(form.dataset.body ?? "{}");
  sendRequest(form, { ...constant, ...values });
}

function sendRequest({ dataset }, body) {
  const [method, path] = dataset.request.split(" ");
  const then = { reload: location.pathname + location.search }[dataset.then] ?? dataset.then;
  dialog.close();
  submit({ method, path, body, title: dataset.title }, then);
}

const importing = document.getElementById("import");
if (importing) importPage(importing);

addEventListener("load", () => {
  document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  for (const place of document.querySelectorAll("[data-origin]")) place.textContent = location.origin;
  if (document.body.dataset.role === "viewer") {
    lock(true);
    for (const control of document.querySelectorAll("[data-do=undo], [data-do=redo]")) control.disabled = true;
  }
});
document.addEventListener("keydown", onKey);
document.addEventListener("input", ({ target }) => {
  const output = document.querySelector(`[data-percent="${target.id}"]`);
  if (target.id && output) output.value = `${target.value} %`;
});
document.addEventListener("click", onClick);
document.addEventListener("submit", onSubmit);
for (const [id, begin] of [["new-key", peoplePage], ["who", askName]]) {
  const form = document.getElementById(id);
  if (form) begin(form);
}
watch();
listen();
send();
document.body.dataset.ready = "true";
