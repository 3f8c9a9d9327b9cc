// Charts of rates over time as SVG: grid, axes, and the values under the pointer.

import { clock, find, rate } from "/page/dom.js";

const SVG = "http://www.w3.org/2000/svg";
const [LEFT, RIGHT, TOP, BOTTOM] = [52, 6, 8, 22]; // around the plot, in pixels
const LINES = 4; // of the grid
const TITLES = { asked: "asked", denied: "denied", would_deny: "shadow would deny", failed: "without the store" };

function draw(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// Returns 1, 2 or 4 times a power of ten, at least `value`: a scale that four lines divide.
export function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return power * ([1, 2, 4].find((step) => step * power >= value) ?? 10);
}

// The path of values with times in milliseconds; an area reaches down to the base.
function pathOf(times, values, { from, x, y, base, gap }, isArea) {
  let path = "";
  let start = null;
  let before = 0;
  const end = () => {
    if (isArea && start !== null) path += `L${x(before).toFixed(1)},${base}L${start},${base}Z`;
    start = null;
  };
  times.forEach((time, i) => {
    if (time < from) return;
    if (values[i] === null || values[i] === undefined) return end();
    if (time - before > gap) end();
    const at = x(time).toFixed(1);
    path += `${start === null ? "M" : "L"}${at},${y(values[i]).toFixed(1)}`;
    if (start === null) start = at;
    before = time;
  });
  end();
  return path;
}

function drawAxes(svg, plot, most, times) {
  for (let i = 0; i <= LINES; ++i) {
    const at = Math.round(plot.y((most * i) / LINES)) + 0.5;
    svg.append(draw("line", { class: i ? "grid" : "base", x1: LEFT, x2: plot.width - RIGHT, y1: at, y2: at }));
    if (plot.height > 150 || i % 2 === 0) {
      svg.append(draw("text", { x: LEFT - 8, y: at + 4, "text-anchor": "end" }, rate((most * i) / LINES)));
    }
  }
  const many = plot.width > 600 ? 1 : 2;
  const step = (times.to - times.from > 3600_000 ? 4 * 3600_000 : 2 * 60_000) * many;
  const zone = new Date(times.to).getTimezoneOffset() * 60_000;
  for (let at = Math.ceil((times.from - zone) / step) * step + zone; at <= times.to; at += step) {
    const x = Math.round(plot.x(at)) + 0.5;
    svg.append(draw("line", { class: "grid", x1: x, x2: x, y1: TOP, y2: plot.base }));
    const anchor = x < LEFT + 20 ? "start" : x > plot.width - 24 ? "end" : "middle";
    svg.append(draw("text", { x, y: plot.height - 5, "text-anchor": anchor }, clock(at).slice(0, 5)));
  }
}

// Draws rates: `past` has `times`, and a list of values for each name of `shown`. Returns the scale.
export function drawRates(box, past, shown, range) {
  const [width, height] = [Math.max(box.clientWidth, 200), Math.max(box.clientHeight, 60)];
  const values = shown.flatMap((name) => past[name] ?? []).filter((value) => value !== null);
  const most = roundUp(Math.max(0, ...values));
  const base = height - BOTTOM;
  const times = { from: past.now - range, to: past.now };
  const plot = {
    width, height, base, gap: range / 100, from: times.from,
    x: (time) => LEFT + ((time - times.from) / range) * (width - LEFT - RIGHT),
    y: (value) => base - (value / most) * (base - TOP),
  };
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  drawAxes(svg, plot, most, times);
  for (const name of shown) {
    if (!past[name]) continue;
    if (name === "asked" || name === "denied") {
      svg.append(draw("path", { class: `area ${name}`, d: pathOf(past.times, past[name], plot, true) }));
    }
    svg.append(draw("path", { class: `line ${name}`, d: pathOf(past.times, past[name], plot, false) }));
  }
  svg.append(draw("line", { class: "cursor", x1: -9, x2: -9, y1: TOP, y2: base }));
  box.replaceChildren(svg);
  box.plotted = { past, plot };
  return most;
}

