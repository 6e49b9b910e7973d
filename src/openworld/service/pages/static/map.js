// The map of the pool: a dot for each sample, coloured by cluster; draw around some to name them.

import { waiting } from "./outbox.js";
import { LabelBox } from "./label_box.js";
import { act } from "./outcomes.js";
import { toast } from "./toasts.js";
import { askToDismiss } from "./cluster_list.js";

const MARGIN = 24, LISTED = 40, GOLDEN_ANGLE = 137.508;

export function mapPage(canvas) {
  const places = { ids: [], x: [], y: [], cluster: [] };
  const chosen = new Set(); // positions in the columns
  const counter = document.getElementById("selected-count");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const box = new LabelBox(document.getElementById("label-form"), describe, learn);
  const members = new Map(); // cluster -> positions
  const dotted = document.createElement("canvas");
  let lasso = [], dots = [], colours = [];

  function describe(most) {
    const ids = selected();
    return { chosen: ids.slice(0, most).join(), count: ids.length };
  }

  const selected = () => [...chosen].map(i => places.ids[i]);

  async function learn(label) {
    const ids = selected();
    if (!ids.length) return toast("Draw around some dots to select them.");
    const title = `label ${ids.length} samples “${label}”`;
    if (!await act({ path: "/v1/label", body: { sample_ids: ids, label }, title }, "/map") && waiting().length) choose([]);
    return undefined;
  }

  function choose(positions) {
    chosen.clear();
    for (const i of positions) chosen.add(i);
    counter.textContent = chosen.size.toLocaleString();
    for (const button of document.querySelectorAll("#legend [data-cluster]"))
      button.setAttribute("aria-pressed", String(isWhole(button.dataset.cluster)));
    paint();
    box.ask();
  }

  const isWhole = cluster => members.get(cluster).every(i => chosen.has(i));

  function colour(cluster) {
    if (cluster === null) return dark.matches ? "#6b7685" : "#9aa4b0";
    return `hsl(${(cluster * GOLDEN_ANGLE) % 360} 65% ${dark.matches ? 62 : 42}%)`;
  }

  function layOut() {
    const { width, height } = canvas.getBoundingClientRect();
    [canvas.width, canvas.height] = [width * devicePixelRatio, height * devicePixelRatio];
    const range = values => values.reduce(([low, high], v) => [Math.min(low, v), Math.max(high, v)], [Infinity, -Infinity]);
    const [left, right] = range(places.x), [top, bottom] = range(places.y);
    const unit = Math.min((width - 2 * MARGIN) / (right - left || 1), (height - 2 * MARGIN) / (bottom - top || 1));
    dots = places.ids.map((_, i) => [
      width / 2 + (places.x[i] - (left + right) / 2) * unit,
      height / 2 + (places.y[i] - (top + bottom) / 2) * unit,
    ]);
    paint();
  }

  /** Paint the dots aside, once for each change, so that a lasso moves fluently over any number of them. */
  function paint() {
    const context = dotted.getContext("2d"), scale = devicePixelRatio;
    [dotted.width, dotted.height] = [canvas.width, canvas.height];
    context.setTransform(scale, 0, 0, scale, 0, 0);
    const radius = dots.length > 5000 ? 1.5 : dots.length > 500 ? 3 : 5;
    dots.forEach(([x, y], i) => {
      const r = chosen.has(i) ? radius + 1.5 : radius;
      context.globalAlpha = chosen.size && !chosen.has(i) ? 0.25 : 0.9;
      context.fillStyle = colours[i];
      context.beginPath();
      context.arc(x, y, r, 0, 2 * Math.PI);
      context.fill();
    });
    draw();
  }

  function draw() {
    const context = canvas.getContext("2d"), scale = devicePixelRatio;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    if (canvas.width && canvas.height) context.drawImage(dotted, 0, 0);
    if (lasso.length < 2) return;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.strokeStyle = getComputedStyle(canvas).color;
    context.setLineDash([5, 4]);
    context.beginPath();
    for (const [x, y] of lasso) context.lineTo(x, y);
    context.stroke();
  }

  canvas.addEventListener("pointerdown", event => {
    canvas.setPointerCapture(event.pointerId);
    lasso = [[event.offsetX, event.offsetY]];
  });
  canvas.addEventListener("pointermove", event => {
    if (!lasso.length) return;
    lasso.push([event.offsetX, event.offsetY]);
    draw();
  });
  canvas.addEventListener("pointerup", event => {
    const inside = lasso.length > 2 ? dots.flatMap(([x, y], i) => (isInside(x, y, lasso) ? [i] : [])) : [];
    lasso = [];
    choose(event.shiftKey || event.ctrlKey ? [...chosen, ...inside] : inside);
  });
  document.getElementById("legend").addEventListener("click", event => {
    const button = event.target.closest("[data-cluster]");
    if (!button) return;
    const those = members.get(button.dataset.cluster), whole = isWhole(button.dataset.cluster);
    const others = new Set(chosen);
    for (const i of those) others.delete(i);
    choose(whole ? others : [...others, ...those]);
  });

  function legend() {
    members.clear();
    places.cluster.forEach((cluster, i) => {
      const key = String(cluster);
      if (members.has(key)) members.get(key).push(i); else members.set(key, [i]);
    });
    colours = places.cluster.map(colour);
    const largest = [...members].sort((a, b) => b[1].length - a[1].length).slice(0, LISTED);
    const rows = largest.map(([cluster, those]) => {
      const button = document.createElement("button");
      button.type = "button";
      button.dataset.cluster = cluster;
      button.setAttribute("aria-pressed", "false");
      const dot = document.createElement("span");
      dot.className = "dot";
      dot.style.background = colours[those[0]];
      const name = cluster === "null" ? "In no cluster" : `Cluster ${cluster}`;
      button.append(dot, `${name} · ${those.length.toLocaleString()}`);
      return button;
    });
    document.getElementById("legend").replaceChildren(...rows);
  }

  async function load() {
    Object.assign(places, await fetch("/v1/clusters/map").then(response => response.json()));
    document.getElementById("map-empty").hidden = places.ids.length > 0;
    document.getElementById("map-total").textContent = places.ids.length.toLocaleString();
    canvas.dataset.dots = places.ids.length;
    legend();
    layOut();
    choose([]);
  }

  const dismiss = reason => {
    const ids = selected();
    return act({ path: "/v1/dismiss", body: { sample_ids: ids, reason }, title: `dismiss ${ids.length} samples` }, "/map");
  };
  addEventListener("resize", layOut);
  dark.addEventListener("change", () => { legend(); paint(); });
  load();
  return {
    all: () => choose(places.ids.keys()),
    none: () => choose([]),
    number: n => box.takeNumber(n),
    enter: () => (box.input.value ? box.form.requestSubmit() : box.input.focus()),
    dismiss: () => (chosen.size ? askToDismiss(chosen.size, dismiss) : toast("Draw around some dots to select them.")),
  };
}

/** Tell whether a point is inside a polygon: a ray from it crosses the outline an odd number of times. */
function isInside(x, y, outline) {
  let inside = false;
  outline.forEach(([x1, y1], i) => {
    const [x2, y2] = outline[(i + 1) % outline.length];
    if (y1 > y !== y2 > y && x < x1 + ((y - y1) / (y2 - y1)) * (x2 - x1)) inside = !inside;
  });
  return inside;
}
