// The budgets: what the keys that have spent or ask most have spent, hold and have left.

import { read } from "/page/api.js";
import { amounts, button, digits, element, find, keepRows, say, visible } from "/page/dom.js";
import { openKey, partsOf, valuesIn } from "/page/key.js";

const [LIMITS, KEYS] = [8, 5]; // of each limit
// The server reads the whole ledger for an answer.
const EVERY = 60_000;
let asking = 0; // the number of the latest question
const ledger = { exists: true, readAt: -EVERY, rows: [] };

// What keys have spent by the ledger, the largest first; nothing without one.
async function spenders() {
  if (!ledger.exists || performance.now() - ledger.readAt < EVERY) return ledger.rows;
  ledger.readAt = performance.now();
  try {
    ledger.rows = (await read("/v1/usage?count=1000")).usage;
  } catch (error) {
    ledger.exists = error.status !== 409;
  }
  return ledger.rows;
}

// A key does not say which of several attributes it has: the counter is the one that is used.
async function balance({ rule, limit }, key) {
  const parts = partsOf(limit.key);
  const choices = parts.flatMap((part) => (part.names ? [part.names] : []));
  const values = valuesIn(key, parts);
  let one;
  for (let i = 0; i === 0 || (choices.some((names) => i < names.length) && !(one.spent + one.held)); ++i) {
    const query = new URLSearchParams({ rule, limit: limit.name });
    choices.forEach((names, at) => query.append(`attribute.${names[i] ?? names.at(-1)}`, values[at] ?? ""));
    [one] = (await read(`/v1/keys?${query}`)).limits;
  }
  return { ...one, rule, key, used: one.limit ? 100 / one.limit : 100 };
}

function makeRow({ rule, name, key }) {
  const open = button(key === "" ? "(all requests)" : visible(key), () => openKey(rule, name, key));
  return element("tr", {}, element("th", { scope: "row" }, open, element("small", {}, ` ${visible(rule)} / ${visible(name)}`),
    element("i", { className: "used", ariaHidden: true })), ...amounts(3));
}

function updateRow(row, { spent, held, remaining, used }) {
  const [first, ...cells] = row.children;
  [spent, held, remaining].forEach((units, i) => say(cells[i], digits(units)));
  cells[2].classList.toggle("bad", remaining === 0);
  first.lastChild.style.setProperty("--spent", `${spent * used}%`);
  first.lastChild.style.setProperty("--held", `${(spent + held) * used}%`);
}

// Shows the budgets of the chosen rule; null: of all. Few keys, one after the other.
export async function showBudgets(rules, chosen) {
  const mine = ++asking;
  const rows = [];
  const limits = rules.filter(({ name }) => chosen === null || name === chosen).flatMap(({ name: rule, limits }) =>
    limits.filter(({ algorithm }) => algorithm === "budget").map((limit) => ({ rule, limit }))).slice(0, LIMITS);
  try {
    const top = limits.length ? await read(`/v1/top?by=asked&over=day&count=${KEYS}`) : {};
    const spent = limits.length && !top.hashed ? await spenders() : [];
    for (const of of top.hashed ? [] : limits) {
      const isOf = (one) => one.rule === of.rule && one.limit === of.limit.name;
      const asked = (top.limits?.find(isOf)?.keys ?? []).filter((one) => !one.cut && !one.not_utf8);
      const keys = new Set([...spent.filter(isOf), ...asked].map((one) => one.key));
      for (const key of [...keys].slice(0, KEYS)) {
        if (mine !== asking) return;
        const row = await balance(of, key);
        if (!row.missing) rows.push(row);
      }
    }
  } catch (error) {
    if (error.status !== 404) return; // the next question may have an answer
  }
  if (mine !== asking) return;
  rows.sort((a, b) => (b.spent + b.held) * b.used - (a.spent + a.held) * a.used);
  find("budgets").hidden = rows.length === 0;
  keepRows(find("budget-keys"), rows, (row) => `${row.rule}/${row.name} ${row.key}`, makeRow, updateRow);
}
