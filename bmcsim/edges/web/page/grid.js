// The fleet as a grid of cells on a canvas, in blocks: racks where there are some, else groups.

const LARGEST = 44, SMALLEST = 4;
const LABEL = 16, GAP = 8;
const FLASH = 900;

// Between two cells.
function gapOf(pitch) {
  return pitch >= 14 ? 3 : pitch >= 8 ? 2 : 1;
}

// About so many columns for a number of cells, with few places left empty.
function filled(cells, columns) {
  return Math.ceil(cells / Math.ceil(cells / columns));
}

class Grid {
  // opens: called with the place of a BMC that is wanted; picks: with the words that mean a block; focused: with a place.
  constructor(canvas, tip, { opens, picks, focused }) {
    Object.assign(this, { canvas, tip, opens, picks, focused });
    this.fleet = new Fleet();
    this.view = VIEWS.state;
    this.at = this.open = this.hovered = -1;
    this.blocks = [];
    this.order = [];
    this.dirty = new Set();
    this.fresh = new Map();
    this.cursor = canvas.parentElement.appendChild(h("i", { class: "mark", hidden: true }));
    this.opened = canvas.parentElement.appendChild(h("i", { class: "mark open", hidden: true }));
    this.calm = matchMedia("(prefers-reduced-motion: reduce)");
    canvas.addEventListener("pointermove", (event) => this.#hover(event));
    canvas.addEventListener("pointerleave", () => this.#unhover());
    canvas.addEventListener("click", (event) => this.#click(event));
    canvas.addEventListener("keydown", (event) => this.#key(event));
    canvas.addEventListener("focus", () => this.focus(this.at >= 0 ? this.at : this.order[0]));
    canvas.addEventListener("blur", () => this.#marks());
    let width = 0, height = 0;
    new ResizeObserver(() => {
      if (width === canvas.parentElement.clientWidth && height === innerHeight) return;
      [width, height] = [canvas.parentElement.clientWidth, innerHeight];
      this.layout();
    }).observe(document.documentElement);
    new ResizeObserver(() => width !== canvas.parentElement.clientWidth && this.layout()).observe(canvas.parentElement);
  }

  show(fleet) {
    this.fleet = fleet;
    this.at = Math.min(this.at, fleet.size - 1);
    this.fresh.clear();
    this.matching = new Uint8Array(fleet.size).fill(1);
    this.#divide();
    this.layout();
  }

  // Dim all that a test does not hold for; the places of the others.
  filter(test) {
    const places = [];
    for (let i = 0; i < this.fleet.size; i++) if (this.matching[i] = test(i) ? 1 : 0) places.push(i);
    this.draw();
    return places;
  }

  // The places of BMCs whose facts are others now.
  changed(places) {
    if (!this.calm.matches) {
      const until = performance.now() + FLASH;
      for (const i of places) this.fresh.set(i, until);
    }
    this.touch(places);
  }

  #divide() {
    const { fleet } = this, blocks = new Map();
    const racked = fleet.tables.rack.length > 0;
    for (let i = 0; i < fleet.size; i++) {
      const rack = racked ? fleet.word("rack", i) : "";
      const key = rack ? `rack:${quoted(rack)}` : `group:${quoted(fleet.word("group", i))}`;
      let block = blocks.get(key);
      if (!block) blocks.set(key, block = { words: key, name: rack || fleet.word("group", i), racked: rack !== "", places: [], unit: 1 });
      block.places.push(i);
    }
    const natural = new Intl.Collator("en", { numeric: true });
    this.blocks = [...blocks.values()];
    if (racked) this.blocks.sort((a, b) => b.racked - a.racked || natural.compare(a.name, b.name));
    // Places as they are seen, and where in that each of them is.
    this.order = this.blocks.flatMap((block) => block.places);
    this.rank = new Uint32Array(fleet.size);
    this.order.forEach((i, at) => { this.rank[i] = at; });
    const dpu = fleet.tables.kind.indexOf("dpu");
    for (const block of this.blocks) {
      const next = block.places.findIndex((i, at) => at > 0 && fleet.columns.kind[i] !== dpu);
      block.unit = next > 0 ? next : 1;
    }
  }

  // Find the largest cells with which all is seen at once, as far as that is possible.
  layout() {
    const width = this.canvas.parentElement.clientWidth;
    if (!width) return;
    const room = Math.max(240, innerHeight - this.canvas.getBoundingClientRect().top - scrollY - 16);
    this.x = new Float32Array(this.fleet.size);
    this.y = new Float32Array(this.fleet.size);
    // Whole pixels of the screen, so that edges are sharp.
    const step = 1 / devicePixelRatio;
    for (this.pitch = LARGEST; this.pitch > SMALLEST; this.pitch = Math.max(SMALLEST, this.pitch - step))
      if (this.#place(width) <= room) break;
    this.height = this.#place(width);
    this.width = width;
    this.context = sized(this.canvas, width, this.height);
    this.draw();
  }

  #place(width) {
    const { pitch, blocks } = this;
    const most = Math.max(1, ...blocks.map((block) => block.places.length));
    const beside = blocks.length > 3;
    let x = 0, y = 0, tallest = 0;
    for (const block of blocks) {
      const fits = Math.max(1, Math.floor(width / pitch));
      let columns = beside ? Math.min(fits, filled(most, Math.max(Math.sqrt(most), 48 / pitch))) : fits;
      if (columns > block.unit) columns -= columns % block.unit;
      const wide = columns * pitch, high = LABEL + Math.ceil(block.places.length / columns) * pitch;
      if (x > 0 && x + wide > width) [x, y, tallest] = [0, y + tallest + GAP, 0];
      Object.assign(block, { x, y, wide, high, columns });
      block.places.forEach((i, at) => {
        this.x[i] = x + at % columns * pitch;
        this.y[i] = y + LABEL + Math.floor(at / columns) * pitch;
      });
      tallest = Math.max(tallest, high);
      x += wide + GAP;
    }
    return y + tallest + 2;
  }

  draw() {
    const { context, fleet } = this;
    if (!context) return;
    context.clearRect(0, 0, this.width, this.height);
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = colors.get("--soft");
    for (const { name, places, x, y, wide } of this.blocks) {
      const text = wide > 160 ? `${name}  ·  ${places.length.toLocaleString("en")}` : name;
      context.save();
      context.beginPath();
      context.rect(x, y, wide + GAP - 3, LABEL);
      context.clip();
      context.fillText(text, x, y + 11);
      context.restore();
    }
    for (let i = 0; i < fleet.size; i++) this.#cell(i, 0);
    this.#marks();
  }

  // Draw some cells anew in the next frame.
  touch(places) {
    for (const i of places) if (i >= 0) this.dirty.add(i);
    this.frame ??= requestAnimationFrame(() => this.#some());
  }

  #some() {
    this.frame = undefined;
    const { context, pitch, fleet } = this, now = performance.now();
    const places = [...this.dirty];
    this.dirty.clear();
    if (!context) return;
    this.drawn = places.length;
    for (const i of places) if (i < fleet.size) {
      context.clearRect(this.x[i] - 0.5, this.y[i] - 0.5, pitch, pitch);
      this.#cell(i, now);
    }
    for (const [i, until] of this.fresh) if (until <= now) this.fresh.delete(i);
    if (this.fresh.size && !this.fades) this.fades = setTimeout(() => {
      this.fades = undefined;
      this.touch([...this.fresh.keys()]);
    }, FLASH / 3);
  }

  #cell(i, now) {
    const { context, fleet, pitch } = this;
    const inset = pitch >= 8 && fleet.columns.parent[i] >= 0 ? pitch * 0.11 : 0;
    const x = this.x[i] + inset, y = this.y[i] + inset, size = pitch - gapOf(pitch) - 2 * inset;
    const item = this.items()[this.view.of(fleet, i)];
    context.globalAlpha = this.matching[i] ? 1 : 0.13;
    context.fillStyle = colors.get(item?.color ?? "--off");
    if (pitch < 12) context.fillRect(x, y, size, size);
    else {
      context.beginPath();
      context.roundRect(x, y, size, size, size / 6);
      context.fill();
    }
    if (fleet.faults[i]) {
      const dot = Math.max(2, size * 0.4);
      context.fillStyle = colors.get("--fault");
      context.fillRect(x + size - dot, y, dot, dot);
    }
    const until = this.fresh.get(i);
    if (until > now && now) {
      context.globalAlpha = 0.75 * (until - now) / FLASH;
      context.fillStyle = colors.get("--text");
      context.fillRect(x, y, size, size);
    }
    context.globalAlpha = 1;
  }

  items() {
    return this.view.items(this.fleet);
  }

  // Frames around the BMC that has the focus and the one that is open.
  #marks() {
    const focused = document.activeElement === this.canvas ? this.at : -1;
    for (const [mark, i] of [[this.cursor, focused], [this.opened, this.open]]) {
      mark.hidden = i < 0 || i >= this.fleet.size || this.canvas.hidden;
      if (mark.hidden) continue;
      const size = this.pitch - gapOf(this.pitch) + 6;
      mark.style.width = mark.style.height = `${size}px`;
      mark.style.transform = `translate(${this.x[i] - 3}px, ${this.y[i] - 3}px)`;
    }
  }

  // The place of the BMC at a point, -1 for none.
  find(x, y) {
    const block = this.blocks.find((one) => x >= one.x && x < one.x + one.wide && y >= one.y + LABEL && y < one.y + one.high);
    if (!block) return -1;
    const column = Math.floor((x - block.x) / this.pitch), row = Math.floor((y - block.y - LABEL) / this.pitch);
    return block.places[row * block.columns + column] ?? -1;
  }

  focus(i) {
    if (!(i >= 0 && i < this.fleet.size)) return;
    this.at = i;
    this.#marks();
    const box = this.canvas.getBoundingClientRect(), y = box.top + this.y[i];
    if (y < 60 || y > innerHeight - 40) scrollBy({ top: y - innerHeight / 2, behavior: "instant" });
    this.focused(i);
  }

  select(i) {
    this.open = i;
    this.#marks();
  }

  #key(event) {
    const order = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const rows = { ArrowUp: -1, ArrowDown: 1, PageUp: -10, PageDown: 10 }[event.key];
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (order) this.focus(this.#next(order));
    else if (rows) this.focus(this.#beside(rows));
    else if (event.key === "Home") this.focus(this.order[0]);
    else if (event.key === "End") this.focus(this.order.at(-1));
    else if (event.key === "Enter" || event.key === " ") this.opens(this.at);
    else return;
    event.preventDefault();
  }

  // The next place that matches; any, if none does.
  #next(step) {
    const any = !this.matching.includes(1);
    for (let at = this.rank[this.at] + step; at >= 0 && at < this.order.length; at += step)
      if (any || this.matching[this.order[at]]) return this.order[at];
    return this.at;
  }

  // The place some rows above or below; what is between blocks is passed over.
  #beside(rows) {
    const x = this.x[this.at] + this.pitch / 2, step = Math.sign(rows) * this.pitch;
    let found = this.at, y = this.y[this.at] + this.pitch / 2;
    for (let left = Math.abs(rows); left > 0;) {
      y += step;
      if (y < 0 || y > this.height) break;
      const i = this.find(x, y);
      if (i >= 0 && i !== found) [found, left] = [i, left - 1];
    }
    return found;
  }

  #hover(event) {
    if (event.pointerType === "touch") return;
    const i = this.find(event.offsetX, event.offsetY);
    this.canvas.style.cursor = i >= 0 || this.#label(event) ? "pointer" : "default";
    if (i < 0) return this.#unhover();
    if (i !== this.hovered) {
      this.hovered = i;
      const { fleet } = this, look = lookOf(fleet, i);
      this.tip.replaceChildren(h("b", {}, fleet.id(i)), ` ${look.name}`, h("br"),
        `${fleet.address[i] ?? "no address"} · ${fleet.word("hardware", i)}`);
      this.tip.hidden = false;
    }
    const { offsetWidth: wide, offsetHeight: high } = this.tip;
    const left = Math.min(event.offsetX + 14, this.width - wide);
    const top = event.offsetY + 18 + high > this.height ? event.offsetY - high - 10 : event.offsetY + 18;
    this.tip.style.transform = `translate(${Math.max(0, left)}px, ${top}px)`;
  }

  #unhover() {
    this.hovered = -1;
    this.tip.hidden = true;
  }

  #label({ offsetX: x, offsetY: y }) {
    return this.blocks.find((one) => x >= one.x && x < one.x + one.wide && y >= one.y && y < one.y + LABEL);
  }

  #click(event) {
    const i = this.find(event.offsetX, event.offsetY), block = this.#label(event);
    if (i >= 0) {
      this.focus(i);
      this.opens(i);
    } else if (block) this.picks(block.words);
  }
}
