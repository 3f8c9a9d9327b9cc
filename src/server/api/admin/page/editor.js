// The editor of the rules: validate, see what differs from the active ones, replace.

import { request } from "/page/api.js";
import { count, element, find, say, visible } from "/page/dom.js";

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
}

// Puts the caret at a place of the text. Columns count characters.
function goTo(line, column) {
  const field = find("editor-text");
  const lines = field.value.split("\n");
  const before = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  const at = before + [...(lines[line - 1] ?? "")].slice(0, column - 1).join("").length;
  field.focus();
  field.setSelectionRange(at, at);
}

function showError(one) {
  const text = `${one.line}:${one.column}: ${visible(one.what)}; ${visible(one.expected)}`;
  const button = element("button", { type: "button", className: "error" }, text);
  button.addEventListener("click", () => goTo(one.line, one.column));
  return element("li", {}, button);
}

function showDifference({ change, rule, limit, key, old = "none", new: to = "none" }) {
  let text = rule ? `rule ${visible(rule)}` : "the order of the rules";
  if (limit) text += `, limit ${visible(limit)}`;
  if (key) text += `: ${visible(key)} ${visible(old)} → ${visible(to)}`;
  return element("li", { className: change }, `${SIGNS[change]} ${text}`);
}

const text = () => find("editor-text").value;

// What the server answers to a failed request: its errors by their place, or one message.
function showFailure(error) {
  allow(null);
  const errors = error.problem?.errors ?? [];
  if (error.status === 412) {
    return report("The active rules have changed since you opened them. Close the editor and open it again.", true);
  }
  report(errors.length ? `${count(errors.length, "error")}:` : visible(error.message), true);
  list(...errors.map(showError));
}

async function validate() {
  const checked = text();
  allow(null);
  report("…");
  list();
  try {
    const response = await request("/v1/rules/validate", { method: "POST", headers: YAML, body: checked });
    const { rules, limits, differences, more_differences: more } = await response.json();
    const what = `The rules are valid: ${count(rules, "rule")}, ${count(limits, "limit")}. `;
    const found = `${more ? "More than " : ""}${count(differences.length, "difference")} to the active rules`;
    report(what + (differences.length ? `${found}:` : "They mean the same as the active rules."));
    list(...differences.map(showDifference));
    if (text() === checked) allow(checked);
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
  find("editor-text").value = await (await readFile(files[0].name)).text();
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
    find("editor-text").readOnly = !isOne;
    find("editor-validate").hidden = find("editor-replace").hidden = !isOne;
    if (isOne) find("editor-text").value = await response.text();
    else await showFiles((await response.json()).files);
  } catch (error) {
    showFailure(error);
  }
}

find("editor-files").addEventListener("change", async () => {
  try {
    find("editor-text").value = await (await readFile(find("editor-files").value)).text();
  } catch (error) {
    showFailure(error);
  }
});
find("editor-text").addEventListener("input", () => allow(null));
find("editor-validate").addEventListener("click", validate);
find("editor-replace").addEventListener("click", () => {
  say(find("confirm-text"), find("editor-message").textContent.replace(/:$/, "."));
  find("confirm").showModal();
});
find("editor-close").addEventListener("click", () => find("editor").close());
find("confirm-yes").addEventListener("click", replace);
find("confirm-no").addEventListener("click", () => find("confirm").close());
