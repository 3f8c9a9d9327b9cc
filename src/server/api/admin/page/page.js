// The live page: follows the events of the server and shows them.

import { Failure, follow, read, token } from "/page/api.js";
import { showAlerts, showGone } from "/page/alerts.js";
import { showBudgets } from "/page/budgets.js";
import { drawRates, followPointer, keepTip } from "/page/charts.js";
import { age, amounts, count, digits, element, find, keepRows, rate, say, seconds, share, showPairs, visible } from "/page/dom.js";
import { openEditor } from "/page/editor.js";
import { openKey, useRules } from "/page/key.js";
import { chooseRule, showTopKeys } from "/page/keys.js";
import { onChoice, showRules } from "/page/rules.js";

const KEPT = 12; // events
const RECENT = 10; // events, for latencies
const COUNTS = ["asked", "denied", "would_deny", "failed"];
const RANGES = { "10m": { ms: 600_000, text: "10 minutes", every: 10_000 }, "1d": { ms: 86_400_000, text: "24 hours", every: 60_000 } };
const LONGEST_PAUSE = 10_000;

const events = []; // the latest, at most KEPT
let stream = new AbortController();
let lastAt = null; // when the server last sent an event
const charts = [find("chart-total"), find("chart-low")];

// --- rates of events ----------------------------------------------------------------------------

const asCounts = (of) => ({ ...of, asked: of.asked ?? of.requests });

// Returns the growth of `after` over `before` a second, or null if they cannot be compared: the
// server or its rules have started again in between.
function ratesOf(before, after, elapsed) {
  if (!before || !after || !(elapsed > 0)) return null;
  const [old, now] = [asCounts(before), asCounts(after)];
  const growth = COUNTS.map((of) => [of, (now[of] - old[of]) / elapsed]);
  return growth.some(([, value]) => value < 0) ? null : Object.fromEntries(growth);
}

// The counts of an event by rule, and by rule and limit.
function partsOf(event) {
  const parts = new Map();
  for (const rule of event.rules.busiest) {
    parts.set(rule.name, rule);
    for (const limit of rule.limits) parts.set(`${rule.name}\n${limit.name}`, limit);
  }
  return parts;
}

function withRates(event) {
  const before = events.at(-1);
  const same = before && before.rules.version === event.rules.version && before.uptime_s <= event.uptime_s;
  const elapsed = before ? (event.steady_ms - before.steady_ms) / 1000 : 0;
  event.parts = partsOf(event);
  event.totalRates = ratesOf(same && before.total, event.total, elapsed);
  event.rates = new Map([...event.parts].map(([name, of]) =>
    [name, ratesOf(same && before.parts.get(name), of, elapsed)]));
  return event;
}

// Returns the growth of the buckets of a front end in the last events.
function recentBuckets(name) {
  const bucketsIn = (event) => event.latency.find((of) => of.front_end === name)?.buckets;
  const last = events.at(-1);
  const first = events.at(-1 - Math.min(RECENT, events.length - 1));
  const before = bucketsIn(first) ?? [];
  const grown = (bucketsIn(last) ?? []).map((count, i) => count - (before[i] ?? 0));
  const elapsed = (last.steady_ms - first.steady_ms) / 1000;
  return grown.some((count) => count < 0) || !(elapsed > 0) ? null : { grown, elapsed };
}

// Bucket k has what took at most 2^k µs. Returns seconds, or null if the last bucket would have to say.
function quantile(buckets, part) {
  const wanted = part * buckets.reduce((sum, count) => sum + count, 0);
  let below = 0;
  for (let k = 0; k < buckets.length - 1; ++k) {
    if (buckets[k] > 0 && below + buckets[k] >= wanted) {
      const low = k === 0 ? 0 : 2 ** (k - 1);
      return (low + (2 ** k - low) * ((wanted - below) / buckets[k])) / 1e6;
    }
    below += buckets[k];
  }
  return null;
}

// --- the past, from the server --------------------------------------------------------------------

const view = { range: "10m", rule: null };
let past = null; // rates of what the chart shows
let table = null; // the latest answer for all rules
let askedAt = -Infinity;
let asking = 0; // the number of the latest question
let opened = null; // the permalink that was followed last
let missing = null; // its rule, if there is none

