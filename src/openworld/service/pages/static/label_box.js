// The label box: searches the classes, offers the nearest ones, and shows what learning would change.

const PAUSE = 120, JUDGED = 500;

export const NO_SUGGESTION = "No known class is suggested: type a name, or choose one by its number.";

export class LabelBox {
  /** `describe()` returns what is selected, for the server to judge; `submit(label)` learns it. */
  constructor(form, describe, submit) {
    this.form = form;
    this.input = form.querySelector("input");
    this.describe = describe;
    this.typed = "";
    this.input.addEventListener("input", () => { this.typed = this.input.value; this.ask(); });
    this.input.addEventListener("keydown", event => this.key(event));
    form.addEventListener("submit", event => {
      event.preventDefault();
      const label = this.input.value.trim();
      if (this.input.disabled) return;
      if (label) submit(label); else this.input.focus();
    });
    form.addEventListener("click", event => {
      const option = event.target.closest("[data-label]");
      if (option) this.take(option.dataset.label);
    });
    form.addEventListener("htmx:after:settle", () => this.point());
  }

  /** Tell screen readers which suggestion is in the box. */
  point() {
    const option = this.options.find(({ dataset }) => dataset.label === this.input.value);
    if (option) this.input.setAttribute("aria-activedescendant", option.id);
    else this.input.removeAttribute("aria-activedescendant");
  }

  /** The class that is suggested, or null: one key confirms it. */
  get suggestion() { return this.form.querySelector("[data-do=confirm]")?.value ?? null; }

  get options() { return [...this.form.querySelectorAll("#options [data-label]")]; }

  /** Recompute the suggestions and the preview shortly after the last change. */
  ask() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const values = { ...this.describe(JUDGED), label: this.input.value, search: this.typed };
      window.htmx.ajax("POST", "/unknowns/hints", { target: "#hints", source: "#hints", values });
    }, PAUSE);
  }

  /** Put a label into the box; the suggestions stay, the preview follows. */
  take(label) {
    this.input.value = label;
    this.input.focus();
    this.ask();
  }

  takeNumber(n) {
    const option = this.options[n - 1];
    if (option) this.take(option.dataset.label);
  }

  clear() {
    this.input.value = this.typed = "";
    this.ask();
  }

  key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !this.options.length) return;
    event.preventDefault();
    const labels = this.options.map(option => option.dataset.label);
    const at = labels.indexOf(this.input.value);
    this.take(labels[(at + step + labels.length) % labels.length]);
  }
}
