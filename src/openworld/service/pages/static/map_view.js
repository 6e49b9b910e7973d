// The view of the map: zoom and pan, by two fingers too, and which dot is under the pointer.

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

/** The fingers, or other pointers, on the canvas: two of them pinch. */
export class Fingers {
  constructor() { this.places = new Map(); this.pinching = false; }

  get count() { return this.places.size; }

  down({ pointerId, offsetX, offsetY }) {
    this.places.set(pointerId, [offsetX, offsetY]);
    this.pinching ||= this.count > 1;
  }

  /** Follow a finger; where two pinch, return by how much to zoom, around what, and how far to pan. */
  move({ pointerId, offsetX, offsetY }) {
    if (!this.places.has(pointerId)) return null; // a mouse that passes by
    const before = this.spread();
    this.places.set(pointerId, [offsetX, offsetY]);
    if (this.count !== 2) return null;
    const now = this.spread(), by = now.middle.map((value, axis) => value - before.middle[axis]);
    return { factor: now.apart / before.apart, around: before.middle, by };
  }

  /** Lift a finger; returns whether it belonged to a pinch, which lasts until all are lifted. */
  up({ pointerId }) {
    this.places.delete(pointerId);
    const pinched = this.pinching;
    if (!this.count) this.pinching = false;
    return pinched;
  }

  spread() {
    const [[ax, ay], [bx, by] = [ax, ay]] = [...this.places.values()];
    return { apart: Math.hypot(ax - bx, ay - by) || 1, middle: [(ax + bx) / 2, (ay + by) / 2] };
  }
}

const key = (x, y) => `${Math.floor(x / CELL)},${Math.floor(y / CELL)}`;
