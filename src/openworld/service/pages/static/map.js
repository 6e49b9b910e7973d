// The map of the pool: a dot for each sample, colored by cluster; draw around some to name them.

import { waiting } from "./outbox.js";
import { LabelBox, NO_SUGGESTION } from "./label_box.js";
import { isLocked } from "./lease.js";
import { plural, submit } from "./outcomes.js";
import { Fingers, MapView } from "./map_view.js";
import { toast } from "./toasts.js";
import { askToDismiss } from "./cluster_list.js";

const MARGIN = 24, LISTED = 40, SHOWN = 60, GOLDEN_ANGLE = 137.508, STEP = 60, ZOOM = 1.4;

export function mapPage(canvas) {
  const places = { ids: [], x: [], y: [], cluster: [] };
  const chosen = new Set(); // positions in the columns
  const counter = document.getElementById("selected-count");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const box = new LabelBox(document.getElementById("label-form"), describe, learn);
  const members = new Map(); // cluster -> positions
  const dotted = document.createElement("canvas");
  const view = new MapView(), fingers = new Fingers(), hover = document.getElementById("map-hover"), shown = document.getElementById("chosen");
  const moving = document.querySelector("[data-do=moving]");
  let lasso = [], dots = [], colors = [], pulled = null, hovered = null;

  function describe(most) {
    const ids = selected();
    return { chosen: ids.slice(0, most).join(), count: ids.length };
  }

  const selected = () => [...chosen].map(i => places.ids[i]);

  async function learn(label) {
    const ids = selected();
    if (!ids.length) return toast("Draw around some dots to select them.");
    const title = `learning “${label}” from ${plural(ids.length, "sample")}`;
    if (!await submit({ path: "/v1/label", body: { sample_ids: ids, label }, title }, "/map") && waiting().length) choose([]);
    return undefined;
  }

  function choose(positions) {
    chosen.clear();
    for (const i of positions) chosen.add(i);
    counter.textContent = chosen.size.toLocaleString();
    for (const button of document.querySelectorAll("#legend [data-cluster]"))
      button.setAttribute("aria-pressed", String(isWhole(button.dataset.cluster)));
    paint();
    showChosen();
  }

  /** Show the selected samples beside the map; only then can they be named. */
  async function showChosen() {
    const ids = selected(), wanted = ids.slice(0, SHOWN).join();
    if (!isLocked()) box.input.disabled = true;
    shown.dataset.ids = wanted;
    const parts = wanted ? await fetch(`/unknowns/some?ids=${wanted}`).then(response => response.text()).catch(() => "") : "";
    if (shown.dataset.ids !== wanted) return; // another selection was made meanwhile
    shown.innerHTML = parts; // of our own server, which escapes what people wrote
    document.getElementById("chosen-more").textContent = ids.length > SHOWN ? `and ${(ids.length - SHOWN).toLocaleString()} more` : "";
    if (!isLocked()) box.input.disabled = false;
    box.ask();
  }

  shown.addEventListener("click", event => {
    const tile = event.target.closest("[data-id]");
    if (tile) choose([...chosen].filter(i => places.ids[i] !== Number(tile.dataset.id)));
  });

  const isWhole = cluster => members.get(cluster).every(i => chosen.has(i));

  function color(cluster) {
    if (cluster === null) return dark.matches ? "#6b7685" : "#9aa4b0";
    return `hsl(${(cluster * GOLDEN_ANGLE) % 360} 65% ${dark.matches ? 62 : 42}%)`;
  }

  function layOut() {
    const { width, height } = canvas.getBoundingClientRect();
    [canvas.width, canvas.height] = [width * devicePixelRatio, height * devicePixelRatio];
    const range = values => values.reduce(([low, high], v) => [Math.min(low, v), Math.max(high, v)], [Infinity, -Infinity]);
    const [left, right] = range(places.x), [top, bottom] = range(places.y);
    const unit = Math.min((width - 2 * MARGIN) / (right - left || 1), (height - 2 * MARGIN) / (bottom - top || 1));
    view.place(places.ids.map((_, i) => [
      width / 2 + (places.x[i] - (left + right) / 2) * unit,
      height / 2 + (places.y[i] - (top + bottom) / 2) * unit,
    ]));
    paint();
  }

  const middle = () => [canvas.clientWidth / 2, canvas.clientHeight / 2];

  function zoom(factor, around = middle()) {
    view.zoom(factor, around);
    paint();
  }

  function pan(dx, dy) {
    view.pan(dx, dy);
    paint();
  }

  /** Show the sample of the dot under the pointer. */
  async function point(event) {
    const dot = view.at(event.offsetX, event.offsetY), id = dot === null ? null : places.ids[dot];
    if (id === hovered) return;
    hovered = id;
    hover.hidden = id === null;
    if (id === null) return;
    const right = event.offsetX > canvas.clientWidth / 2, low = event.offsetY > canvas.clientHeight / 2;
    hover.style.left = `${event.offsetX + (right ? -176 : 16)}px`;
    hover.style.top = `${event.offsetY + (low ? -176 : 16)}px`;
    hover.replaceChildren();
    const part = await fetch(`/unknowns/some?ids=${id}`).then(response => response.text()).catch(() => "");
    if (hovered === id) hover.innerHTML = part;
  }

  /** Paint the dots on a hidden canvas, once for each change, so that a lasso moves smoothly over any number of them. */
  function paint() {
    const context = dotted.getContext("2d"), scale = devicePixelRatio;
    [dotted.width, dotted.height] = [canvas.width, canvas.height];
    context.setTransform(scale, 0, 0, scale, 0, 0);
    dots = view.dots;
    canvas.dataset.zoom = view.scale.toFixed(2);
    hover.hidden = true;
    hovered = null;
    context.strokeStyle = getComputedStyle(canvas).color;
    const radius = (dots.length > 5000 ? 1.5 : dots.length > 500 ? 3 : 5) * Math.min(2.5, Math.sqrt(view.scale));
    dots.forEach(([x, y], i) => {
      const r = chosen.has(i) ? radius + 1.5 : radius;
      context.fillStyle = colors[i];
      context.beginPath();
      context.arc(x, y, r, 0, 2 * Math.PI);
      context.fill();
      if (chosen.has(i)) context.stroke();
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
    hover.hidden = true;
    fingers.down(event);
    if (fingers.count > 1) lasso = []; // two fingers move the map, and draw nothing
    else if (event.button || event.altKey || moving.ariaPressed === "true") pulled = [event.offsetX, event.offsetY];
    else lasso = [[event.offsetX, event.offsetY]];
  });
  canvas.addEventListener("pointermove", event => {
    const pinch = fingers.move(event);
    if (pinch) {
      view.zoom(pinch.factor, pinch.around);
      pan(...pinch.by);
    }
    if (fingers.pinching) return;
    if (pulled) {
      pan(event.offsetX - pulled[0], event.offsetY - pulled[1]);
      pulled = [event.offsetX, event.offsetY];
      return;
    }
    if (!lasso.length) return void (event.pointerType !== "touch" && point(event));
    lasso.push([event.offsetX, event.offsetY]);
    draw();
  });
  canvas.addEventListener("pointercancel", event => { fingers.up(event); [lasso, pulled] = [[], null]; draw(); });
  canvas.addEventListener("pointerleave", () => { hover.hidden = true; hovered = null; });
  canvas.addEventListener("contextmenu", event => event.preventDefault());
  canvas.addEventListener("wheel", event => {
    event.preventDefault();
    zoom(ZOOM ** (-event.deltaY / 100), [event.offsetX, event.offsetY]);
  }, { passive: false });
  canvas.addEventListener("pointerup", event => {
    if (fingers.up(event)) return void (pulled = null); // the end of a pinch
    if (pulled) return void (pulled = null);
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
    colors = places.cluster.map(color);
    const largest = [...members].sort((a, b) => b[1].length - a[1].length).slice(0, LISTED);
    const rows = largest.map(([cluster, those]) => {
      const button = document.createElement("button");
      button.type = "button";
      button.dataset.cluster = cluster;
      button.setAttribute("aria-pressed", "false");
      const dot = document.createElement("span");
      dot.className = "dot";
      dot.style.background = colors[those[0]];
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
    return submit({ path: "/v1/dismiss", body: { sample_ids: ids, reason }, title: `dismiss ${ids.length} samples` }, "/map");
  };
  addEventListener("resize", layOut);
  dark.addEventListener("change", () => { legend(); paint(); });
  load();
  return {
    all: () => choose(places.ids.keys()),
    none: () => choose([]),
    moving: () => moving.setAttribute("aria-pressed", String(moving.ariaPressed !== "true")),
    larger: () => zoom(ZOOM),
    smaller: () => zoom(1 / ZOOM),
    whole: () => { view.reset(); paint(); },
    next: () => pan(-STEP, 0),
    previous: () => pan(STEP, 0),
    down: () => pan(0, -STEP),
    up: () => pan(0, STEP),
    number: n => box.takeNumber(n),
    confirm: () => (box.suggestion ? learn(box.suggestion) : toast(NO_SUGGESTION)),
    enter: () => (box.input.value ? box.form.requestSubmit() : box.input.focus()),
    dismiss: () => (chosen.size ? askToDismiss(chosen.size, dismiss) : toast("Draw around some dots to select them.")),
  };
}

/** Return whether a point is inside a polygon: a ray from it crosses the outline an odd number of times. */
function isInside(x, y, outline) {
  let inside = false;
  outline.forEach(([x1, y1], i) => {
    const [x2, y2] = outline[(i + 1) % outline.length];
    if (y1 > y !== y2 > y && x < x1 + ((y - y1) / (y2 - y1)) * (x2 - x1)) inside = !inside;
  });
  return inside;
}
