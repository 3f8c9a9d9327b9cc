"""Several Sluice servers, with many connections to each, share limits on one Redis exactly."""

import concurrent.futures
import json
import multiprocessing
import subprocess
import unittest

from harness import PATIENCE, binary, wait_for
from redis_harness import Resp, die_with_parent
from redis_load import Client, FaultTest, ask, question

SERVERS, PROCESSES, CONNECTIONS, ROUNDS = 8, 8, 6, 25
RULES = """
version: 1
domain: shop
rules:
  - name: hot
    match: { path: /hot }
    limits: [{ name: all, algorithm: ALGORITHM, limit: 500, per: 24h MORE }]
  - name: many
    match: { path: /many }
    limits: [{ name: user, key: "{header.x-user}", algorithm: ALGORITHM, limit: 7, per: 24h MORE }]
  - name: both
    match: { path: /both }
    limits:
      - { name: all, algorithm: ALGORITHM, limit: 300, per: 24h MORE }
      - { name: user, key: "{header.x-user}", algorithm: fixed_window, limit: 11, per: 24h }
  - name: allow
    match: { path: /allow }
    limits: [{ name: user, key: "{header.x-user}", algorithm: fixed_window, limit: 20, per: 24h }]
"""


def rules(algorithm, more=""):
    return RULES.replace("ALGORITHM", algorithm).replace("MORE", more)


def load(number, addresses, path, users, answers):
    """Runs in its own process: several connections, each to another server, send concurrently."""
    die_with_parent()

    def run(connection):
        at, admitted, reasons = number * CONNECTIONS + connection, {}, set()
        with Client(addresses[at % len(addresses)]) as client:
            for i in range(ROUNDS):
                user = f"user{(at * 7 + i) % users}"
                said = client.ask(question(path, user))
                reasons.add(said.reason)
                admitted[user] = admitted.get(user, 0) + (said.outcome == "allowed")
        return admitted, reasons

    with concurrent.futures.ThreadPoolExecutor(CONNECTIONS) as pool:
        for result in pool.map(run, range(CONNECTIONS)):
            answers.put(result)


class Exact(FaultTest):
    def ask_all(self, servers, path, users):
        """Returns how many requests of all processes were admitted for each user."""
        fork = multiprocessing.get_context("fork")
        answers = fork.Queue()
        addresses = [server.http for server in servers]
        processes = [fork.Process(target=load, args=(i, addresses, path, users, answers))
                     for i in range(PROCESSES)]
        for process in processes:
            process.start()
        total, reasons = {}, set()
        for _ in range(PROCESSES * CONNECTIONS):
            admitted, said = answers.get(timeout=PATIENCE)
            reasons |= said
            for user, count in admitted.items():
                total[user] = total.get(user, 0) + count
        for process in processes:
            process.join(PATIENCE)
            self.assertEqual(process.exitcode, 0)
        self.assertLessEqual(reasons, {"ok", "limited", "deny_cache"})
        return total

    def share_exactly(self, url, algorithm="token_bucket", more="", servers=SERVERS):
        running = [self.serve_store(url, rules(algorithm, more))
                   for _ in range(servers)]
        self.assertEqual(sum(self.ask_all(running, "/hot", 1).values()), 500)
        each = self.ask_all(running, "/many", 60)
        self.assertEqual(set(each.values()), {7}, each)
        both = self.ask_all(running, "/both", 60)
        self.assertEqual(sum(both.values()), 300)
        self.assertLessEqual(max(both.values()), 11)

    def test_eight_servers_on_a_standalone_redis_are_exact(self):
        self.share_exactly(self.redis().url)

    def test_eight_servers_on_a_cluster_are_exact(self):
        self.share_exactly(self.cluster(replicas=0).url)

    def test_two_servers_are_exact_with_every_algorithm(self):
        redis = self.redis()
        for algorithm, more in (("fixed_window", ""), ("sliding_window_log", ""),
                                ("sliding_window_counter", ""), ("sliding_window_hybrid", ""),
                                ("leaky_bucket", ""), ("leaky_bucket", ", mode: queue"),
                                ("gcra", "")):
            with self.subTest(algorithm + more):
                redis.command("FLUSHALL")
                self.two_share(redis, algorithm, more)

    def two_share(self, redis, algorithm, more):
        text = f"""
version: 1
domain: shop
rules:
  - name: shared
    match: {{ path: /allow }}
    limits:
      - {{ key: "{{header.x-user}}", algorithm: {algorithm}, limit: 40, per: 24h {more} }}
"""
        first, second = (self.serve_store(redis.url, text) for _ in range(2))
        admitted = []
        with Client(first.http) as one, Client(second.http) as other:
            for i in range(60):
                said = (one if i % 2 else other).ask(question("/allow", "shared"))
                admitted.append(said.outcome == "allowed")
                if i < 40:
                    self.assertEqual(said.remaining, 39 - i)
        self.assertEqual(admitted, [True] * 40 + [False] * 20)

    def test_without_scripts_two_servers_admit_no_more_than_the_limit(self):
        clock = self.stopped_clock()
        redis = self.redis(clock=clock)
        running = [self.serve_store(redis.url, rules("sliding_window_counter").replace(
            "fixed_window,", "fixed_window, align: clock,"), clock=clock, scripting="off")
            for _ in range(2)]
        admitted = sum(self.ask_all(running, "/hot", 1).values())
        self.assertLessEqual(admitted, 500)
        self.assertGreaterEqual(admitted, 400)


