// The editor of the rules: check them, see what differs from the active ones and what the last
// requests would have met, make them active.

import { request } from "/page/api.js";
import { age, button, clock, count, digits, element, find, say, visible } from "/page/dom.js";

const YAML = { "Content-Type": "application/yaml" };
const SIGNS = { added: "+", removed: "−", changed: "~" };

let tag = ""; // of the active rules that the editor has read
let valid = null; // the text that was validated last, and is valid

function report(text, isError = false) {
  say(find("editor-message"), text);
  find("editor-message").classList.toggle("error", isError);
}

function list(...items) {
  find("editor-list").replaceChildren(...items);
}

function allow(text) {
  valid = text;
  find("editor-replace").disabled = text === null;
  if (text === null) find("editor-replay").hidden = true;
}

// --- numbers of lines, and errors at their lines ------------------------------------------------

const field = find("editor-text");
let wrong = []; // the errors that are shown

function moveMargins() {
  find("editor-lines").scrollTop = field.scrollTop;
  find("editor-marks").style.transform = `translate(${-field.scrollLeft}px, ${-field.scrollTop}px)`;
}

function showLines() {
  const lines = field.value.split("\n");
  const bad = new Set(wrong.map((one) => one.line));
  find("editor-lines").replaceChildren(...lines.flatMap((_, i) =>
    [bad.has(i + 1) ? element("span", { className: "wrong" }, String(i + 1)) : String(i + 1), "\n"]), "\n\n");
  const { lineHeight, paddingTop, paddingLeft } = getComputedStyle(field);
  find("editor-marks").replaceChildren(...wrong.filter((one) => one.line > 0).map((one) => {
    const mark = element("p", {}, `← ${visible(one.what)}`);
    mark.style.top = `${parseFloat(paddingTop) + (one.line - 1) * parseFloat(lineHeight)}px`;
    mark.style.paddingLeft = `calc(${paddingLeft} + ${(lines[one.line - 1] ?? "").length + 2}ch)`;
    return mark;
  }));
  moveMargins();
}

function setText(text) {
  field.value = text;
  mark([]);
}

function mark(errors, className = "") {
  wrong = errors;
  field.parentElement.parentElement.className = `code ${className}`;
  showLines();
}

// Puts the caret at a place of the text. Columns count characters.
function goTo(line, column) {
  const lines = field.value.split("\n");
  const before = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  const at = before + [...(lines[line - 1] ?? "")].slice(0, column - 1).join("").length;
  field.focus();
  field.setSelectionRange(at, at);
  field.scrollTop = Math.max(0, (line - 5) * parseFloat(getComputedStyle(field).lineHeight));
}

function showError(one, className = "error") {
  const text = `${one.line}:${one.column}: ${visible(one.what)}; ${visible(one.expected)}`;
  return element("li", {}, button(text, () => goTo(one.line, one.column), { className }));
}

function showDifference({ change, rule, limit, key, old = "none", new: to = "none" }) {
  let text = rule ? `rule ${visible(rule)}` : "the order of the rules";
  if (limit) text += `, limit ${visible(limit)}`;
  if (key) text += `: ${visible(key)} ${visible(old)} → ${visible(to)}`;
  return element("li", { className: change }, `${SIGNS[change]} ${text}`);
}

// What the last requests would have met: { requests, since, until, share, active, next, limits }.
function showReplay(of) {
  find("editor-replay").hidden = !of;
  if (!of) return "";
  let text = "No request has arrived since somebody looks at this page, so nothing can be replayed yet.";
  if (of.requests) {
    const [since, until] = [of.since, of.until].map(Date.parse);
    text = `Of the last ${count(of.requests, "request")} (${age(Math.round((until - since) / 1000))} until ${clock(until)}` +
      `${of.share < 100 ? `, of ${of.share} % of the clients` : ""}) the active rules deny ${digits(of.active)}, ` +
      `the new ones ${digits(of.next)}.`;
  }
  say(find("replay-text"), text);
  find("replay-limits").replaceChildren(...(of.limits ?? []).map((one) => element("tr", {},
    element("th", { scope: "row" }, [one.rule || "(no rule)", one.limit].filter(Boolean).map(visible).join(" / ") + (one.shadow ? " (shadow)" : "")),
    ...[one.active, one.next, one.keys].map((value) => element("td", { className: "amount" }, digits(value))))));
  find("replay-limits").parentElement.hidden = !of.limits?.length;
  say(find("replay-note"), "Both begin with empty counters." + (of.unknown?.length ?
    ` The requests were kept without ${of.unknown.map(visible).join(", ")}, which the active rules do not read; limits that need it were skipped.` : ""));
  return text;
}

