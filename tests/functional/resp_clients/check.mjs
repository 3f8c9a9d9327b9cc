// Connects with ioredis and with redis of two major versions to the port in argv[2], with the password in
// argv[3] if it is given, and calls CL.THROTTLE and RL.LIMIT. Prints the replies as one JSON object.
// Exits with 1 at the first unexpected error.
import { Redis } from "ioredis";
import { createClient } from "redis";
import { createClient as createClient5 } from "redis5";

const port = Number(process.argv[2]);
const password = process.argv[3];
const out = {};

async function withIoredis() {
  const client = new Redis({ host: "127.0.0.1", port, password, connectionName: "checks" });
  const pipeline = client.pipeline();
  for (let i = 0; i < 1000; i++) pipeline.call("CL.THROTTLE", "io-many", 999, 1, 3600);
  const replies = await pipeline.exec();
  out.ioredis = {
    first: await client.call("CL.THROTTLE", "io", 15, 30, 60),
    limit: await client.call("RL.LIMIT", "io", "token_bucket", "10", "60s"),
    name: await client.client("GETNAME"),
    remaining: replies.map(([error, reply]) => (error ? String(error) : reply[2])),
    error: await client.call("CL.THROTTLE", "io", "x", 1, 1).catch((error) => error.message),
  };
  await client.quit();
}

async function withRedis(create, label, protocol) {
  const client = create({
    socket: { host: "127.0.0.1", port },
    password,
    name: "checks",
    ...protocol,
  });
  await client.connect();
  const many = [];
  for (let i = 0; i < 1000; i++) {
    many.push(client.sendCommand(["CL.THROTTLE", label, "999", "1", "3600"]));
  }
  const transaction = client.multi().addCommand(["CL.THROTTLE", label, "999", "1", "3600"]);
  out[label] = {
    remaining: (await Promise.all(many)).map((reply) => reply[2]),
    limit: await client.sendCommand(["RL.LIMIT", label, "token_bucket", "10", "60s"]),
    ping: await client.ping(),
    name: await client.clientGetName(),
    transaction: await transaction.exec().catch((error) => error.message),
    first: await client.sendCommand(["CL.THROTTLE", label + "2", "15", "30", "60"]),
    info: await client.info(),
  };
  await client.quit();
}

await withIoredis();
await withRedis(createClient, "redis", {});
await withRedis(createClient5, "redis5", { RESP: 2 });
await withRedis(createClient5, "redis5-resp3", { RESP: 3 });
console.log(JSON.stringify(out));