function ratesOfPast(history) {
  const of = history.total;
  const rates = COUNTS.filter((name) => of[name] || name === "asked" || name === "denied").map((name) =>
    [name, history.took_ms.map((took, i) => took ? ((of[name]?.[i] ?? 0) * 1000) / took : null)]);
  return { times: history.ends_ms, ...Object.fromEntries(rates) };
}

async function askPast() {
  const mine = ++asking;
  askedAt = performance.now();
  const query = `range=${view.range}`;
  try {
    const all = await read(`/v1/history?${query}`);
    const one = view.rule === null ? all : await read(`/v1/history?${query}&rule=${encodeURIComponent(view.rule)}`);
    if (mine !== asking) return;
    table = all;
    table.most = Math.max(1, ...all.rules.flatMap((rule) => rule.asked ?? []));
    past = ratesOfPast(one);
    useRules(all.rules);
    showPast();
    if (isShown("asked")) find("empty").hidden = true;
    showTable();
    showBudgets(all.rules, view.rule);
    openPermalink();
  } catch (error) {
    if (error.status !== 404 || view.rule === null) return;
    const gone = view.rule;
    choose(null);
    missing = gone;
  }
}

// Adds an event to what the chart shows, until the server is asked again.
function addToPast(event) {
  const rates = view.rule === null ? event.totalRates : event.rates.get(view.rule);
  if (!past || !rates || view.range !== "10m") return;
  const at = Date.parse(event.at);
  if (at <= (past.times.at(-1) ?? 0) + 500) return;
  past.times.push(at);
  const old = past.times.findIndex((time) => time > at - RANGES[view.range].ms - 5000);
  for (const name of COUNTS) {
    if (past[name] || rates[name] > 0) (past[name] ??= past.times.map(() => 0)).length = past.times.length - 1;
    past[name]?.push(rates[name]);
    past[name]?.splice(0, old);
  }
  past.times.splice(0, old);
}

const isShown = (name) => past?.[name]?.some((value) => value > 0);

function showPast() {
  if (!past) return;
  const range = RANGES[view.range];
  past.now = Math.max(past.times.at(-1) ?? 0, lastAt ?? Date.now());
  const most = drawRates(charts[0], past, ["asked", "denied"], range.ms);
  const isLow = 4 * Math.max(0, ...past.denied) < most;
  const low = COUNTS.slice(1).filter((name) => isShown(name) && (isLow || name !== "denied"));
  find("chart-low").hidden = find("chart-low-title").hidden = low.length === 0;
  if (low.length) drawRates(charts[1], past, low, range.ms);
  keepTip(low.length ? charts : charts.slice(0, 1));
  const titles = { asked: "asked", denied: "denied", would_deny: "shadow rules would deny", failed: "decided without the store" };
  keepRows(find("legend"), COUNTS.filter((name) => name === "asked" || name === "denied" || isShown(name)), (name) => name,
    (name) => element("li", {}, element("i", { className: name }), titles[name]), () => {});
  const whole = view.rule === null ? "all rules" : `rule ${visible(view.rule)}`;
  find("chart-total").setAttribute("aria-label", `Requests a second of ${whole} in the last ${range.text}, from 0 to ` +
    `${rate(most)}: now ${rate(past.asked.at(-1))}, of them denied ${rate(past.denied.at(-1))}. Left and right arrow keys read the values.`);
}

function showTable() {
  if (!table) return;
  showRules({ table, rates: events.at(-1)?.rates, chosen: view.rule, range: RANGES[view.range].text });
  find("all-rules").hidden = view.rule === null;
  say(find("chart-title"), view.rule === null ? "Requests a second" : `Requests a second of ${visible(view.rule)}`);
}

// --- the rest -------------------------------------------------------------------------------------

