// Connects with ioredis and redis to the port in argv[2], with the password in
// argv[3] if there is one, and asks CL.THROTTLE and RL.LIMIT as a program does. Writes what was
// answered as one JSON object; ends with 1 at the first surprise.
import { Redis } from "ioredis";
import { createClient } from "redis";

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

async function withRedis() {
  const client = createClient({
    socket: { host: "127.0.0.1", port },
    password,
    name: "checks",
  });
  await client.connect();
  const many = [];
  for (let i = 0; i < 1000; i++) {
    many.push(client.sendCommand(["CL.THROTTLE", "node-many", "999", "1", "3600"]));
  }
  out.redis = {
    remaining: (await Promise.all(many)).map((reply) => reply[2]),
    limit: await client.sendCommand(["RL.LIMIT", "node", "token_bucket", "10", "60s"]),
    ping: await client.ping(),
  };
  await client.quit();
}

await withIoredis();
await withRedis();
console.log(JSON.stringify(out));