const text = () => field.value;

// What the server answers to a failed request: its errors by their place, or one message.
function showFailure(error) {
  allow(null);
  const errors = error.problem?.errors ?? [];
  if (error.status === 412) {
    return report("The active rules have changed since you opened them. Close the editor and open it again.", true);
  }
  report(errors.length ? `${count(errors.length, "error")}:` : visible(error.message), true);
  mark(errors);
  list(...errors.map((one) => showError(one)));
}

async function validate() {
  const checked = text();
  allow(null);
  report("…");
  list();
  mark([]);
  try {
    const response = await request("/v1/rules/validate", { method: "POST", headers: YAML, body: checked });
    const { rules, limits, differences, more_differences: more, replayed, warnings = [] } = await response.json();
    const what = `The rules are valid: ${count(rules, "rule")}, ${count(limits, "limit")}. `;
    const found = `${more ? "More than " : ""}${count(differences.length, "difference")} to the active rules`;
    report(what + (differences.length ? `${found}:` : "They mean the same as the active rules."));
    list(...differences.map(showDifference), ...warnings.map((one) => showError(one, "trial")));
    if (text() !== checked) return;
    allow(checked);
    mark(warnings, "mild");
    say(find("confirm-replay"), showReplay(replayed));
  } catch (error) {
    showFailure(error);
  }
}

async function replace() {
  find("confirm").close();
  try {
    const headers = { ...YAML, "If-Match": tag };
    const response = await request("/v1/rules", { method: "PUT", headers, body: valid });
    tag = response.headers.get("ETag");
    const { version } = await response.json();
    allow(null);
    list();
    report(`The rules are active as version ${version}.`);
  } catch (error) {
    showFailure(error);
  }
}

async function readFile(name) {
  const query = name === undefined ? "" : `?${new URLSearchParams({ file: name })}`;
  return request(`/v1/rules${query}`);
}

// Rules in several files can be read here, but not changed: a PUT would replace them all.
async function showFiles(files) {
  find("editor-files").replaceChildren(
    ...files.map(({ name }) => element("option", { value: name }, visible(name))));
  setText(await (await readFile(files[0].name)).text());
  report(`The rules are in ${files.length} files. Change the files; Sluice reads them again.`);
}

export async function openEditor() {
  allow(null);
  list();
  report("");
  find("editor").showModal();
  try {
    const response = await readFile();
    tag = response.headers.get("ETag");
    const isOne = response.headers.get("Content-Type").startsWith("application/yaml");
    find("editor-file").hidden = isOne;
    field.readOnly = !isOne;
    find("editor-validate").hidden = find("editor-replace").hidden = !isOne;
    if (isOne) setText(await response.text());
    else await showFiles((await response.json()).files);
  } catch (error) {
    showFailure(error);
  }
}

find("editor-files").addEventListener("change", async () => {
  try {
    setText(await (await readFile(find("editor-files").value)).text());
  } catch (error) {
    showFailure(error);
  }
});
field.addEventListener("input", () => {
  allow(null);
  mark([]);
});
field.addEventListener("scroll", moveMargins, { passive: true });
find("editor-validate").onclick = validate;
find("editor-replace").onclick = () => {
  say(find("confirm-text"), find("editor-message").textContent.replace(/:$/, "."));
  find("confirm").showModal();
};
find("editor-close").onclick = () => find("editor").close();
find("confirm-yes").onclick = replace;
find("confirm-no").onclick = () => find("confirm").close();
