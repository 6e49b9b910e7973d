// The size of the pictures in a grid, as the person last chose it.

const KEY = "openworld.tile";

export class PictureSize {
  /** `slider` may be null where there are no pictures. */
  constructor(slider) {
    this.slider = slider;
    if (!slider) return;
    slider.value = localStorage.getItem(KEY) ?? Number.parseInt(getComputedStyle(document.documentElement).getPropertyValue("--tile"), 10);
    slider.addEventListener("input", () => this.apply());
    if (localStorage.getItem(KEY)) this.apply();
  }

  change(factor) {
    if (!this.slider) return;
    this.slider.value = Math.round(this.slider.value * factor);
    this.apply();
  }

  apply() {
    localStorage.setItem(KEY, this.slider.value);
    document.documentElement.style.setProperty("--tile", `${this.slider.value}px`);
  }
}
