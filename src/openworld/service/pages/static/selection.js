// Selecting things in a grid as in a file manager. "All" is one flag, whatever the size of the cluster.

const FAR = 6; // pixels after which a click is a drag

export class Selection {
  constructor(grid) {
    this.grid = grid;
    this.all = grid.hasAttribute("data-all"); // then `ids` are the ones that are not selected
    this.ids = new Set();
    this.anchor = null;
    this.current = null;
    this.listen();
    this.paint();
    this.focusable(this.items[0]);
  }

  get items() { return [...this.grid.querySelectorAll("[data-id]:not(.waits)")]; }
  get total() { return Number(this.grid.dataset.total); }
  get count() { return this.all ? this.total - this.ids.size : this.ids.size; }
  get selected() { return this.items.filter(item => this.has(item)); }

  has(item) { return this.all !== this.ids.has(Number(item.dataset.id)); }

  set(item, on) {
    const id = Number(item.dataset.id);
    if (on === this.all) this.ids.delete(id); else this.ids.add(id);
  }

  everything(on) {
    this.all = on;
    this.ids.clear();
    this.changed();
  }

  toggle(item) {
    this.set(item, !this.has(item));
    this.anchor = item;
    this.changed();
  }

  /** Give all from the anchor to an item the state of the anchor. */
  extend(item) {
    const items = this.items, from = items.indexOf(this.anchor ?? item), to = items.indexOf(item);
    const on = this.anchor ? this.has(this.anchor) : true;
    for (const between of items.slice(Math.min(from, to), Math.max(from, to) + 1)) this.set(between, on);
    this.changed();
  }

  only(items) {
    this.all = false;
    this.ids = new Set(items.map(item => Number(item.dataset.id)));
    this.changed();
  }

  /** Mark items as waiting for the answer to a request, and deselect them; `count` is their number in the group. */
  sent(items, count) {
    const at = this.items.indexOf(items[0]);
    for (const item of items) item.classList.add("waits");
    this.resize(-count);
    this.focus(this.items[Math.min(at, this.items.length - 1)]);
  }

  /** Put the waiting items back: their request was refused or canceled. */
  restore() {
    const items = [...this.grid.querySelectorAll(".waits")];
    for (const item of items) item.classList.remove("waits");
    this.resize(items.length);
  }

  resize(by) {
    this.grid.dataset.total = this.total + by;
    document.getElementById("total").textContent = this.total.toLocaleString();
    this.everything(false);
  }

  changed() {
    this.paint();
    this.grid.dispatchEvent(new CustomEvent("selection", { bubbles: true }));
  }

  paint(items = this.items) {
    for (const item of items) item.setAttribute("aria-selected", String(this.has(item)));
    const count = document.getElementById("selected-count");
    if (count) count.textContent = this.count.toLocaleString();
  }

  focusable(item) {
    if (!item) return;
    this.current?.setAttribute("tabindex", "-1");
    item.setAttribute("tabindex", "0");
    this.current = item;
  }

  focus(item) {
    if (!item) return;
    this.focusable(item);
    item.focus();
    item.scrollIntoView({ block: "nearest" });
  }

  /** Move by steps in reading order, or by rows. */
  move(steps, rows = 0, extending = false) {
    const items = this.items;
    if (!items.length) return;
    const at = Math.max(0, items.indexOf(this.current));
    const perRow = items.filter(item => item.offsetTop === items[0].offsetTop).length;
    const to = items[Math.min(items.length - 1, Math.max(0, at + steps + rows * perRow))];
    const wasIn = this.grid.contains(document.activeElement);
    if (extending) this.anchor ??= this.current;
    this.focus(wasIn ? to : this.current ?? to);
    if (extending && wasIn) this.extend(to);
  }

  listen() {
    const itemOf = event => event.target.closest("[data-id]");
    this.grid.addEventListener("click", event => {
      const item = itemOf(event);
      if (!item || this.dragged) return;
      if (event.target.closest(".look")) return void this.focusable(item);
      const opens = item.dataset.href && !event.target.closest(".tick");
      if (event.shiftKey) this.extend(item);
      else if (event.ctrlKey || event.metaKey || !opens) this.toggle(item);
      else location.assign(item.dataset.href);
      this.focusable(item);
    });
    this.grid.addEventListener("focusin", event => itemOf(event) && this.focusable(itemOf(event)));
    new MutationObserver(changes => this.paint(added(changes))).observe(this.grid, { childList: true });
    this.grid.addEventListener("pointerdown", event => this.drag(event));
  }

  drag(start) {
    this.dragged = false;
    if (start.button !== 0 || start.pointerType === "touch") return;
    const area = document.createElement("div");
    area.className = "drag-box";
    const move = event => {
      const [x, y] = [Math.min(start.pageX, event.pageX), Math.min(start.pageY, event.pageY)];
      const [width, height] = [Math.abs(start.pageX - event.pageX), Math.abs(start.pageY - event.pageY)];
      if (!this.dragged && Math.hypot(width, height) < FAR) return;
      this.dragged = true;
      event.preventDefault();
      Object.assign(area.style, { left: `${x}px`, top: `${y}px`, width: `${width}px`, height: `${height}px` });
      document.body.append(area);
    };
    const end = event => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", end);
      if (!this.dragged) return;
      const box = area.getBoundingClientRect();
      area.remove();
      const inside = this.items.filter(item => touches(item.getBoundingClientRect(), box));
      if (event.ctrlKey || event.shiftKey || event.metaKey) {
        for (const item of inside) this.set(item, !this.has(item));
        this.changed();
      } else {
        this.only(inside);
      }
      setTimeout(() => { this.dragged = false; }); // after the click that ends a drag
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
  }
}

const touches = (a, b) => a.left < b.right && a.right > b.left && a.top < b.bottom && a.bottom > b.top;

const added = changes => changes.flatMap(({ addedNodes }) => [...addedNodes].filter(node => node.dataset?.id));
