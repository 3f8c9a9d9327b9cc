// Lines over time as SVG.

const SVG = "http://www.w3.org/2000/svg";

function draw(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// Returns 1, 2 or 5 times a power of ten, at least `value`.
export function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return power * ([1, 2, 5].find((step) => step * power >= value) ?? 10);
}

// The path of a line. A null value is a gap.
function pathOf(values, most, width, height, capacity) {
  let path = "";
  let pen = "M";
  values.forEach((value, i) => {
    if (value === null) {
      pen = "M";
      return;
    }
    const x = width - ((values.length - 1 - i) * width) / (capacity - 1);
    path += `${pen}${x.toFixed(1)},${(height - (value / most) * (height - 2) - 1).toFixed(1)}`;
    pen = "L";
  });
  return path;
}

// Draws lines into `svg`, the newest value at the right edge. `lines`: {name: values}, all drawn to
// one scale. With `label`, also an axis with its maximum.
export function drawLines(svg, lines, capacity, label = "") {
  const [width, height] = label ? [600, 130] : [160, 28];
  const values = Object.values(lines).flat().filter((value) => value !== null);
  const most = roundUp(Math.max(0, ...values));
  const shown = [];
  if (label) {
    shown.push(draw("line", { class: "axis", x1: 0, x2: width, y1: 1, y2: 1 }));
    shown.push(draw("line", { class: "axis", x1: 0, x2: width, y1: height - 1, y2: height - 1 }));
  }
  for (const [name, of] of Object.entries(lines)) {
    const d = pathOf(of, most, width, height, capacity);
    shown.push(draw("path", { class: `line line-${name}`, d }));
  }
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.replaceChildren(...shown);
  return most;
}