class Library(FaultTest):
    """`sluice decide`, which uses the library's store."""

    def decide(self, url):
        """Checks that eight concurrent processes admit exactly the units of the limits."""
        folder = self.folder()
        config = folder / "sluice.yaml"
        config.write_text(json.dumps({"version": 1, "store": url, "redis": {"deadline": "5s"}}))
        limits = {"hot": 500, **{f"key{i}": 7 for i in range(40)}}
        lines = []
        for i in range(400):
            for key in ("hot", f"key{i % 40}"):
                limit = {"algorithm": "gcra", "limit": 1, "per": "24h", "burst": limits[key] - 1}
                charge = {"key": key, "limit": limit}
                request = {"at_us": 1_800_000_000_000_000, "charges": [charge]}
                lines.append((key, json.dumps(request)))
        requests = folder / "requests"
        requests.write_text("".join(line + "\n" for _, line in lines))
        running = []
        for i in range(PROCESSES):
            with open(requests) as source, open(folder / f"answers{i}", "w") as answers:
                running.append(subprocess.Popen([binary(), "decide", "--config", str(config)],
                                                stdin=source, stdout=answers,
                                                preexec_fn=die_with_parent))
        admitted = dict.fromkeys(limits, 0)
        for i, process in enumerate(running):
            self.assertEqual(process.wait(PATIENCE), 0)
            answers = (folder / f"answers{i}").read_text().splitlines()
            self.assertEqual(len(answers), len(lines))
            for (key, _), answer in zip(lines, answers):
                admitted[key] += json.loads(answer)["outcome"] == "allowed"
        self.assertEqual(admitted, limits)

    def test_eight_processes_on_a_standalone_redis_are_exact(self):
        self.decide(self.redis().url)

    def test_eight_processes_on_a_cluster_are_exact(self):
        self.decide(self.cluster(replicas=0).url)


class Sharing(FaultTest):
    def test_servers_share_counters_by_prefix_and_database(self):
        redis = self.redis()
        text = rules("token_bucket")
        urls = {"tcp": redis.url, "socket": f"redis+unix://{redis.path}",
                "database": f"{redis.url}/3", "socket database": f"redis+unix://{redis.path}?db=3"}
        servers = {name: self.serve_store(url, text) for name, url in urls.items()}
        servers["prefix"] = self.serve_store(redis.url, text, prefix="other:")

        def left(name):
            return ask(servers[name], "/many", "u", cost=0).remaining

        self.take(servers["tcp"], "/many", "u", 2)
        self.take(servers["database"], "/many", "u", 4)
        self.assertEqual({name: left(name) for name in servers},
                         {"tcp": 5, "socket": 5, "database": 3, "socket database": 3, "prefix": 7})

    def test_a_reset_reaches_other_servers_when_their_denial_is_not_cached_any_more(self):
        redis = self.redis()
        one, other = (self.serve_store(redis.url, rules("token_bucket"), deny_cache={"longest": "100ms"})
                      for _ in range(2))
        self.assertEqual(self.take(one, "/many", "u", 20), 7)
        self.assertEqual(self.take(other, "/many", "u", 3), 0)
        ask(one, "/many", "u", verb="reset")
        self.assertEqual(ask(one, "/many", "u").reason, "ok")
        wait_for(lambda: ask(other, "/many", "u").reason == "ok", "the reset")

    def test_keys_expire_when_they_are_fully_replenished(self):
        clock = self.stopped_clock()
        redis = self.redis(clock=clock)
        server = self.serve_store(redis.url, rules("token_bucket"))
        self.assertEqual(self.take(server, "/many", "u", 5), 5)
        with Resp(redis.path) as connection:
            [key] = [k for k in connection("KEYS", "*") if b"user" in k or b"many" in k]
            left = connection("PTTL", key)
            self.assertTrue(24 * 3_600_000 * 5 // 7 <= left <= 2 * 24 * 3_600_000, left)
            clock.advance(left / 1000 - 1)
            self.assertEqual(connection("EXISTS", key), 1)
            clock.advance(2)
            self.assertEqual(connection("EXISTS", key), 0)


if __name__ == "__main__":
    unittest.main()
