// Requests to the administration, with the token that the user has entered.

const STORED = "sluice-token";
const MOST_BUFFERED = 4 << 20;

export const token = {
  get: () => sessionStorage.getItem(STORED) ?? "",
  set: (value) => sessionStorage.setItem(STORED, value),
  forget: () => sessionStorage.removeItem(STORED),
};

// A response with an error status, or none: status 0.
export class Failure extends Error {
  constructor(status, detail, problem = null) {
    super(detail);
    this.status = status;
    this.problem = problem;
  }
}

async function failureOf(response) {
  const text = await response.text();
  try {
    const problem = JSON.parse(text);
    return new Failure(response.status, problem.detail ?? problem.title, problem);
  } catch {
    return new Failure(response.status, `the server answered ${response.status}`);
  }
}

// Returns the response. Throws a Failure if its status says so, or if there is none.
export async function request(target, options = {}) {
  const headers = { ...options.headers };
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  let response;
  try {
    response = await fetch(target, { ...options, headers, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure(0, "the server does not answer");
  }
  if (!response.ok) throw await failureOf(response);
  return response;
}

export const read = async (target, options) => (await request(target, options)).json();

// Calls `each` with the events of a stream until it ends. EventSource could not send the token.
export async function follow(target, signal, each) {
  const response = await request(target, { signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffered = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    buffered += value;
    const parts = buffered.split("\n\n");
    buffered = parts.pop();
    if (buffered.length > MOST_BUFFERED) throw new Failure(0, "an event of the server has no end");
    for (const part of parts) {
      if (part.startsWith("data: ")) each(JSON.parse(part.slice("data: ".length)));
    }
  }
}