function showNumbers(event) {
  const rates = event.totalRates ?? {};
  for (const [id, of] of [["requests", "asked"], ["denied", "denied"], ["failed", "failed"], ["shadow", "would_deny"]]) {
    say(find(`rate-${id}`), rate(rates[of] ?? null));
    find(`rate-${id}`).classList.toggle("none", !(rates[of] > 0));
  }
  const sums = (name) => (table?.rules ?? []).reduce((sum, rule) => sum + (rule.sums[name] ?? 0), 0);
  find("card-failed").hidden = !(rates.failed > 0) && sums("failed") === 0;
  find("card-shadow").hidden = !table?.rules.some((rule) => rule.shadow);
  say(find("share-label"), `denied in ${RANGES[view.range].text}`);
  say(find("share-denied"), share(sums("denied"), sums("asked")));
  const reasons = Object.entries(event.reasons).map(([name, number]) => `${name} ${digits(number)}`);
  say(find("reasons"), reasons.length ? `Answers since these rules are active, by reason: ${reasons.join(", ")}.` : "");
}

function showSource({ rules }) {
  const sources = rules.sources.map(visible).join(", ");
  const more = rules.files > rules.sources.length ? `, … (${rules.files} files)` : "";
  say(find("rules-source"), `Version ${rules.version} from ${sources || "the built-in example"}${more}, ` +
    `active since ${new Date(rules.loaded_at).toLocaleString()}: ${count(rules.rules, "rule")}, ${count(rules.limits, "limit")}.`);
}

function showEmpty(event) {
  const none = event.total.requests === 0 && !isShown("asked");
  find("empty").hidden = !none;
  if (!none) return;
  const http = event.listeners.find((one) => one.name === "http")?.address ?? "off";
  find("empty").hidden = http === "off" || http.startsWith("unix");
  const address = http.replace(/^(0\.0\.0\.0|\[::\])/, location.hostname);
  say(find("empty-command"), `curl -i http://${address}/v1/check -d '{"attributes":{"method":"POST","path":"/login","ip":"203.0.113.9"}}'`);
}

function showLatency(event) {
  const rows = event.latency.map((of) => [of.front_end, recentBuckets(of.front_end)]);
  keepRows(find("latency"), rows, ([name]) => name,
    ([name]) => element("tr", {}, element("th", { scope: "row" }, name),
      ...amounts(4)),
    (row, [, recent]) => {
      const [, amount, ...quantiles] = row.children;
      const sum = recent ? recent.grown.reduce((all, one) => all + one, 0) : 0;
      say(amount, recent ? rate(sum / recent.elapsed) : "–");
      [0.5, 0.9, 0.99].forEach((part, i) => {
        const value = sum > 0 ? quantile(recent.grown, part) : null;
        say(quantiles[i], sum > 0 && value === null ? "> 1.05 s" : seconds(value));
      });
    });
}

const WORDS = {
  keys: "counters", max_keys: "room for counters", log_bytes: "bytes of exact logs", max_log_bytes: "room for exact logs, in bytes",
  evictions: "counters given up", swept: "expired counters removed", merged_logs: "logs made less exact",
  under_way: "requests to Redis not answered yet", requests: "requests to Redis", timeouts: "of them too late", errors: "of them failed",
  gave_back: "units given back, because another Redis denied", deny_cache_hits: "denied without asking Redis",
};

function showStore(event) {
  const { kind, at, warning, breaker_open: open, ...numbers } = event.store;
  // Without requests the breaker does not open.
  const gone = Boolean(open || event.outage);
  const where = kind === "memory" ? "In the memory of this server" : at ? `Redis at ${visible(at)}` : visible(kind);
  const state = find("store-state");
  say(state, where + (open === undefined ? "." : gone ? " does not answer." : ", which answers.")
    + (warning ? ` Warning: ${visible(warning)}.` : ""));
  state.classList.toggle("error", gone);
  showPairs(find("store"), Object.entries(numbers).map(([name, value]) =>
    [WORDS[name] ?? name.replaceAll("_", " "), digits(value)]));
  showPairs(find("listeners"), event.listeners.filter((one) => one.address !== "off").map((one) =>
    [one.name, `${one.address}, ${count(one.connections, "connection")}`]));
}

