// The keys that are denied or asked most.

import { openKey } from "/page/key.js";
import { read } from "/page/api.js";
import { amounts, button, digits, element, find, longTable, say, visible } from "/page/dom.js";

const EVERY_MS = 3000;
const LONGEST_MS = 15_000;
const KEYS = 50; // of each limit
let next = 0; // when to ask the server again
let busy = false;
let counted = true; // whether the server counts keys
let top = { limits: [] };
let rule = null; // null: of all rules

// Hashes, the beginning of a long key, and a key whose bytes are not UTF-8 do not name it. A key
// without a rule cannot be looked up.
function makeKey({ key, limit }) {
  const more = (key.cut ? "…" : "") + (key.not_utf8 ? " (not UTF-8)" : "");
  const text = key.key === "" ? "(all requests)" : visible(key.key) + more;
  const [count, action] = amounts(2);
  if (!top.hashed && !key.cut && !key.not_utf8 && limit.rule !== "") {
    action.append(button("Open", () => openKey(limit.rule, limit.limit, key.key), { ariaLabel: `Open ${text}` }));
  }
  const where = `${limit.rule === "" ? "(no rule)" : visible(limit.rule)} / ${visible(limit.limit)}`;
  return element("tr", {}, element("td", { className: "key", title: text }, text),
    element("td", { title: where }, where), count, element("td", { className: "optional" }), action);
}

function updateKey(row, { key }) {
  const [, , count, latest] = row.children;
  say(count, digits(key.count));
  count.title = key.error > 0 ? `at most ${digits(key.error)} too many` : "";
  const { client = "", agent = "", path = "" } = key.latest ?? {};
  const seen = [client !== key.key && client, path, agent].filter(Boolean).map(visible).join(" · ");
  say(latest, seen);
  latest.title = seen;
}

const show = longTable(find("top-box"), {
  nameOf: ({ key, limit }) => `${top.hashed} ${key.not_utf8} ${limit.rule}/${limit.limit} ${key.key}`,
  make: makeKey,
  update: updateKey,
});

function showKeys() {
  const wanted = find("top-filter").value.trim().toLowerCase();
  const limits = top.limits.filter((limit) => rule === null || limit.rule === rule);
  const all = limits.flatMap((limit) => limit.keys.map((key) => ({ key, limit })));
  const found = all.filter(({ key, limit }) => !wanted ||
    [key.key, limit.rule, limit.limit, key.latest?.agent, key.latest?.client].some((one) => one?.toLowerCase().includes(wanted)));
  found.sort((a, b) => b.key.count - a.key.count);
  show(found);
  find("top-box").hidden = found.length === 0;
  const asked = find("top-by").value === "asked";
  say(find("top-title"), asked ? "Who asks most" : "Who is denied");
  say(find("top-count"), asked ? "asked" : "denied");
  const none = all.length ? "No key matches the filter. " : asked ? "Nobody has asked. " : "Nobody was denied. ";
  say(find("top-note"), (found.length ? "" : none) +
    (top.hashed ? "Keys are shown as hashes, as in the log (log.keys: hash)." : ""));
}

async function ask() {
  const query = new URLSearchParams({ by: find("top-by").value, over: find("top-over").value, count: KEYS });
  if (rule !== null) query.set("rule", rule);
  try {
    top = await read(`/v1/top?${query}`);
    find("top").hidden = false;
    showKeys();
  } catch (error) {
    if (error.status === 404 && rule === null) counted = false;
    find("top").hidden = !counted;
  }
}

// Asks for the keys every few seconds, while there are events; less often if the answer takes long.
export async function showTopKeys(isNow = false) {
  if (busy || !counted || document.hidden || (!isNow && performance.now() < next)) return;
  busy = true;
  const start = performance.now();
  await ask();
  const took = performance.now() - start;
  next = start + Math.min(LONGEST_MS, Math.max(EVERY_MS, 500 * took));
  busy = false;
}

// Shows only the keys of one rule; null: of all.
export function chooseRule(name) {
  if (name === rule) return;
  rule = name;
  showKeys();
  showTopKeys(true);
}

for (const id of ["top-by", "top-over"]) find(id).addEventListener("change", () => showTopKeys(true));
find("top-filter").addEventListener("input", showKeys);