// Draws a line of a table: two lists of counts, to one scale.
export function drawSmall(svg, asked, denied, most) {
  const [width, height] = [128, 28];
  const line = (of, name) => {
    const at = (value, i) => `${i ? "L" : "M"}${((i / Math.max(1, of.length - 1)) * width).toFixed(1)},` +
      `${(height - 1 - (value / most) * (height - 3)).toFixed(1)}`;
    return draw("path", { class: `line ${name}`, d: of.map(at).join("") });
  };
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.replaceChildren(...(asked ? [line(asked, "asked")] : []), ...(denied ? [line(denied, "denied")] : []));
}

// --- the values under the pointer, or chosen with the arrow keys ---------------------------------

let chosen = null; // a time

function textAt(past, i) {
  const names = Object.keys(TITLES).filter((name) => past[name]?.[i] > 0 || name === "asked");
  return [clock(past.times[i]), ...names.map((name) => `${TITLES[name]} ${rate(past[name]?.[i] ?? null)}/s`)].join("\n");
}

function nearest(times, time) {
  let best = 0;
  times.forEach((one, i) => {
    if (Math.abs(one - time) < Math.abs(times[best] - time)) best = i;
  });
  return best;
}

function showTip(boxes, box, i) {
  const { past, plot } = box.plotted;
  const x = plot.x(past.times[i]);
  for (const one of boxes) {
    const cursor = one.querySelector(".cursor");
    cursor?.setAttribute("x1", x);
    cursor?.setAttribute("x2", x);
  }
  const tip = find("tip");
  tip.textContent = textAt(past, i);
  tip.hidden = false;
  const at = box.getBoundingClientRect();
  const left = at.left + x + 12;
  const fits = left + tip.offsetWidth < innerWidth - 8;
  tip.style.left = `${Math.max(4, fits ? left : left - tip.offsetWidth - 24)}px`;
  tip.style.top = `${Math.max(4, at.top + 12)}px`;
  return tip.textContent.replaceAll("\n", ", ");
}

function hideTip(boxes) {
  chosen = null;
  find("tip").hidden = true;
  for (const one of boxes) {
    for (const end of ["x1", "x2"]) one.querySelector(".cursor")?.setAttribute(end, -9);
  }
}

// Lets people point at charts that share their times. `told` gets what a screen reader says.
export function followPointer(boxes, told) {
  const timeAt = (box, clientX) => {
    const { past, plot } = box.plotted;
    const share = (clientX - box.getBoundingClientRect().left - LEFT) / (plot.width - LEFT - RIGHT);
    const length = plot.gap * 100;
    return past.now - length + share * length;
  };
  for (const box of boxes) {
    const point = (event) => {
      if (!box.plotted?.past.times.length) return;
      chosen = timeAt(box, event.clientX);
      showTip(boxes, box, nearest(box.plotted.past.times, chosen));
    };
    box.addEventListener("pointermove", point);
    box.addEventListener("pointerdown", point);
    box.addEventListener("pointerleave", () => hideTip(boxes));
  }
  const [first] = boxes;
  first.addEventListener("blur", () => hideTip(boxes));
  first.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const times = first.plotted?.past.times ?? [];
    if (!step || !times.length) return;
    event.preventDefault();
    const from = chosen === null ? times.length : nearest(times, chosen) + step;
    const i = Math.min(times.length - 1, Math.max(0, from));
    chosen = times[i];
    told(showTip(boxes, first, i));
  });
}

// Puts the pointer's values back after a chart was drawn again.
export function keepTip(boxes) {
  const [first] = boxes;
  if (chosen !== null && first.plotted.past.times.length) {
    showTip(boxes, first, nearest(first.plotted.past.times, chosen));
  }
}
