// The workbench: all is selected; deselect what does not belong, type a label, Enter.

import { waiting } from "./outbox.js";
import { askToDismiss } from "./cluster_list.js";
import { LabelBox, NO_SUGGESTION } from "./label_box.js";
import { hold } from "./lease.js";
import { plural, submit, submitInBackground } from "./outcomes.js";
import { PictureSize } from "./picture_size.js";
import { Selection } from "./selection.js";
import { toast } from "./toasts.js";

const samples = count => plural(count, "sample");

export function workbench(grid, openDialog) {
  const { cluster, group, label: of } = grid.dataset;
  const reviewing = grid.hasAttribute("data-review"); // recognized samples, to say whether they are right
  const here = location.pathname + location.search;
  const selection = new Selection(grid);
  const box = new LabelBox(document.getElementById("label-form"), describe, learn);
  const keepLease = cluster && document.body.dataset.role !== "viewer" ? hold(cluster) : null;
  const pictureSize = new PictureSize(document.getElementById("tile-size"));
  let leaving = false; // a second Enter must not ask again

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
    if (!count) return toast("Nothing is selected.", { actions: [{ name: `Select all ${selection.total.toLocaleString()}`, run: () => { selection.everything(true); box.input.focus(); } }] });
    if (of) return move(label, `moving ${samples(count)} to “${label}”`);
    if (reviewing) return review(() => ({ label }), `correcting ${samples(count)} to “${label}”`);
    const whole = selection.all && selection.items.length < selection.total && cluster;
    const what = whole ? { cluster_id: Number(cluster), without: [...selection.ids] } : { sample_ids: await chosen() };
    return dealWith({ path: "/v1/label", body: { ...what, label }, title: `learning “${label}” from ${samples(count)}` });
  }

  /** Say about the selected recognized samples what `said(id)` returns: a class, or that they are unknown. */
  async function review(said, title) {
    const ids = await chosen();
    if (!ids.length) return toast("Select some samples first.");
    return dealWith({ path: "/v1/feedback", body: { reviews: ids.map(id => ({ sample_id: id, ...said(id) })) }, title });
  }

  /** Confirm the class that the page shows: the model may have changed its answer since. */
  function asShown(id) {
    const label = grid.dataset.answer ?? grid.querySelector(`[data-id="${id}"]`)?.dataset.answer;
    return label ? { label } : { right: true };
  }

  /** Move the selected samples of a class to another one, or back to the unknown. */
  async function move(label, title) {
    const ids = await chosen();
    if (!ids.length) return toast("Select some samples first.");
    return dealWith({ path: "/v1/relabel", body: { sample_ids: ids, label }, title });
  }

  async function dismiss(reason) {
    const ids = await chosen();
    return dealWith({ path: "/v1/dismiss", body: { sample_ids: ids, reason }, title: `dismissing ${samples(ids.length)}` });
  }

  /** Send a request about the selection in the background, and continue with the next cluster or the rest. */
  async function dealWith(asked) {
    if (leaving) return;
    const tiles = selection.selected, count = selection.count;
    leaving = Boolean(cluster);
    submitInBackground(cluster ? { ...asked, cluster: Number(cluster) } : asked);
    const next = cluster ? await nextAddress() : null;
    if (next) {
      keepLease?.();
      location.assign(next);
      return;
    }
    leaving = false; // no connection, or no cluster to leave: what was asked waits on this page
    selection.sent(tiles, count);
    box.clear();
  }

  /** Return the address of the next cluster that nobody works on, or null without a connection. */
  function nextAddress() {
    const dealtWith = waiting().flatMap(request => request.cluster ?? []);
    const found = fetch(`/unknowns/next/address?cluster=${cluster}&without=${dealtWith}`).then(response => response.json());
    return found.then(({ address }) => address, () => null);
  }

  document.addEventListener("outbox:answer", ({ detail: { request: done, answer: { ok } } }) => {
    if (!done.background || leaving) return;
    if (!ok) return selection.restore();
    for (const tile of grid.querySelectorAll(".waits")) tile.remove();
    return selection.total || waiting().length ? undefined : location.assign(cluster ? `/unknowns/next?cluster=${cluster}` : here);
  });
  document.addEventListener("outbox:taken-back", () => { if (!waiting().length) selection.restore(); });
  grid.addEventListener("selection", () => { box.ask(); showSelected(); });
  grid.addEventListener("dblclick", () => look());
  box.ask();
  selection.current?.focus({ preventScroll: true });

  /** Show the details of the current sample, or of the one that is `steps` further. */
  async function look(steps = 0) {
    const items = selection.items, at = items.indexOf(selection.current);
    if (!items[at + steps]) return;
    selection.focusable(items[at + steps]);
    selection.current.scrollIntoView({ block: "nearest" });
    await openDialog(`/unknowns/sample/${selection.current.dataset.id}`);
    showSelected();
  }

  function showSelected() {
    document.getElementById("look-selected")?.setAttribute("aria-pressed", String(selection.has(selection.current)));
  }
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
    confirm: () => (box.suggestion ? learn(box.suggestion) : toast(NO_SUGGESTION)),
    skip: () => !reviewing && !of && location.assign(`/unknowns/next${cluster ? `?cluster=${cluster}` : ""}`),
    look: () => look(),
    lookBack: () => look(-1),
    lookOn: () => look(1),
    larger: () => pictureSize.change(1.25),
    smaller: () => pictureSize.change(0.8),
    similar: () => selection.current && location.assign(`/unknowns/group?like=${selection.current.dataset.id}`),
    right: () => reviewing && review(asShown, `confirming ${samples(selection.count)}`),
    unknown: () => of ? move(null, `returning ${samples(selection.count)} to the unknown`) : reviewing && review(() => ({ unknown: true }), `returning ${samples(selection.count)} to the unknown`),
    dismiss: () => !of && (selection.count ? askToDismiss(selection.count, dismiss) : toast("Select samples to dismiss them.")),
    merge: () => cluster && openDialog(`/unknowns/merging?cluster=${cluster}`),
    divide: () => cluster && submit({ path: `/v1/clusters/${cluster}/split`, body: {}, title: "split the cluster in two" }, here),
    split: async () => {
      if (!cluster) return;
      if (!selection.count || selection.count === selection.total)
        return toast("Select some of the samples, but not all, to split them off.");
      const path = `/v1/clusters/${cluster}/split`;
      return submit({ path, body: { sample_ids: await chosen() }, title: `split off ${samples(selection.count)}` }, here);
    },
  };
}
