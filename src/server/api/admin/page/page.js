// The live page: follows the events of the server and shows them.

import { Failure, follow, token } from "/page/api.js";
import { drawLines } from "/page/charts.js";
import { age, count, element, find, keepRows, rate, say, seconds, visible } from "/page/dom.js";
import { openEditor } from "/page/editor.js";
import { openKey, useRules } from "/page/key.js";
import { showTopKeys } from "/page/keys.js";

const KEPT = 121; // events, for two minutes
const RECENT = 10; // events, for latencies
const COUNTS = ["requests", "denied", "would_deny"];
const LONGEST_PAUSE = 10_000;

const events = []; // the latest, at most KEPT
let stream = new AbortController();

// --- rates ------------------------------------------------------------------------------------

// Returns the growth of `after` over `before` a second, or null if they cannot be compared: the
// server or its rules have started again in between.
function ratesOf(before, after, elapsed) {
  if (!before || !after || !(elapsed > 0)) return Object.fromEntries(COUNTS.map((of) => [of, null]));
  const growth = COUNTS.map((of) => [of, (after[of] - before[of]) / elapsed]);
  return Object.fromEntries(growth.map(([of, value]) => [of, value >= 0 ? value : null]));
}

function withRates(event) {
  const before = events.at(-1);
  const same = before && before.rules.version === event.rules.version &&
    before.uptime_s <= event.uptime_s;
  const elapsed = before ? (event.steady_ms - before.steady_ms) / 1000 : 0;
  const known = new Map(before?.rules.busiest.map((rule) => [rule.name, rule]) ?? []);
  event.totalRates = ratesOf(same && before.total, event.total, elapsed);
  event.ruleRates = new Map(event.rules.busiest.map((rule) =>
    [rule.name, ratesOf(same && known.get(rule.name), rule, elapsed)]));
  return event;
}

// Returns the values of a rate in all kept events; of one rule, or of all.
function history(of, rule) {
  return events.map((event) =>
    (rule === undefined ? event.totalRates : event.ruleRates.get(rule))?.[of] ?? null);
}

// Returns the growth of the buckets of a front end in the last events.
function recentBuckets(name) {
  const bucketsIn = (event) => event.latency.find((of) => of.front_end === name)?.buckets;
  const last = events.at(-1);
  const first = events.at(-1 - Math.min(RECENT, events.length - 1));
  const after = bucketsIn(last) ?? [];
  const before = bucketsIn(first) ?? [];
  const grown = after.map((count, i) => count - (before[i] ?? 0));
  const elapsed = (last.steady_ms - first.steady_ms) / 1000;
  return grown.some((count) => count < 0) || !(elapsed > 0) ? null : { grown, elapsed };
}

