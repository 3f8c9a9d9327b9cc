// The dialog of one key: look, reset, block, override.

import { read } from "/page/api.js";
import { element, find, say, visible } from "/page/dom.js";

let rules = []; // as the server lists them

export function useRules(latest) {
  rules = latest;
}

// --- the attributes of a key ------------------------------------------------------------------

const ESCAPED = /[.*+?^${}()|[\]\\]/g;

// Returns the parts of a template such as "a-{header.x-user|ip/64}": {text} or {names}.
export function partsOf(template) {
  const parts = [];
  for (const [whole, inner] of template.matchAll(/\{\{|\}\}|\{([^}]*)\}|[^{}]+/g)) {
    if (inner === undefined) parts.push({ text: whole === "{{" || whole === "}}" ? whole[0] : whole });
    else parts.push({ names: inner.split("|").map((name) => name.replace(/\/\d+$/, "")) });
  }
  return parts;
}

// Returns the values of the attributes in a key that people read, as far as they can be told apart.
export function valuesIn(key, parts) {
  const pattern = parts.map((part) => part.names ? "(.+?)" : part.text.replace(ESCAPED, "\\$&"));
  const found = new RegExp(`^${pattern.join("")}$`, "su").exec(key);
  return found ? found.slice(1).map((value) => value.replace(/^([0-9a-f:.]+)\/\d+$/i, "$1")) : [];
}

const chosenRule = () => rules.find((rule) => rule.name === find("key-rule").value);
const chosenLimit = () => chosenRule()?.limits.find((limit) => limit.name === find("key-limit").value);

// Returns an address as gateways write it.
function canonical(text) {
  if (!URL.canParse(`http://[${text}]`)) return text;
  const address = new URL(`http://[${text}]`).hostname.slice(1, -1);
  const mapped = /^::ffff:(\w+):(\w+)$/.exec(address);
  return mapped ? new URL(`http://0x${mapped[1]}${mapped[2].padStart(4, "0")}`).hostname : address;
}

function makeAttribute(names, value) {
  const input = element("input", { value, spellcheck: false, required: true });
  const name = names.length > 1 ?
    element("select", { ariaLabel: "Attribute" }, ...names.map((one) => element("option", { value: one }, visible(one)))) :
    element("span", { value: names[0] }, visible(names[0]));
  input.onchange = () => {
    if (name.value === "ip") input.value = canonical(input.value);
  };
  const row = element("label", { className: "attribute" }, name, " ", input);
  row.attribute = () => [name.value, input.value];
  return row;
}

function showAttributes(key = "") {
  const limit = chosenLimit();
  const parts = limit ? partsOf(limit.key) : [];
  const values = valuesIn(key, parts);
  const rows = parts.filter((part) => part.names).map(({ names }, i) => makeAttribute(names, values[i] ?? ""));
  find("key-attributes").replaceChildren(...rows);
}

const attributes = () => [...find("key-attributes").children].map((row) => row.attribute());

function fillSelect(select, names, chosen) {
  select.replaceChildren(...names.map((name) => element("option", { value: name }, visible(name))));
  if (names.includes(chosen)) select.value = chosen;
}

function showLimits(limit) {
  fillSelect(find("key-limit"), (chosenRule()?.limits ?? []).map((one) => one.name), limit);
}

// --- requests ---------------------------------------------------------------------------------

function query(more = {}) {
  const all = new URLSearchParams({ rule: find("key-rule").value, limit: find("key-limit").value, ...more });
  for (const [name, value] of attributes()) all.append(`attribute.${name}`, value);
  return all;
}

function overrideTarget() {
  const place = [find("key-rule").value, find("key-limit").value].map(encodeURIComponent).join("/");
  const named = new URLSearchParams(attributes().map(([name, value]) => [`attribute.${name}`, value]));
  return { place: `/v1/overrides/${place}`, named };
}

