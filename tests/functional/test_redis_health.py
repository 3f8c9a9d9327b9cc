"""/metrics contains the health of Redis, and nothing about servers that do not answer."""

import re
import subprocess
import unittest

from harness import PATIENCE, binary, wait_for
from redis_harness import RedisTest

RULES = """
version: 1
rules:
  - name: all
    limits: [{ name: ip, key: "{ip}", algorithm: gcra, limit: 100, per: 1s }]
"""
DURATIONS = "sluice_store_duration_seconds"


def health_of(sluice):
    """Returns the metrics of Redis servers: {server: {name: value}}."""
    servers = {}
    for sample, value in sluice.metrics().items():
        if found := re.fullmatch(r'sluice_redis_(\w+)\{server="([^"]*)"\}', sample):
            servers.setdefault(found[2], {})[found[1]] = value
    return servers


class Replica(RedisTest):
    def test_one_server_and_its_replica(self):
        redis = self.redis({"maxmemory": 50_000_000})
        replica = self.redis({"replicaof": f"127.0.0.1 {redis.port}"}, name="replica")
        wait_for(lambda: redis.info("replication")["connected_slaves"] == "1")
        sluice = self.serve(RULES, {"store": redis.url})
        for _ in range(10):
            sluice.check({"attributes": {"ip": "192.0.2.1"}})
        found = wait_for(lambda: health_of(sluice).get(redis.url, {}).get("commands_total"))
        self.assertGreater(found, 0)
        health = health_of(sluice)
        self.assertEqual(list(health), [redis.url])
        health = health[redis.url]
        self.assertEqual(health["memory_max_bytes"], 50_000_000)
        self.assertGreater(health["memory_used_bytes"], 500_000)
        self.assertLess(health["memory_used_bytes"], 50_000_000)
        self.assertEqual(health["evicted_keys_total"], 0)
        self.assertEqual(health["replicas"], 1)
        self.assertIn("replication_lag_seconds", health)
        metrics = sluice.metrics()
        self.assertEqual(metrics[f"{DURATIONS}_count"], metrics["sluice_store_asked_total"])
        self.assertGreater(metrics[f"{DURATIONS}_sum"], 0)

        replica.stop()
        wait_for(lambda: health_of(sluice)[redis.url]["replicas"] == 0)
        self.assertNotIn("replication_lag_bytes", health_of(sluice)[redis.url])


class Silent(RedisTest):
    def test_a_server_that_stops_to_answer_has_no_metrics(self):
        redis = self.redis()
        sluice = self.serve(RULES, {"store": redis.url})
        wait_for(lambda: health_of(sluice), what="the health")
        redis.pause()
        self.addCleanup(redis.resume)
        wait_for(lambda: not health_of(sluice), what="no metrics of a server that does not answer")


class Away(RedisTest):
    def test_a_server_that_answers_again_has_metrics(self):
        redis = self.redis()
        sluice = self.serve(RULES, {"store": redis.url})
        redis.kill()
        wait_for(lambda: not health_of(sluice), what="no metrics of a server that is away")
        redis.start()
        wait_for(lambda: health_of(sluice), what="metrics of a server that answers again")


class Others(RedisTest):
    def test_a_user_that_may_not_ask(self):
        redis = self.redis({"user": "limited on >secret ~* &* +@all -info"})
        url = redis.url.replace("redis://", "redis://limited:secret@")
        sluice = self.serve(RULES, {"store": url})
        self.assertEqual(sluice.check({"attributes": {"ip": "192.0.2.1"}}).json["reason"], "ok")
        wait_for(lambda: redis.info("errorstats").get("errorstat_NOPERM"))
        self.assertEqual(health_of(sluice), {})
        said = "warning Redis refuses to say how it is; the metrics sluice_redis_* are missing"
        wait_for(lambda: said in sluice.log(), what="the warning")
        self.assertRegex(sluice.log(), said.replace("*", r"\*") + r' store=\S+ why="NOPERM .*info')
        # The answer to the first of them has certainly been read when the second one is asked.
        for _ in range(2):
            asked = redis.info("errorstats")["errorstat_NOPERM"]
            again = lambda asked=asked: redis.info("errorstats")["errorstat_NOPERM"] != asked
            wait_for(again, what="the next question")
        self.assertEqual(sluice.log().count(said), 1, "at most one in an hour")
        self.assertNotIn("secret", sluice.log())
        self.assertNotIn("secret", sluice.get("/metrics").body.decode())

    def test_a_server_that_evicts_counters(self):
        redis = self.redis({"maxmemory-policy": "allkeys-lru"})
        sluice = self.serve(RULES, {"store": redis.url})
        said = (f"{redis.url} deletes counters in use when its memory is full: maxmemory-policy is "
                "allkeys-lru; expected noeviction")  # fmt: skip
        wait_for(lambda: f"warning {said}\n" in sluice.log(), what="the warning")
        show = lambda: subprocess.run([binary(), "status", "--admin", sluice.admin], text=True,
                                      capture_output=True, timeout=PATIENCE, check=True).stdout  # fmt: skip
        self.assertIn(f"\nwarning about the store: {said}\n", show())
        redis.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
        wait_for(lambda: "warning about the store" not in show(), what="the end of the trouble")
        self.assertEqual(sluice.log().count(said), 1)

    def test_each_master_of_a_cluster(self):
        cluster = self.cluster(replicas=0)
        sluice = self.serve(RULES, {"store": cluster.url})
        masters = {server.address for server in cluster.servers}
        wait_for(lambda: health_of(sluice).keys() == masters, what="the health of all masters")


if __name__ == "__main__":
    unittest.main()
