// Changes as they happen, from the server.

import { connect } from "./connection.js";

const PAUSE = 300, LOOK_AGAIN = 2000, LEAVING = 10000;

let timer = null, refreshing = null, left = -Infinity, asked = false;

/** Tell the parts of the page that show a state, at most a few times a second. */
function soon(...names) {
  clearTimeout(timer);
  timer = setTimeout(() => {
    for (const name of names) document.body.dispatchEvent(new CustomEvent(name));
  }, PAUSE);
}

export function listen() {
  connect(source => {
    const on = (kind, react) => source.addEventListener(kind, event => react(JSON.parse(event.data)));
    on("lease", showHolder);
    for (const kind of ["event", "rescored", "unknown"]) on(kind, () => soon("progress", "news"));
    on("clusters", refreshClusters);
    on("clustering", showClustering);
  });
  addEventListener("beforeunload", () => { left = performance.now(); });
  addEventListener("pageshow", event => { if (event.persisted) location.reload(); });
}

function showHolder({ cluster, holder }) {
  const footer = document.querySelector(`.card[data-id="${Number(cluster)}"] footer`);
  if (!footer) return;
  footer.querySelector(".held")?.remove();
  if (!holder) return;
  const chip = document.createElement("span");
  const mine = holder === document.body.dataset.me;
  chip.className = mine ? "chip held mine" : "chip held";
  chip.textContent = `held by ${mine ? "you" : holder}`;
  footer.append(chip);
}

function showClustering({ done, total }) {
  const place = document.getElementById("clustering");
  if (place) place.textContent = done < total ? `Clustering: ${Math.floor((100 * done) / total)} %` : "";
}

/** Show the next clusters at once: the person asked for them. */
export function showNextClusters() {
  asked = true;
}

/** Show the new clusters, as soon as nobody is in the middle of something. */
function refreshClusters() {
  const importing = document.querySelector("#import-progress:not([hidden])");  // a reload would end it
  const listed = document.querySelector("#grid[data-kind=clusters], main > .empty") && location.pathname === "/" && !importing;
  const busy = document.querySelector('#grid [aria-selected="true"], .toast, dialog[open], input:focus');
  const leaving = performance.now() - left < LEAVING;  // a reload would cancel the navigation
  clearTimeout(refreshing);
  if (listed && (leaving || (!asked && (busy || scrollY > 100)))) refreshing = setTimeout(refreshClusters, LOOK_AGAIN);
  else if (listed) location.reload();
}
