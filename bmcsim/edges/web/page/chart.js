// Small line charts on a canvas, and how pages are put together: text is always text, never HTML.

function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// Colours of the style sheet as a canvas takes them.
const colors = {
  known: new Map(),
  forget() { this.known.clear(); },
  get(name) {
    if (!this.known.has(name)) {
      const probe = document.body.appendChild(h("i", { hidden: true }));
      probe.style.color = `var(${name})`;
      this.known.set(name, getComputedStyle(probe).color);
      probe.remove();
    }
    return this.known.get(name);
  },
};

// A canvas in as many pixels as the screen has; its context draws in CSS pixels.
function sized(canvas, width, height) {
  const ratio = devicePixelRatio;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

const SHORTEST_SPAN = 60_000;

// series: [{name, color}]; format: a value as text; span: milliseconds that are shown at most.
class Chart {
  constructor(title, series, format, span, { height = 64, band = [] } = {}) {
    Object.assign(this, { title, series, format, span, height, band });
    this.points = [];
    this.canvas = h("canvas", { role: "img", "aria-label": title });
    this.now = h("span", { class: "now" }, "–");
    this.plot = h("div", { class: "plot" }, this.canvas);
    this.element = h("figure", { class: "chart" }, h("figcaption", {}, h("span", {}, title), this.now), this.plot);
    new ResizeObserver(() => this.draw()).observe(this.plot);
  }

  // values: one of each series, null for none.
  add(time, values) {
    this.points.push({ time, values });
    while (this.points[0].time < time - this.span) this.points.shift();
    this.now.replaceChildren(...this.series.flatMap(({ name, color }, at) => {
      const value = values[at] === null ? "–" : this.format(values[at]);
      if (this.series.length === 1) return [value];
      const key = h("i", { class: "key" });
      key.style.background = `var(${color})`;
      return [h("span", {}, key, `${name} ${value}`)];
    }));
    this.canvas.setAttribute("aria-label", `${this.title}: ${this.now.textContent}`);
    this.draw();
  }

  draw() {
    const width = this.plot.clientWidth, { height, points } = this;
    if (!width) return;
    const context = sized(this.canvas, width, height);
    const all = points.flatMap(({ values }) => values.filter((value) => value !== null));
    const [low, high] = this.#range(all);
    const end = points.at(-1)?.time ?? 0;
    // What is there fills the width, so that a chart that has just begun shows something.
    const span = Math.min(this.span, Math.max(SHORTEST_SPAN, end - (points[0]?.time ?? end)));
    const x = (time) => width - 1 - (end - time) / span * (width - 2);
    const y = (value) => height - 2 - (value - low) / (high - low) * (height - 14);
    context.strokeStyle = colors.get("--line");
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(0, height - 1.5);
    context.lineTo(width, height - 1.5);
    context.moveTo(0, 11.5);
    context.lineTo(width, 11.5);
    context.stroke();
    context.fillStyle = colors.get("--faint");
    context.font = "10px system-ui, sans-serif";
    if (all.length) {
      const past = span < 120_000 ? `${Math.round(span / 1000)} s` : `${Math.round(span / 60_000)} min`;
      context.fillText(this.format(high), 0, 8);
      context.fillText(past, width - context.measureText(past).width, 8);
    }
    this.series.forEach(({ color, filled }, at) => {
      context.strokeStyle = context.fillStyle = colors.get(color);
      context.lineWidth = 1.5;
      context.beginPath();
      let before = null, first = null;
      for (const { time, values } of points) {
        if (values[at] === null) { before = null; continue; }
        first ??= time;
        if (before === null) context.moveTo(x(time), y(values[at]));
        else context.lineTo(x(time), y(values[at]));
        before = time;
      }
      context.stroke();
      if (!filled || before === null) return;
      context.lineTo(x(before), height - 1);
      context.lineTo(x(first), height - 1);
      context.globalAlpha = 0.15;
      context.fill();
      context.globalAlpha = 1;
    });
  }

  #range(values) {
    if (!values.length) return [0, 1];
    if (this.band.length) {
      const [low, high] = [Math.min(...values, this.band[0]), Math.max(...values, this.band[1])];
      return [low, high > low ? high : low + 1];
    }
    const high = Math.max(...values);
    return [0, high > 0 ? high : 1];
  }
}

function seconds(value) {
  if (value < 0.001) return `${Math.round(value * 1e6)} µs`;
  return value < 1 ? `${(value * 1000).toFixed(value < 0.01 ? 1 : 0)} ms` : `${value.toFixed(1)} s`;
}

function short(value) {
  return value >= 10_000 ? `${(value / 1000).toFixed(1)}k` : value >= 100 ? value.toFixed(0) : value.toPrecision(3).replace(/\.?0+$/, "");
}
