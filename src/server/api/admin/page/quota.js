// The parts of limits that proxies have. Loaded once a proxy has some.

import { read } from "/page/api.js";
import { amounts, count, element, find, keepRows, rate, say, share, visible } from "/page/dom.js";

const [ROWS, EVERY] = [50, 5000];
let askedAt = -Infinity;
const amount = (text) => element("th", { scope: "col", className: "amount" }, text);
const body = element("tbody", { id: "quota-parts" });
const note = element("p", { className: "note" });
const section = element("section", { id: "quota", attributes: { "aria-labelledby": "quota-title" } },
  element("h2", { id: "quota-title" }, "Parts of proxies"),
  element("table", {}, element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "proxy"),
    ...["demand", "part", "of the limit", "expires"].map(amount))), body), note);

function makeRow({ peer, rule, limit, key }) {
  return element("tr", {}, element("th", { scope: "row" }, visible(peer),
    element("small", {}, ` ${visible(rule)} / ${visible(limit)}${key === "" ? "" : `, ${visible(key)}`}`)),
    ...amounts(4));
}

function updateRow(row, { demand, part, whole, expires, failure }) {
  const texts = [rate(demand), rate(part), share(part, whole), `${(expires / 1000).toFixed(1)} s`];
  texts.forEach((text, i) => say(row.children[i + 1], text));
  row.classList.toggle("bad", Boolean(failure) || expires === 0);
}

// Shows the parts as GET /v1/quota has them, those with the greatest demand first.
export async function showQuota() {
  if (performance.now() - askedAt < EVERY) return;
  askedAt = performance.now();
  if (!section.isConnected) find("budgets").after(section);
  const { proxies, buckets, counters } = await read("/v1/quota");
  const parts = counters.flatMap((of) => of.parts.map((one) => ({
    ...of, id: one.id, peer: one.peer, demand: one.demand_per_second,
    part: one.part_per_second, whole: of.units_per_second, expires: one.expires_ms,
  }))).sort((a, b) => b.demand - a.demand);
  keepRows(body, parts.slice(0, ROWS), (one) => `${one.id} ${one.rule}/${one.limit}`, makeRow, updateRow);
  say(note, `In units a second; ${count(proxies, "proxy").replace("proxys", "proxies")} with ${count(buckets, "bucket")}` +
    `${parts.length > ROWS ? `, of which ${ROWS} are here` : ""}.`);
}
