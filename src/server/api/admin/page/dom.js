// Elements, and text that people can read. Text from the server only ever becomes text of elements.

export const find = (id) => document.getElementById(id);

// Returns an element with these properties and children (elements or texts).
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  const { attributes = {}, ...rest } = properties;
  Object.assign(made, rest);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export const button = (text, onclick, properties) => element("button", { onclick, ...properties }, text);

// Returns cells of a row for numbers.
export const amounts = (cells) => Array.from({ length: cells }, () => element("td", { className: "amount" }));

// Sets the text of an element, if it differs: a selection of the user stays.
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const LONGEST = 200;
// Control characters, what has no width, what changes the direction of text, halves of characters.
const HIDDEN =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff9-\ufffb]|\p{Cs}|[\u{e0000}-\u{e0fff}]/gu;

// Returns a text of clients as people may see it: with hidden characters escaped, not too long.
export function visible(text) {
  const characters = [...String(text).slice(0, 4 * LONGEST)];
  const shown = characters.slice(0, LONGEST).join("");
  const escaped = shown.replace(HIDDEN, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
  return characters.length > LONGEST ? escaped + "…" : escaped;
}

export const digits = (number) => number.toLocaleString("en");
export const count = (number, word) => `${digits(number)} ${word}${number === 1 ? "" : "s"}`;

export function rate(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 100 || value === 0) return digits(Math.round(value));
  return value.toPrecision(2);
}

export function seconds(value) {
  if (value === null) return "–";
  if (value < 1e-3) return `${(value * 1e6).toPrecision(3)} µs`;
  if (value < 1) return `${(value * 1e3).toPrecision(3)} ms`;
  return `${value.toPrecision(3)} s`;
}

// The time of day of an instant in milliseconds: "08:34:13".
export const clock = (at) => new Date(at).toLocaleTimeString("en-GB");

export function share(part, whole) {
  if (!whole) return "–";
  const percent = (100 * part) / whole;
  return percent > 0 && percent < 0.1 ? "< 0.1 %" : `${percent.toFixed(percent > 0 && percent < 10 ? 1 : 0)} %`;
}

export function age(whole) {
  const [days, hours, minutes] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24,
    Math.floor(whole / 60) % 60];
  if (days > 0) return `${days} d ${hours} h`;
  if (hours > 0) return `${hours} h ${minutes} min`;
  return minutes > 0 ? `${minutes} min` : `${whole} s`;
}

// Makes the children of `parent` those of `items`, reusing the element of each name.
export function keepRows(parent, items, nameOf, make, update) {
  const old = new Map([...parent.children].map((row) => [row.rowName, row]));
  const rows = items.map((item) => {
    const name = nameOf(item);
    let row = old.get(name);
    if (!row) {
      row = make(item);
      row.rowName = name;
    }
    update(row, item);
    return row;
  });
  const focused = document.activeElement;
  rows.forEach((row, i) => {
    if (parent.children[i] !== row) parent.insertBefore(row, parent.children[i] ?? null);
  });
  while (parent.children.length > rows.length) parent.lastChild.remove();
  if (focused !== document.activeElement && parent.contains(focused)) focused.focus();
}

// Shows the names and values of a list of descriptions.
export function showPairs(list, pairs) {
  keepRows(list, pairs.flatMap(([name, value]) => [["dt", name, name], ["dd", `${name} `, value]]),
    ([, name]) => name, ([tag]) => element(tag), (node, [, , text]) => say(node, text));
}

const SPARE = 6; // rows above and below those in sight

// Shows a long table: of its rows, which are equally high, only those in sight are elements. Returns
// a function that shows other items.
export function longTable(box, { nameOf, make, update }) {
  const body = box.querySelector("tbody");
  const gap = (name) => ({ gap: name, row: element("tr", { className: "gap" }, element("td")) });
  const [above, below] = [gap("above"), gap("below")];
  let items = [];
  let frame = 0;
  let [high, inSight] = [50, 600]; // in pixels: a row, and the box
  const stretch = ({ row }, rows, high) => {
    row.hidden = rows <= 0;
    row.firstChild.style.height = `${rows * high}px`;
  };
  function draw() {
    frame = 0;
    const first = Math.max(0, Math.min(Math.floor(box.scrollTop / high) - SPARE, items.length - 1));
    const last = Math.min(items.length, first + Math.ceil(inSight / high) + 2 * SPARE);
    stretch(above, first, high);
    stretch(below, items.length - last, high);
    keepRows(body, [above, ...items.slice(first, last), below], (item) => item.gap ?? ` ${nameOf(item)}`,
      (item) => item.row ?? make(item),
      (row, item) => {
        if (item.gap || row.shown === items) return;
        row.shown = items;
        row.ariaRowIndex = items.indexOf(item, first) + 2;
        update(row, item);
      });
    body.parentElement.ariaRowCount = items.length + 1;
  }
  box.addEventListener("scroll", () => {
    frame ||= requestAnimationFrame(draw);
  }, { passive: true });
  return (shown) => {
    items = shown;
    high = body.querySelector("tr:not(.gap)")?.offsetHeight || high;
    inSight = box.clientHeight || inSight;
    const count = [...box.querySelectorAll("thead th")].filter((th) => th.offsetWidth).length;
    for (const { row } of [above, below]) row.firstChild.colSpan = count;
    draw();
  };
}
