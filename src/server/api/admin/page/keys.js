// The top keys of the limits.

import { openKey } from "/page/key.js";
import { read } from "/page/api.js";
import { element, find, keepRows, say, visible } from "/page/dom.js";

const EVERY_MS = 3000;
let asked = -EVERY_MS; // when the server was asked last
let busy = false;
let counted = true; // whether the server counts keys

function makeLimit(limit) {
  const head = element("tr", {}, element("th", { scope: "col" }, "key"),
    element("th", { scope: "col", className: "amount" }, "requests"),
    element("th", { scope: "col" }, element("span", { className: "unseen" }, "action")));
  return element("div", {}, element("h3", {}, `${limit.rule === "" ? "(no rule)" : visible(limit.rule)} / ${visible(limit.limit)}`),
    element("table", {}, element("thead", {}, head), element("tbody")));
}

// Hashes, the beginning of a long key, and a key whose bytes are not UTF-8 do not name it. A key
// without a rule cannot be looked up.
function makeKey(limit, key, hashed) {
  const more = (key.cut ? "…" : "") + (key.not_utf8 ? " (not UTF-8)" : "");
  const text = key.key === "" ? "(all requests)" : visible(key.key) + more;
  const action = element("td", { className: "amount" });
  if (!hashed && !key.cut && !key.not_utf8 && limit.rule !== "") {
    const open = element("button", { type: "button", ariaLabel: `Open ${text}` }, "Open");
    open.addEventListener("click", () => openKey(limit.rule, limit.limit, key.key));
    action.append(open);
  }
  return element("tr", {}, element("td", { className: "key" }, text),
    element("td", { className: "amount" }), action);
}

function showLimits(top) {
  const used = top.limits.filter((limit) => limit.keys.length > 0);
  keepRows(find("top-limits"), used, (limit) => `${limit.rule}/${limit.limit}`, makeLimit,
    (box, limit) => keepRows(box.querySelector("tbody"), limit.keys, (key) => `${top.hashed} ${key.not_utf8} ${key.key}`,
      (key) => makeKey(limit, key, top.hashed),
      (row, key) => {
        const between = key.error > 0 ? ` (at most ${key.error} too many)` : "";
        say(row.children[1], key.count.toLocaleString("en") + between);
      }));
  say(find("top-note"), (used.length ? "" : "None. ") +
    (top.hashed ? "Keys are shown as hashes, as in the log (log.keys: hash)." : ""));
}

async function ask() {
  const query = new URLSearchParams({ by: find("top-by").value, over: find("top-over").value, n: 10 });
  try {
    showLimits(await read(`/v1/top?${query}`));
    find("top").hidden = false;
  } catch (error) {
    counted = error.status !== 404;
    find("top").hidden = !counted;
  }
}

// Asks for the top keys every few seconds, while there are events.
export async function showTopKeys() {
  if (busy || !counted || performance.now() - asked < EVERY_MS) return;
  busy = true;
  await ask();
  asked = performance.now();
  busy = false;
}

for (const id of ["top-by", "top-over"]) find(id).addEventListener("change", ask);
