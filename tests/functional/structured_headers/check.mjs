// Reads response fields, one per line, as {"name":"RateLimit","value":"...","policies":["..."]}, and
// prints each parsed field: [{"name":"...","r":9,"t":1}]. Exits with 1 at the first field that is not
// a list of strings with the parameters of draft-ietf-httpapi-ratelimit-headers-11, or that has other
// policies than those given.
import { createInterface } from "node:readline";
import { parseList } from "structured-headers";

const isAtLeast = (least) => (value) => Number.isSafeInteger(value) && value >= least;
const isBytes = (value) => value instanceof ArrayBuffer || ArrayBuffer.isView(value);
const UNITS = ["requests", "content-bytes", "concurrent-requests"];
const FIELDS = {
  "ratelimit-policy": {
    required: { q: isAtLeast(0) },
    optional: { qu: (value) => UNITS.includes(value), w: isAtLeast(1), pk: isBytes },
  },
  "ratelimit": { required: { r: isAtLeast(0) }, optional: { t: isAtLeast(0), pk: isBytes } },
};

function read({ name, value, policies }) {
  const field = FIELDS[name.toLowerCase()];
  if (!field) throw new Error("not a field of these");
  const known = { ...field.required, ...field.optional };
  const items = parseList(value).map(([text, parameters]) => {
    if (typeof text !== "string") throw new Error(`an item is no string but ${typeof text}`);
    for (const key of Object.keys(field.required)) {
      if (!parameters.has(key)) throw new Error(`lacks ${key}`);
    }
    for (const [key, value] of parameters) {
      if (!known[key]) throw new Error(`has ${key}, which the draft does not define`);
      if (!known[key](value)) throw new Error(`${key} is ${value}`);
    }
    return { name: text, ...Object.fromEntries(parameters) };
  });
  const names = items.map((item) => item.name);
  if (names.length === 0) throw new Error("the list is empty");
  if (new Set(names).size < names.length) throw new Error(`a name is repeated: ${names}`);
  if (policies && names.join("\n") !== policies.join("\n")) {
    throw new Error(`names ${JSON.stringify(names)}, not ${JSON.stringify(policies)}`);
  }
  return items;
}

for await (const line of createInterface({ input: process.stdin })) {
  try {
    console.log(JSON.stringify(read(JSON.parse(line))));
  } catch (error) {
    console.error(`${line}: ${error.message}`);
    process.exit(1);
  }
}
