// The workbench: all is selected; deselect what does not belong, type a label, Enter.

import { waiting } from "./outbox.js";
import { askToDismiss } from "./cluster_list.js";
import { LabelBox } from "./label_box.js";
import { hold } from "./lease.js";
import { act } from "./outcomes.js";
import { Selection } from "./selection.js";
import { leave, toast } from "./toasts.js";

const plural = count => `${count.toLocaleString()} ${count === 1 ? "sample" : "samples"}`;

export function workbench(grid, openDialog) {
  const { cluster, group, answer } = grid.dataset; // `answer`: samples that were recognized as this class
  const here = location.pathname + location.search;
  const onward = cluster ? `/unknowns/next?cluster=${cluster}` : here;
  const selection = new Selection(grid);
  const box = new LabelBox(document.getElementById("label-form"), describe, learn);

  function describe(most) {
    const ids = [...selection.ids];
    const chosen = selection.all ? { without: ids.join() } : { chosen: ids.slice(0, most).join() };
    return { ...Object.fromEntries(new URLSearchParams(group)), ...chosen, count: selection.count };
  }

  /** Return the selected samples: what was seen, or all of the group where it is not all loaded. */
  async function chosen() {
    if (!selection.all) return [...selection.ids];
    if (selection.items.length >= selection.total) return selection.selected.map(tile => Number(tile.dataset.id));
    const every = await fetch(`/unknowns/ids?${group}`).then(response => response.json());
    return every.filter(id => !selection.ids.has(id));
  }

  async function learn(label) {
    const count = selection.count;
    if (!count) return toast("Select some samples to name them.");
    if (answer) return review({ label }, `correct ${plural(count)} to “${label}”`);
    const whole = selection.all && selection.items.length < selection.total && cluster;
    const what = whole ? { cluster_id: Number(cluster), without: [...selection.ids] } : { sample_ids: await chosen() };
    return dealWith({ path: "/v1/label", body: { ...what, label }, title: `label ${plural(count)} “${label}”` });
  }

  /** Say about the selected recognized samples that they are right, another class, or unknown. */
  async function review(said, title) {
    const ids = await chosen();
    if (!ids.length) return toast("Select some samples first.");
    return dealWith({ path: "/v1/feedback", body: { reviews: ids.map(id => ({ sample_id: id, ...said })) }, title });
  }

  async function dismiss(reason) {
    const ids = await chosen();
    return dealWith({ path: "/v1/dismiss", body: { sample_ids: ids, reason }, title: `dismiss ${plural(ids.length)}` });
  }

  /** Send a request about the selection; without a connection, show that it waits. */
  async function dealWith(asked) {
    const tiles = selection.selected;
    if (await act(asked, onward) || !waiting().length) return;
    for (const tile of tiles) tile.classList.add("waits");
    selection.everything(false);
    box.clear();
  }

  document.addEventListener("outbox:answer", ({ detail: { request: done, answer } }) => {
    if (!done.late || !answer.ok) return;
    for (const tile of grid.querySelectorAll(".waits")) tile.remove();
    if (selection.items.length || waiting().length) return;
    leave(answer.data);
    location.assign(onward);
  });
  document.addEventListener("outbox:taken-back", () => {
    if (!waiting().length) for (const tile of grid.querySelectorAll(".waits")) tile.classList.remove("waits");
  });
  grid.addEventListener("selection", () => box.ask());
  grid.addEventListener("dblclick", () => look());
  if (cluster && document.body.dataset.role !== "viewer") hold(cluster);
  box.ask();
  selection.current?.focus({ preventScroll: true });

  const look = () => selection.current && openDialog(`/unknowns/sample/${selection.current.dataset.id}`);
  return {
    next: event => selection.move(1, 0, event.shiftKey),
    previous: event => selection.move(-1, 0, event.shiftKey),
    down: event => selection.move(0, 1, event.shiftKey),
    up: event => selection.move(0, -1, event.shiftKey),
    toggle: () => selection.current && selection.toggle(selection.current),
    all: () => selection.everything(true),
    none: () => selection.everything(false),
    number: n => box.takeNumber(n),
    enter: () => (box.input.value ? box.form.requestSubmit() : box.input.focus()),
    skip: () => !answer && location.assign(`/unknowns/next${cluster ? `?cluster=${cluster}` : ""}`),
    look,
    similar: () => selection.current && location.assign(`/unknowns/group?like=${selection.current.dataset.id}`),
    right: () => answer && review({ right: true }, `confirm ${plural(selection.count)}`),
    unknown: () => answer && review({ unknown: true }, `return ${plural(selection.count)} to the unknown`),
    dismiss: () => (selection.count ? askToDismiss(selection.count, dismiss) : toast("Select samples to dismiss them.")),
    merge: () => cluster && openDialog(`/unknowns/merging?cluster=${cluster}`),
    divide: () => cluster && act({ path: `/v1/clusters/${cluster}/split`, body: {}, title: "split the cluster in two" }, here),
    split: async () => {
      if (!cluster) return;
      if (!selection.count || selection.count === selection.total)
        return toast("Select some of the samples, but not all, to split them off.");
      const path = `/v1/clusters/${cluster}/split`;
      return act({ path, body: { sample_ids: await chosen() }, title: `split off ${plural(selection.count)}` }, here);
    },
  };
}
