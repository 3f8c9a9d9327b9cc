// The table of rules, with a row for each limit, and the facts of the rule that is chosen.

import { drawSmall } from "/page/charts.js";
import { button, count, digits, element, find, longTable, rate, say, share, showPairs, visible } from "/page/dom.js";

let table = { rules: [], most: 1 }; // the latest answer of GET /v1/history for all rules
let rates = new Map(); // a second, by rule, and by rule and limit
let chosen = null; // the name of a rule
let choose = () => {}; // called with the name of a rule, or null
let range = ""; // "10 minutes"
const order = { by: "asked", up: false };

const limitText = (limit) => {
  if (limit.plans) return `by plan (${limit.plans})`;
  const burst = limit.burst === undefined ? "" : `, burst ${digits(limit.burst)}`;
  return `${digits(limit.limit)}${limit.per && limit.algorithm !== "concurrency" ? ` per ${limit.per}` : " at once"}${burst}`;
};
const ACTIONS = { allow: "lets everything through", deny: "denies everything" };
const COLUMNS = [
  { name: "rule", title: "rule", value: (row) => row.rule.name },
  { name: "limit", title: "limit", className: "optional", value: (row) => row.limit?.name ?? "" },
  { name: "past", title: "asked, denied", className: "optional" },
  { name: "asked", title: "asked/s", amount: true, value: (row) => row.now?.asked ?? 0 },
  { name: "denied", title: "denied", amount: true, value: (row) => (row.sums.denied ?? 0) / (row.sums.asked || 1) },
  ...["near", "skipped", "failed", "would_deny"].map((name) => ({
    name, title: { failed: "errors", would_deny: "shadow" }[name] ?? name, amount: true, className: "optional",
    value: (row) => row.sums[name] ?? 0,
  })),
];

function makeHead() {
  find("rules-head").replaceChildren(...COLUMNS.map((column) => {
    const cell = element("th", { scope: "col", className: `${column.amount ? "amount" : ""} ${column.className ?? ""}` });
    if (!column.value) return element("th", { scope: "col", className: column.className }, column.title);
    cell.append(button(column.title, () => {
      order.up = order.by === column.name ? !order.up : !column.amount;
      order.by = column.name;
      show();
    }));
    cell.column = column.name;
    return cell;
  }));
}

// One row for each limit, and one for a rule without limits.
function rows() {
  return table.rules.flatMap((rule) => (rule.limits.length ? rule.limits : [null]).map((limit) => ({
    rule, limit, sums: (limit ?? rule).sums, name: `${rule.name}\n${limit?.name ?? ""}\n${rule.shadow}`,
    now: rates.get(limit ? `${rule.name}\n${limit.name}` : rule.name),
  })));
}

function makeRule({ rule, limit }) {
  const title = visible(rule.name);
  const head = element("th", { scope: "row" },
    button(title, () => choose(chosen === rule.name ? null : rule.name), { title }));
  if (rule.shadow) head.append(" ", element("span", { className: "badge" }, "shadow"));
  head.append(element("small"));
  const chart = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  chart.setAttribute("class", "small");
  chart.setAttribute("aria-hidden", "true");
  const cells = COLUMNS.slice(3).map((column) => element("td", { className: `amount ${column.className ?? ""}` }));
  cells[1].classList.add("share");
  return element("tr", {}, head, element("td", { className: "optional" }), element("td", { className: "optional" }, chart), ...cells);
}

function updateRule(row, { rule, limit, sums, now }) {
  const [name, what, chart, asked, denied, ...others] = row.children;
  row.className = rule.name === chosen ? "chosen" : "";
  name.querySelector("button").setAttribute("aria-pressed", rule.name === chosen);
  const match = rule.match.map(visible).join(", ") || "every request";
  const limits = limit ? limitText(limit) : ACTIONS[rule.action] ?? "no limit";
  const narrow = matchMedia("(max-width: 44rem)").matches;
  say(name.querySelector("small"), narrow && limit ? `${visible(limit.name)}: ${limits}` : match);
  name.title = match;
  if (row.limits !== limits) {
    row.limits = limits;
    const key = limit ? `${visible(limit.name)}, by ${limit.key === "" ? "all requests" : visible(limit.key)}` : "";
    what.replaceChildren(limits, element("small", {}, key));
    what.title = limit ? `${limits}, ${limit.algorithm}; ${key}` : limits;
  }
  if (row.drawn !== table) {
    row.drawn = table;
    drawSmall(chart.firstChild, rule.asked, rule.denied, table.most);
  }
  say(asked, rate(now?.asked ?? null));
  say(denied, share(sums.denied ?? 0, sums.asked));
  denied.style.setProperty("--part", `${(100 * (sums.denied ?? 0)) / (sums.asked || 1)}%`);
  ["near", "skipped", "failed", "would_deny"].forEach((of, i) => {
    const value = sums[of] ?? 0;
    say(others[i], value ? digits(value) : "");
    others[i].classList.toggle({ failed: "failed", near: "", skipped: "bad", would_deny: "trial" }[of] || "near", value > 0);
  });
}

const showRows = longTable(find("rules-box"), { nameOf: (row) => row.name, make: makeRule, update: updateRule });

function show() {
  const wanted = find("rules-filter").value.trim().toLowerCase();
  const all = rows();
  const texts = ({ rule, limit }) => [rule.name, ...rule.match, limit?.name, limit?.key];
  const found = all.filter((row) => !wanted || texts(row).some((one) => one?.toLowerCase().includes(wanted)));
  const { value } = COLUMNS.find((column) => column.name === order.by);
  const compare = (a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0);
  found.sort((a, b) => (order.up ? compare(a, b) : compare(b, a)));
  for (const cell of find("rules-head").children) {
    cell.ariaSort = cell.column === order.by ? (order.up ? "ascending" : "descending") : null;
  }
  showRows(found);
  find("rules-box").hidden = found.length === 0;
  const hidden = all.length - found.length;
  say(find("rules-more"), (hidden ? `${count(hidden, "limit")} hidden by the filter. ` : "") +
    `Denied, near, skipped, errors and shadow: in the last ${range}.`);
  showFacts();
}

// The facts of the rule that is chosen.
function showFacts() {
  const rule = table.rules.find((one) => one.name === chosen);
  find("rule-facts").hidden = !rule;
  if (!rule) return;
  const sums = (of) => Object.entries(of.sums).map(([name, value]) => `${name.replace("failed", "errors").replace("_", " ")} ${digits(value)}`).join(", ") || "nothing counted";
  showPairs(find("rule-facts"), [
    ["match", rule.match.map(visible).join(", ") || "every request"],
    ["mode", rule.shadow ? "shadow: denies nothing" : "enforced"],
    ["if the store fails", { allow: "lets everything through", deny: "denies everything", local: "this server's own counters" }[rule.on_store_error]],
    ...rule.limits.map((limit) => [`limit ${visible(limit.name)}`,
      `${limitText(limit)} (${limit.algorithm}) by ${limit.key === "" ? "all requests" : visible(limit.key)}: ${sums(limit)}`]),
  ]);
}

// Shows the rules of an answer, or only other rates.
export function showRules(now) {
  ({ table = table, rates = rates, chosen = chosen, range = range } = now);
  show();
}

export function onChoice(action) {
  choose = action;
}

find("rules-filter").addEventListener("input", show);
makeHead();