// Bucket k has what took at most 2^k µs. Returns seconds, or null if the last bucket would have to say.
function quantile(buckets, share) {
  const wanted = share * buckets.reduce((sum, count) => sum + count, 0);
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

// --- showing ----------------------------------------------------------------------------------

function showRequests(event) {
  const { requests, denied, would_deny: shadow } = event.totalRates;
  say(find("rate-requests"), rate(requests));
  say(find("rate-denied"), rate(denied));
  say(find("rate-shadow"), rate(shadow));
  const lines = Object.fromEntries(COUNTS.map((of) => [of, history(of)]));
  const most = drawLines(find("chart-total"), lines, KEPT - 1, "total");
  const label = `Requests a second in the last two minutes, from 0 to ${most}: ` +
    `now ${rate(requests)}, of them denied ${rate(denied)}`;
  find("chart-total").setAttribute("aria-label", label);
  const reasons = Object.entries(event.reasons).map(([name, count]) => `${name} ${count.toLocaleString("en")}`);
  say(find("reasons"), `The upper line is ${most.toLocaleString("en")} a second. ` +
    (reasons.length ? `Answers with these rules: ${reasons.join(", ")}.` : "No request yet."));
}

function makeRule(rule) {
  const name = element("th", { scope: "row" }, visible(rule.name));
  if (rule.shadow) name.append(" ", element("span", { className: "badge shadow" }, "shadow"));
  const chart = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  chart.setAttribute("class", "small");
  chart.setAttribute("aria-hidden", "true");
  const amounts = COUNTS.map(() => element("td", { className: "amount" }));
  return element("tr", {}, name, element("td", { className: "optional" }, chart), ...amounts);
}

function updateRule(row, rule, rates) {
  const [, chart, ...amounts] = row.children;
  COUNTS.forEach((of, i) => {
    const shown = of === "would_deny" && !rule.shadow ? "" : rate(rates[of]);
    say(amounts[i], shown);
    amounts[i].classList.toggle(of === "would_deny" ? "shadow" : "denied", of !== "requests" && rates[of] > 0);
  });
  const names = rule.shadow ? ["requests", "would_deny"] : ["requests", "denied"];
  const lines = Object.fromEntries(names.map((of) => [of, history(of, rule.name)]));
  drawLines(chart.firstChild, lines, KEPT - 1);
}

function showRules(event) {
  const { rules } = event;
  const sources = rules.sources.map(visible).join(", ");
  const more = rules.files > rules.sources.length ? `, … (${rules.files} files)` : "";
  say(find("rules-source"), `Version ${rules.version} from ${sources || "built-in rules"}${more}, ` +
    `active since ${new Date(rules.loaded_at).toLocaleString()}: ` +
    `${count(rules.rules, "rule")}, ${count(rules.limits, "limit")}.`);
  const errors = rules.last_errors.map((one) =>
    `${visible(one.file)}:${one.line}:${one.column}: ${visible(one.what)}`);
  find("rules-errors").hidden = errors.length === 0;
  say(find("rules-errors"), `The files have errors, so earlier rules stay active: ${errors.join("; ")}`);
  keepRows(find("rules"), rules.busiest, (rule) => `${rule.shadow} ${rule.name}`, makeRule,
    (row, rule) => updateRule(row, rule, event.ruleRates.get(rule.name)));
  const hidden = rules.rules - rules.busiest.length;
  say(find("rules-more"), hidden > 0 ? `${hidden} less busy rules are not shown.` : "");
}

function showLatency(event) {
  const rows = event.latency.map((of) => [of.front_end, recentBuckets(of.front_end)]);
  keepRows(find("latency"), rows, ([name]) => name,
    ([name]) => element("tr", {}, element("th", { scope: "row" }, name),
      ...[0, 1, 2, 3].map(() => element("td", { className: "amount" }))),
    (row, [, recent]) => {
      const [, count, ...quantiles] = row.children;
      const sum = recent ? recent.grown.reduce((all, one) => all + one, 0) : 0;
      say(count, recent ? rate(sum / recent.elapsed) : "–");
      [0.5, 0.9, 0.99].forEach((share, i) => {
        const value = sum > 0 ? quantile(recent.grown, share) : null;
        say(quantiles[i], sum > 0 && value === null ? "> 1.05 s" : seconds(value));
      });
    });
}

function showPairs(list, pairs) {
  keepRows(list, pairs.flatMap(([name, value]) => [["dt", name, name], ["dd", `${name} `, value]]),
    ([, name]) => name, ([tag]) => element(tag), (node, [, , text]) => say(node, text));
}

const WORDS = {
  keys: "counters", max_keys: "most counters", under_way: "requests under way",
  gave_back: "undone over slots", deny_cache_hits: "denied by the deny cache",
};

function showStore(event) {
  const { kind, at, breaker_open: open, ...numbers } = event.store;
  const where = at ? `${kind} at ${visible(at)}` : kind;
  const health = open === undefined ? "" :
    open ? ": the circuit breaker is open; failure policies decide" : ": answers (circuit breaker closed)";
  say(find("store-state"), where + health);
  find("store-state").classList.toggle("error", Boolean(open));
  showPairs(find("store"), Object.entries(numbers).map(([name, value]) =>
    [WORDS[name] ?? name.replaceAll("_", " "), value.toLocaleString("en")]));
  showPairs(find("listeners"), event.listeners.map((one) =>
    [one.name, one.address === "off" ? "off" : `${one.address}, ${count(one.connections, "connection")}`]));
}

function show(event) {
  events.push(withRates(event));
  if (events.length > KEPT) events.shift();
  setState(event.draining ? "draining" : event.ready ? "live" : "not ready");
  say(find("server"), `${event.version}, up ${age(event.uptime_s)}, ${count(event.threads, "thread")}, ` +
    count(event.viewers + (events.length === 1 ? 1 : 0), "viewer"));
  find("live").hidden = false;
  find("login").hidden = true;
  find("sign-out").hidden = !token.get();
  showRequests(event);
  showRules(event);
  showLatency(event);
  showStore(event);
  showTopKeys();
  useRules(event.rules.busiest);
}

// --- connecting -------------------------------------------------------------------------------

const setState = (text) => {
  say(find("state"), text);
  find("state").dataset.state = text;
};

function askForToken(message) {
  say(find("login-message"), message);
  setState("no token");
  find("live").hidden = true;
  find("login").hidden = false;
  find("token").value = "";
  find("token").focus();
}

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

// Follows the events, connects again when the stream ends, and returns when a token is needed.
async function watch() {
  const mine = (stream = new AbortController());
  for (let wait = 1000; ; wait = Math.min(2 * wait, LONGEST_PAUSE)) {
    try {
      await follow("/v1/events", mine.signal, (event) => {
        wait = 1000;
        show(event);
      });
      setState("the stream has ended; connecting again");
    } catch (error) {
      if (mine.signal.aborted) return;
      if (error instanceof Failure && error.status === 401) {
        const refused = token.get() !== "";
        token.forget();
        return askForToken(refused ? "The token is wrong: it is not the one that is configured." :
          "This server needs the token of its administration.");
      }
      setState(`${error.message}; trying again`);
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
find("find-key").addEventListener("click", () => openKey());
find("edit-rules").addEventListener("click", openEditor);
find("sign-out").addEventListener("click", () => {
  stream.abort();
  token.forget();
  askForToken("The token is forgotten.");
});
watch();
