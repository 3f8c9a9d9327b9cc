// What is wrong, in bars at the top: an outage with its buttons, rules that are lost, a server that is gone.

import { read } from "/page/api.js";
import { age, button, clock, count, element, find, keepRows, say, visible } from "/page/dom.js";

const MOST_NAMES = 12;
const DOES = {
  allow: "let everything through",
  deny: "deny everything",
  local: "limit by this server's own counters",
};
const CHANGES = { Choose: null, "only watch (shadow)": { mode: "shadow" }, enforce: { mode: "enforce" } };
for (const does in DOES) CHANGES[DOES[does]] = { on_store_error: does };

const sinceText = (since) => {
  const seconds = Math.max(0, Math.round((Date.now() - Date.parse(since)) / 1000));
  return `since ${clock(Date.parse(since))} (${age(seconds)})`;
};

// "api, login and 3 more let everything through"
function doesTexts(rules) {
  return Object.keys(DOES).map((does) => {
    const names = rules.filter((rule) => rule.does === does).map((rule) => visible(rule.name));
    if (!names.length) return null;
    const more = names.length - MOST_NAMES;
    const listed = names.slice(0, MOST_NAMES).join(", ") + (more > 0 ? ` and ${more} more` : "");
    return { name: does, text: `${DOES[does][0].toUpperCase()}${DOES[does].slice(1)}: ${listed}` };
  }).filter(Boolean);
}

// The counters of overrides that are lost.
function lostTexts({ counters, count: all }) {
  const texts = counters.map(visible);
  if (all > texts.length) texts.push(`and ${all - texts.length} more`);
  return texts.map((text) => ({ name: text, text }));
}

// "Rule login: on_store_error deny until 2026-11-27 01:10:04"
function temporaryText({ rule, key, value, until, effective }) {
  const end = until ? new Date(until).toLocaleString("sv-SE") : "other rules are active";
  const effect = effective === false ? ", without effect on the active rules" : "";
  return `Rule ${visible(rule)}: ${key} ${value} until ${end}${effect}`;
}

function makeChange() {
  const rule = element("select", { ariaLabel: "Rule" });
  const what = element("select", { ariaLabel: "What it does" },
    ...Object.keys(CHANGES).map((text) => element("option", {}, text)));
  const said = element("span", { role: "status" });
  const change = async () => {
    say(said, "…");
    try {
      const body = JSON.stringify({ ...CHANGES[what.value], for: "1h" });
      await read(`/v1/rules/${encodeURIComponent(rule.value)}`, { method: "PATCH", body });
      const until = clock(Date.now() + 3600_000).slice(0, 5);
      say(said, `Rule ${visible(rule.value)} of this server: ${what.value} until ${until}.`);
    } catch (error) {
      say(said, visible(error.message));
    }
  };
  const start = button("Do it on this server for 1 hour", change);
  const fleet = element("code");
  const row = element("div", { className: "row" }, element("label", {}, "Rule ", rule), what, start, fleet, said);
  row.onchange = () => {
    const [change] = Object.entries(CHANGES[what.value] ?? {});
    start.disabled = !rule.value || !change;
    say(fleet, start.disabled ? "" :
      `on all: sluice rules set ${encodeURIComponent(rule.value)} ${change.join("=")} --for 1h --admin A --admin B`);
  };
  return row;
}

function makeBar(bar) {
  const made = element("div", { className: bar.mild ? "alert mild" : "alert", id: `alert-${bar.name}` },
    element("div", {}, element("strong", { role: "alert" }), " ", element("span")), element("ul"));
  if (bar.change) made.append(makeChange());
  return made;
}

function updateBar(made, bar) {
  say(made.querySelector("strong"), bar.title);
  say(made.querySelector("span"), bar.text);
  keepRows(made.querySelector("ul"), bar.list ?? [], (one) => one.name, () => element("li"),
    (row, one) => say(row, one.text));
  if (!bar.change) return;
  keepRows(made.querySelector("select"), ["", ...bar.change], (name) => name,
    (name) => element("option", { value: name }, visible(name) || "Choose"), () => {});
  made.querySelector(".row").onchange(); // the chosen rule may be gone
}

let bars = [];

function show() {
  keepRows(find("alerts"), bars, (bar) => bar.name, makeBar, updateBar);
  document.title = bars.some((bar) => !bar.mild) ? "⚠ Sluice" : "Sluice";
}

// Shows what an event says is wrong. `missing`: the rule of the address, if there is none.
export function showAlerts(event, missing) {
  bars = missing ? [{ name: "link", mild: true, title: `There is no rule ${visible(missing)}.`, text: "Only the address names it." }] : [];
  const { outage, full, slow, rules_lost: lost, rules_older: older, overrides_lost: gone, gateway_not_trusted: gateway, rules, temporary = [] } = event;
  if (!outage && event.store.breaker_open) {
    bars.push({ name: "outage", title: "The store fails.", text: "Each rule does what its on_store_error says." });
  }
  for (const [name, title, what, more = ""] of [
    ["outage", "The store fails.", outage, " Meanwhile:"],
    ["full", "The store is full.", full, " Meanwhile, for keys without a counter (new clients):"],
    ["slow", "The store is slow.", slow, " Meanwhile, without an answer in time:"],
    ["rules-lost", "The rules cannot be read.", lost, " The last rules stay active here; a server that starts now may have none."],
    ["rules-older", "The rules went back.", older],
    ["overrides-lost", `Overrides are lost (${gone?.count}).`, gone],
    ["gateway", "A gateway is not trusted.", gateway],
  ]) {
    if (!what) continue;
    const without = what.decided_without ? ` ${count(what.decided_without, "request")} decided without it.` : "";
    const text = `${visible(what.why)}, ${sinceText(what.since)}.${without}${more}`;
    const list = what.counters ? lostTexts(what) : doesTexts(what.rules ?? []);
    bars.push({ name, title, text, list, change: what.rules?.map((rule) => rule.name) });
  }
  const errors = rules.last_errors.filter((one) => one.what !== lost?.why);
  if (errors.length) {
    bars.push({
      name: "rules-errors", mild: true, title: "Rules were refused; the earlier rules stay active.", text: "",
      list: errors.map((one) =>
        ({ name: `${one.file}:${one.line}:${one.what}`, text: `${visible(one.file)}:${one.line}:${one.column}: ${visible(one.what)}` })),
    });
  }
  if (temporary.length) {
    bars.push({
      name: "temporary", mild: true, title: "Rules are changed for a time.", text: "On this server:",
      list: temporary.map((one) => ({ name: `${one.rule} ${one.key}`, text: temporaryText(one) })),
    });
  }
  if (event.draining) bars.push({ name: "draining", mild: true, title: "This server is ending.", text: "It takes no new connections." });
  show();
}

// Shows that the server does not answer; `at` is when it last did.
export function showGone(why, at) {
  bars = [{
    name: "gone", title: `${why[0].toUpperCase()}${why.slice(1)}.`,
    text: `${at ? `Everything below is as of ${clock(at)}. ` : ""}Trying again.`,
  }, ...bars.filter((bar) => bar.name !== "gone")];
  show();
}
