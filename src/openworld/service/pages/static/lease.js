// Holding a cluster while its page is open, so that two people never work on the same one.

const LOOK_AGAIN = 5000;

/** Hold a cluster; returns a function that leaves the page without giving it back. */
export function hold(cluster) {
  const address = `/v1/clusters/${cluster}/lease`;
  const chip = document.getElementById("held");
  let timer = null, held = false;

  async function lease() {
    clearTimeout(timer);
    const response = await fetch(address, { method: "POST" }).catch(() => null);
    if (response?.status === 404) return gone();
    if (response?.ok) {
      const { held_until } = await response.json();
      allow(true);
      timer = setTimeout(lease, Math.max(1000, (new Date(held_until) - Date.now()) / 3));
    } else {
      if (response?.status === 409) allow(false, (await response.json()).detail.replace(/^(.*) holds cluster \d+\.$/s, "held by $1"));
      timer = setTimeout(lease, LOOK_AGAIN);
    }
    return undefined;
  }

  function allow(free, words = "") {
    held = free;
    chip.hidden = free;
    chip.textContent = words;
    if (isLocked() === free) lock(!free);
  }

  /** Somebody else has dealt with the cluster: say who and how; nothing is left to do or to ask for. */
  async function gone() {
    document.body.removeEventListener("news", lease);
    allow(false, "nothing is left here");
    const first = document.querySelector("#grid [data-id]")?.dataset.id;
    const sample = first && await fetch(`/v1/samples/${first}`).then(response => (response.ok ? response.json() : null)).catch(() => null);
    const deed = { labeled: `named it “${sample?.label}”`, dismissed: "dismissed it" }[sample?.state];
    const place = document.getElementById("gone");
    place.querySelector("span").textContent = deed ? `${sample.who} ${deed} meanwhile.` : "It was clustered again, or became known, meanwhile.";
    place.hidden = false;
  }

  document.body.addEventListener("news", lease); // others may have dealt with it
  addEventListener("pagehide", () => {
    clearTimeout(timer);
    if (held) fetch(address, { method: "DELETE", keepalive: true }).catch(() => {});
  });
  addEventListener("pageshow", event => { if (event.persisted) lease(); });
  if (!chip.hidden) lock(true); // until the server says otherwise
  lease();
  return () => { held = false; };
}

/** Commands that change something. */
export const CHANGING_COMMANDS = new Set(["confirm", "dismiss", "divide", "merge", "number", "right", "split", "unknown"]);

const CONTROLS = ["#label-form input", "#label-form button", ...[...CHANGING_COMMANDS].map(name => `[data-do=${name}]`)].join();

/** Disable or enable the commands that change something: their buttons and their keys. */
export function lock(locked) {
  document.body.toggleAttribute("data-locked", locked);
  for (const control of document.querySelectorAll(CONTROLS)) control.disabled = locked;
}

export const isLocked = () => document.body.hasAttribute("data-locked");