function show(event) {
  if (events.at(-1)?.rules.version !== event.rules.version) askedAt = -Infinity;
  events.push(withRates(event));
  if (events.length > KEPT) events.shift();
  lastAt = Date.parse(event.at);
  setState(event.draining ? "draining" : event.ready ? "live" : "not ready");
  say(find("server"), `${event.version}, up ${age(event.uptime_s)}, ${count(event.threads, "thread")}, ` +
    count(event.viewers + (events.length === 1 ? 1 : 0), "viewer"));
  find("live").hidden = find("find-key").hidden = find("edit-rules").hidden = false;
  find("login").hidden = true;
  find("sign-out").hidden = !token.get();
  document.body.classList.remove("gone");
  showAlerts(event, missing);
  if (document.hidden) return;
  if (performance.now() - askedAt > RANGES[view.range].every) askPast();
  addToPast(event);
  showPast();
  showNumbers(event);
  showSource(event);
  showTable();
  showEmpty(event);
  showLatency(event);
  showStore(event);
  showTopKeys();
  if (event.proxies) import("/page/quota.js").then((it) => it.showQuota());
}

// --- permalinks: #rule=NAME, #rule=NAME&limit=NAME&key=KEY -----------------------------------------

function choose(name) {
  if (location.hash.slice(1) !== hashOf(name)) history.replaceState(null, "", `#${hashOf(name)}`);
  opened = location.hash;
  missing = null;
  follows(name);
}

const hashOf = (rule) => (rule === null ? "" : new URLSearchParams({ rule }).toString());

function follows(name) {
  if (view.rule === name) return;
  view.rule = name;
  past = null;
  chooseRule(name);
  askPast();
}

function openPermalink() {
  if (!table || opened === location.hash) return;
  opened = location.hash;
  const link = new URLSearchParams(location.hash.slice(1));
  const known = (name) => table.rules.some((rule) => rule.name === name);
  const rule = known(link.get("rule")) ? link.get("rule") : null;
  missing = rule === null ? link.get("rule") : null;
  follows(rule);
  if (rule !== null && link.has("key")) openKey(rule, link.get("limit") ?? undefined, link.get("key"));
}

// --- connecting -----------------------------------------------------------------------------------

const setState = (text) => {
  say(find("state"), text);
  find("state").dataset.state = text;
};

function askForToken(message) {
  say(find("login-message"), message);
  setState("no token");
  find("live").hidden = find("find-key").hidden = find("edit-rules").hidden = true;
  find("login").hidden = false;
  find("token").value = "";
  find("token").focus();
}

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

function lose(why) {
  setState("gone");
  document.body.classList.add("gone");
  showGone(why, lastAt);
}

// Follows the events, connects again when the stream ends, and returns when a token is needed.
async function watch() {
  const mine = (stream = new AbortController());
  for (let wait = 1000; ; wait = Math.min(2 * wait, LONGEST_PAUSE)) {
    try {
      await follow("/v1/events", mine.signal, (event) => {
        wait = 1000;
        show(event);
      });
      lose("the server has ended the connection");
    } catch (error) {
      if (mine.signal.aborted) return;
      if (error instanceof Failure && error.status === 401) {
        const refused = token.get() !== "";
        token.forget();
        return askForToken(refused ? "The token is wrong: it is not the one that is configured." :
          "This server needs its admin token.");
      }
      lose(error instanceof Failure ? error.message : "the server does not answer");
    }
    await pause(wait);
  }
}

find("login").addEventListener("submit", (submitted) => {
  submitted.preventDefault();
  token.set(find("token").value.trim());
  setState("Connecting…");
  watch();
});
find("sign-out").onclick = () => {
  stream.abort();
  token.forget();
  askForToken("The token is forgotten.");
};
find("find-key").onclick = () => openKey(view.rule ?? undefined);
find("edit-rules").onclick = openEditor;
find("open-help").onclick = () => find("help").showModal();
find("help-close").onclick = () => find("help").close();
find("all-rules").onclick = () => choose(null);
onChoice(choose);
find("range").addEventListener("change", (changed) => {
  view.range = changed.target.value;
  past = null;
  askPast();
});
addEventListener("hashchange", openPermalink);
new ResizeObserver(showPast).observe(find("chart-total"));
followPointer(charts, (text) => say(find("said"), text));
watch();