function overrideBody() {
  const kind = find("key-kind").value;
  const body = { attributes: Object.fromEntries(attributes()) };
  if (kind === "limit") {
    body.limit = Number(find("key-units").value);
    if (find("key-per").value.trim()) body.per = find("key-per").value.trim();
    if (find("key-burst").value) body.burst = Number(find("key-burst").value);
  } else {
    body[kind] = true;
  }
  const hours = Number(find("key-until").value);
  if (hours > 0) body.until = new Date(Date.now() + hours * 3600_000).toISOString();
  return JSON.stringify(body);
}

const UNITS = { reset_after_ms: "fully replenished after", blocked_for_ms: "blocked for", retry_after_ms: "passes again after" };
const NAMES = { ...UNITS, name: "limit", numbers: "its numbers", limit: "units", override: "its own limit" };
const listed = (value) => Object.entries(value).map(([name, one]) => `${name} ${visible(one)}`).join(", ");

function showCounters(answer) {
  const values = attributes().map(([, value]) => value);
  const key = partsOf(chosenLimit().key).map((part) => part.text ?? values.shift()).join("");
  find("key-link").href = `#${new URLSearchParams({ rule: find("key-rule").value, limit: find("key-limit").value, key })}`;
  const limits = answer.limits.filter((limit) => limit.name === find("key-limit").value);
  const pairs = limits.flatMap((limit) => Object.entries(limit)).map(([name, value]) =>
    [NAMES[name] ?? name.replaceAll("_", " "),
      name in UNITS ? `${value / 1000} s` : typeof value === "object" ? listed(value) : visible(value)]);
  find("key-result").replaceChildren(...pairs.flatMap(([name, value]) =>
    [element("dt", {}, name), element("dd", {}, value)]));
}

// Shows the counter as it is now, with its own limit if it has one.
const look = async () => showCounters(await read(`/v1/keys?${query()}`));

// Does something, then shows the key and `done`. Errors are shown.
async function act(done, action) {
  if (!find("key-form").reportValidity()) return;
  say(find("key-message"), "…");
  find("key-message").classList.remove("error");
  try {
    await action();
    await look();
    say(find("key-message"), done);
  } catch (error) {
    find("key-message").classList.add("error");
    say(find("key-message"), visible(error.message));
  }
}

const call = (method, target, body) => read(target, { method, body });

find("key-form").addEventListener("submit", (submitted) => {
  submitted.preventDefault();
  act("", () => {});
});
find("key-reset").onclick = () =>
  act("The counter is reset.", () => call("DELETE", `/v1/keys?${query()}`));
find("key-start").onclick = () =>
  act("The key is blocked.", () => call("PUT", `/v1/blocks?${query({ for: find("key-for").value.trim() })}`));
find("key-end").onclick = () =>
  act("The key is not blocked any more.", () => call("DELETE", `/v1/blocks?${query()}`));
find("key-override").onclick = () =>
  act("The key has its own limit.", () => call("PUT", overrideTarget().place, overrideBody()));
find("key-restore").onclick = () => act("The key has the limit of the rule again.", () => {
  const { place, named } = overrideTarget();
  return call("DELETE", `${place}?${named}`);
});
find("key-kind").addEventListener("change", () => {
  find("key-numbers").hidden = find("key-kind").value !== "limit";
});
find("key-rule").addEventListener("change", () => {
  showLimits();
  showAttributes();
});
find("key-limit").addEventListener("change", () => showAttributes());
find("key-close").onclick = () => find("key").close();

// Opens the dialog, for a key of a limit or for any.
export function openKey(rule, limit, key) {
  fillSelect(find("key-rule"), rules.map((one) => one.name), rule);
  showLimits(limit);
  showAttributes(key);
  find("key-result").replaceChildren();
  say(find("key-message"), "");
  find("key").showModal();
  if (key !== undefined && find("key-form").checkValidity()) act("", () => {});
}
