// Calls the gRPC server at argv[2], and the server at argv[3], which does not answer in time, with
// the messages in the folder argv[4]. Prints the answers as one JSON object. Exits with 1 at the
// first unexpected error.
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

const [server, stuck, folder] = process.argv.slice(2);
const loaded = grpc.loadPackageDefinition(
  loader.loadSync(
    [
      "envoy/service/ratelimit/v3/rls.proto",
      "grpc/health/v1/health.proto",
      "grpc/reflection/v1/reflection.proto",
      "grpc/reflection/v1alpha/reflection.proto",
    ],
    { includeDirs: [folder], keepCase: true, enums: String, longs: Number, defaults: true },
  ),
);
const clients = [];
function client(Service, address = server) {
  const made = new Service(address, grpc.credentials.createInsecure());
  clients.push(made);
  return made;
}
const { RateLimitService } = loaded.envoy.service.ratelimit.v3;
const { Health } = loaded.grpc.health.v1;
const limits = client(RateLimitService);
const health = client(Health);

function within(milliseconds) {
  return { deadline: new Date(Date.now() + milliseconds) };
}
// Returns the answer of a call, or the number of its error.
function call(of, method, message, milliseconds = 5000) {
  return new Promise((resolve) => {
    of[method](message, within(milliseconds), (error, answer) =>
      resolve(error ? error.code : answer),
    );
  });
}
function ask(domain, ...keys) {
  const descriptors = keys.map((key) => ({ entries: [{ key, value: "node" }] }));
  return { domain, descriptors };
}
// Returns the first message of a stream and cancels the stream.
function first(stream) {
  return new Promise((resolve, reject) => {
    stream.once("data", (message) => {
      stream.on("error", () => {});
      stream.cancel();
      resolve(message);
    });
    stream.once("error", reject);
  });
}
async function services(version) {
  const { ServerReflection } = loaded.grpc.reflection[version];
  const stream = client(ServerReflection).serverReflectionInfo(within(5000));
  stream.write({ list_services: "" });
  const answer = await first(stream);
  return answer.list_services_response.service.map((service) => service.name).sort();
}

const out = { codes: [] };
for (let i = 0; i < 3; i++) {
  const answer = await call(limits, "shouldRateLimit", ask("shop", "user", "free", "none"));
  out.codes.push(answer.overall_code);
  const [user, free, none] = answer.statuses;
  out.status = {
    code: user.code,
    limit: user.current_limit.requests_per_unit,
    unit: user.current_limit.unit,
    name: user.current_limit.name,
    remaining: user.limit_remaining,
  };
  out.reset = user.duration_until_reset.seconds;
  out.free = free.limit_remaining;
  out.none = none.current_limit;
}
out.invalid = await call(limits, "shouldRateLimit", ask("", "user"));
const unknown = "/envoy.service.ratelimit.v3.RateLimitService/Unknown";
out.unknown = await new Promise((resolve) => {
  const bytes = (message) => message;
  limits.makeUnaryRequest(unknown, bytes, bytes, Buffer.alloc(0), within(5000), (error) =>
    resolve(error?.code),
  );
});
const waits = client(RateLimitService, stuck);
out.deadline = await call(waits, "shouldRateLimit", ask("shop", "user"), 150);
out.check = (await call(health, "check", { service: "ratelimit" })).status;
out.nobody = await call(health, "check", { service: "other" });
out.watch = (await first(health.watch({ service: "" }, within(5000)))).status;
out.services = { v1: await services("v1"), v1alpha: await services("v1alpha") };
for (const made of clients) made.close();
console.log(JSON.stringify(out));
