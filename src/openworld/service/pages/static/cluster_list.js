// The list of clusters: move, open, select, merge, dismiss.

import { showNextClusters } from "./live.js";
import { waiting } from "./outbox.js";
import { submit } from "./outcomes.js";
import { Selection } from "./selection.js";
import { toast } from "./toasts.js";

const REASONS = ["not a class", "bad input"];

/** Ask before dismissing; `dismiss(reason)` does it. */
export function askToDismiss(count, dismiss) {
  const words = `Dismiss ${count.toLocaleString()} ${count === 1 ? "sample" : "samples"}? It can be undone.`;
  const actions = REASONS.map(reason => ({ name: reason[0].toUpperCase() + reason.slice(1), run: () => dismiss(reason) }));
  const { element } = toast(words, { id: "ask", actions, stay: true });
  const before = document.activeElement;
  element.addEventListener("keydown", event => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    element.remove();
    before.focus();
  });
  element.querySelector("button").focus();
}

export function clusterList(grid) {
  const selection = new Selection(grid);
  const chosen = () => selection.selected.map(card => Number(card.dataset.id));
  const enable = () => {
    document.querySelector("[data-do=merge]").disabled = selection.count < 2;
    document.querySelector("[data-do=dismiss]").disabled = selection.count < 1;
  };
  grid.addEventListener("selection", enable);
  for (const { cluster } of waiting()) grid.querySelector(`[data-id="${Number(cluster)}"]`)?.classList.add("waits");
  document.addEventListener("outbox:answer", ({ detail: { request } }) => request.background && location.reload());

  /** Return whether all selected clusters are free, and say so if not. */
  function areFree() {
    const held = selection.selected.find(card => card.querySelector(".held:not(.mine)"));
    if (held) toast(`Cluster ${held.dataset.id} is ${held.querySelector(".held").textContent}: deselect it first.`);
    return !held;
  }

  async function dismiss(reason) {
    const lists = await Promise.all(chosen().map(id => fetch(`/unknowns/ids?cluster=${id}`).then(r => r.json())));
    const ids = lists.flat();
    await submit({ path: "/v1/dismiss", body: { sample_ids: ids, reason }, title: `dismiss ${ids.length} samples` }, "/");
  }

  document.getElementById("order")?.addEventListener("change", event => event.target.form.submit());

  /** Cluster the pool again, some steps finer. */
  async function regroup(steps) {
    const finer = Number(document.getElementById("granularity").dataset.finer) + steps;
    const headers = { "Content-Type": "application/json" };
    const response = await fetch("/v1/clusters/granularity", { method: "POST", headers, body: JSON.stringify({ finer }) });
    if (!response.ok) return toast("The clusters could not be changed.");
    document.getElementById("granularity").dataset.finer = finer;
    showNextClusters();
    return toast(`Clustering again, ${steps > 0 ? "finer" : "coarser"}, in the background.`);
  }

  return {
    next: event => selection.move(1, 0, event.shiftKey),
    previous: event => selection.move(-1, 0, event.shiftKey),
    down: event => selection.move(0, 1, event.shiftKey),
    up: event => selection.move(0, -1, event.shiftKey),
    skip: () => selection.move(1),
    toggle: () => selection.current && selection.toggle(selection.current),
    all: () => selection.everything(true),
    none: () => selection.everything(false),
    enter: () => selection.current && location.assign(selection.current.dataset.href),
    merge: () => {
      const ids = chosen();
      if (ids.length < 2) return toast("Select two clusters or more to merge them.");
      return areFree() && submit({ path: "/v1/clusters/merge", body: { cluster_ids: ids }, title: `merge ${ids.length} clusters` }, "/");
    },
    dismiss: () => {
      const count = selection.selected.reduce((sum, card) => sum + Number(card.dataset.size), 0);
      if (!count) return toast("Select clusters to dismiss them.");
      return areFree() && askToDismiss(count, dismiss);
    },
    finer: () => regroup(1),
    coarser: () => regroup(-1),
    refresh: async () => {
      await fetch("/v1/clusters/refresh", { method: "POST" });
      showNextClusters();
      toast("Clustering again in the background.");
    },
  };
}
