// The view of the map: zoom and pan, and which dot is under the pointer.

const CELL = 16, NEAR = 10, LARGEST = 60;

export class MapView {
  constructor() {
    this.reset();
    this.base = [];
  }

  reset() { [this.scale, this.x, this.y] = [1, 0, 0]; }

  /** Set where the dots are without zoom, as `[x, y]`. */
  place(dots) { this.base = dots; this.index = null; }

  get dots() { return this.base.map(([x, y]) => [x * this.scale + this.x, y * this.scale + this.y]); }

  /** Zoom by a factor; the point `[x, y]` of the canvas stays where it is. */
  zoom(factor, [x, y]) {
    const scale = Math.min(LARGEST, Math.max(1, this.scale * factor)), by = scale / this.scale;
    [this.scale, this.x, this.y, this.index] = [scale, x - (x - this.x) * by, y - (y - this.y) * by, null];
    if (scale === 1) this.reset();
  }

  pan(dx, dy) { this.x += dx; this.y += dy; this.index = null; }

  /** Return the position of the dot nearest to a point of the canvas, or null where none is near. */
  at(x, y) {
    const dots = (this.index ??= this.indexed()).dots;
    let best = null, least = NEAR ** 2;
    for (let i = -1; i <= 1; i++) for (let j = -1; j <= 1; j++) {
      for (const dot of this.index.cells.get(key(x + i * CELL, y + j * CELL)) ?? []) {
        const apart = (dots[dot][0] - x) ** 2 + (dots[dot][1] - y) ** 2;
        if (apart < least) [best, least] = [dot, apart];
      }
    }
    return best;
  }

  indexed() {
    const dots = this.dots, cells = new Map();
    dots.forEach(([x, y], i) => {
      const cell = key(x, y);
      if (cells.has(cell)) cells.get(cell).push(i); else cells.set(cell, [i]);
    });
    return { dots, cells };
  }
}

const key = (x, y) => `${Math.floor(x / CELL)},${Math.floor(y / CELL)}`;
