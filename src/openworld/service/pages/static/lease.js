// Holding a cluster while its page is open, so that two people never work on the same one.

const LOOK_AGAIN = 5000;

export function hold(cluster) {
  const address = `/v1/clusters/${cluster}/lease`;
  const chip = document.getElementById("held");
  const form = document.getElementById("label-form");
  const controls = () => [...form.elements, ...document.querySelectorAll("[data-do=split], [data-do=divide], [data-do=merge], [data-do=dismiss]")];
  let timer = null, refused = false;

  async function lease() {
    clearTimeout(timer);
    const response = await fetch(address, { method: "POST" }).catch(() => null);
    if (response?.ok) {
      const { held_until } = await response.json();
      const left = new Date(held_until) - Date.now();
      allow(true);
      timer = setTimeout(lease, Math.max(1000, left / 3));
    } else {
      if (response?.status === 409) allow(false, (await response.json()).detail);
      timer = setTimeout(lease, LOOK_AGAIN);
    }
  }

  function allow(free, words = "") {
    chip.hidden = free;
    chip.textContent = words.replace(/^(.*) holds cluster \d+\.$/s, "held by $1");
    if (free && !refused) return;
    refused = !free;
    for (const control of controls()) control.disabled = refused;
  }

  addEventListener("pagehide", () => {
    clearTimeout(timer);
    if (!refused) fetch(address, { method: "DELETE", keepalive: true }).catch(() => {});
  });
  addEventListener("pageshow", event => { if (event.persisted) lease(); });
  lease();
}
