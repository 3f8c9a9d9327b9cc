// Reads response fields, one per line, as {"name":"RateLimit","value":"...","policies":["..."]}, and
// prints each parsed field: [{"name":"...","r":9,"t":1}]. Exits with 1 at the first field that is not
// a list of strings with the expected parameters, or that has other policies than those given.
import { createInterface } from "node:readline";
import { parseList } from "structured-headers";

const PARAMETERS = {
  "ratelimit-policy": { q: 0, w: 1 }, // and the minimum of each
  "ratelimit": { r: 0, t: 0 },
};

function read({ name, value, policies }) {
  const expected = PARAMETERS[name.toLowerCase()];
  if (!expected) throw new Error("not a field of these");
  const items = parseList(value).map(([text, parameters]) => {
    if (typeof text !== "string") throw new Error(`an item is no string but ${typeof text}`);
    const names = [...parameters.keys()];
    if (names.join() !== Object.keys(expected).join()) throw new Error(`has ${names}`);
    for (const [key, least] of Object.entries(expected)) {
      const number = parameters.get(key);
      if (!Number.isSafeInteger(number) || number < least) throw new Error(`${key} is ${number}`);
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
